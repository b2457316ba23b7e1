"""The shards of batches in memory, their queue, and the committed chunks."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from threading import RLock

import msgspec

from shared.adapters.memory.rows import Rows
from shared.core import lease
from shared.core.errors import Fenced
from shared.core.ids import BatchRef
from shared.core.plan import committed
from shared.core.records import Chunk, Shard, ShardState


class MemoryShards:
    """`shared.ports.Shards` and `ShardQueue`."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._shards: Rows[tuple[BatchRef, int], Shard] = Rows(Shard)

    def put(self, shards: Sequence[Shard]) -> None:
        """Keep those that are not there yet."""
        with self._lock:
            for shard in shards:
                if (shard.ref, shard.index) not in self._shards:
                    self._shards[shard.ref, shard.index] = shard

    def of(self, ref: BatchRef) -> list[Shard]:
        """Give all shards of a batch, by index."""
        with self._lock:
            return sorted(self._shards.where(lambda key: key[0] == ref), key=lambda shard: shard.index)

    def drain(self, shard: Shard) -> None:
        """Close it when nobody leases it, else mark it draining."""
        self._change(shard, lease.drained)

    def reclaim(self, shard: Shard, at: float) -> bool:
        """Take the lease of `shard.epoch` away; False when it is lost already."""
        with self._lock:
            held = lease.holds(self.get(shard), shard)
            self._change(shard, lambda now: lease.reclaimed(now, shard, at))
            return held

    def close(self, shard: Shard) -> None:
        """Close it, whatever its state."""
        self._change(shard, lease.closed)

    def ready(self, revision: str, each: int) -> list[Shard]:
        """Give the first `each` ready shards of every organization by rank."""
        by_org = groupby(self._in(ShardState.READY, revision), key=lambda shard: shard.org)
        return [shard for _, shards in by_org for shard in islice(shards, each)]

    def leased(self, revision: str, limit: int | None = None) -> list[Shard]:
        """Give the leased shards of a revision by rank."""
        return self._in(ShardState.LEASED, revision)[:limit]

    def open(self, revision: str) -> list[Shard]:
        """Give all open shards of a revision by rank. For tests."""
        return sorted(self.leased(revision) + self._in(ShardState.READY, revision), key=lambda shard: shard.rank)

    def _in(self, state: ShardState, revision: str) -> list[Shard]:
        with self._lock:
            shards = list(self._shards.where(lambda _: True))
        mine = (shard for shard in shards if shard.state is state and shard.revision == revision)
        return sorted(mine, key=lambda shard: shard.rank)

    def lease(self, shard: Shard, owner: str, until: float) -> Shard:
        """Lease a ready shard at the next epoch; Conflict."""
        with self._lock:
            return self.write(lease.taken(self.get(shard), shard, owner, until))

    def renew(self, shard: Shard, until: float) -> Shard:
        """Prolong the lease; Fenced when it is lost."""
        with self._lock:
            return self.write(lease.renewed(self.get(shard), shard, until))

    def release(self, shard: Shard) -> None:
        """Give the lease back; a draining shard is closed."""
        self._change(shard, lambda now: lease.released(now, shard))

    def get(self, shard: Shard) -> Shard:
        """Give the record that `shard` is a copy of, as it is now; NotFound."""
        return self._shards.get((shard.ref, shard.index))

    def write(self, shard: Shard) -> Shard:
        """Write a record over the one that was read under the same lock."""
        self._shards[shard.ref, shard.index] = shard
        return shard

    def _change(self, shard: Shard, change: Callable[[Shard], Shard]) -> None:
        with self._lock:
            self.write(change(self.get(shard)))


class MemoryChunkLog:
    """`shared.ports.ChunkLog`."""

    def __init__(self, lock: RLock, shards: MemoryShards) -> None:
        self._lock = lock
        self._shards = shards
        self._chunks: Rows[tuple[BatchRef, int, int, int], Chunk] = Rows(Chunk)

    def commit(self, shard: Shard, chunk: Chunk) -> None:
        """Commit a chunk; the commit's very repetition finds it done. Fenced when the lease is lost or the number is another's; Conflict."""
        committed(shard, chunk)  # a chunk that cannot be of this lease is a mistake, whatever the record says
        with self._lock:
            found = self.find(shard.ref, chunk.shard, chunk.epoch, chunk.seq)
            if found is not None:
                if found.key != chunk.key:
                    raise Fenced(f"number {chunk.seq} of {shard.ref} is taken by {found.key}")
                return
            now = self._shards.get(shard)
            lease.insist(now, shard)
            self._shards.write(committed(msgspec.structs.replace(now, bite=shard.bite), chunk))
            self._chunks[shard.ref, chunk.shard, chunk.epoch, chunk.seq] = chunk

    def find(self, ref: BatchRef, shard: int, epoch: int, seq: int) -> Chunk | None:
        """Give the committed chunk of that number, or None."""
        with self._lock:
            return self._chunks.find((ref, shard, epoch, seq))

    def of(self, ref: BatchRef, shard: int | None = None, *, first: int = 0) -> Iterator[Chunk]:
        """Give the committed chunks of a batch, of its shards from `first` on or of one of them, by shard, epoch and number."""
        with self._lock:
            chunks = list(self._chunks.where(lambda key: key[0] == ref and key[1] >= first and shard in {None, key[1]}))
        return iter(sorted(chunks, key=lambda chunk: (chunk.shard, chunk.epoch, chunk.seq)))
