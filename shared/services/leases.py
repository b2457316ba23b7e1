"""Leases that ran out: whoever sees one takes it back, so that a lost worker holds nothing up for longer than its lease."""

from collections.abc import Sequence

from shared.core.records import Shard, ShardState
from shared.ports import Shards


def take_back(shards: Shards, seen: Sequence[Shard], at: float) -> None:
    """Take back those leases that had run out at `at`. Of several callers one does it; a lease renewed meanwhile by its clock is lost all the same."""
    for shard in seen:
        if shard.state is ShardState.LEASED and shard.lease_until < at:
            shards.reclaim(shard, at)
