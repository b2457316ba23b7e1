"""The worker: one model revision, one engine, shard after shard."""
