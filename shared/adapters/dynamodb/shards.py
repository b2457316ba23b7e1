"""The shards of a batch, and the queue of those that are open.

The attribute `queue` is in an item exactly while its shard is open, and says whether it is ready or leased; it is what the sparse index is made of.
Every change but a commit (`chunks.py`) is one of the pure functions of `shared.core.lease`, by compare-and-set.
"""

from collections.abc import Callable, Sequence

from shared.adapters.dynamodb import tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key, Sorted
from shared.adapters.dynamodb.record_table import Kind, RecordTable
from shared.core import lease
from shared.core.errors import Conflict
from shared.core.ids import BatchRef
from shared.core.records import Shard, ShardState

TOGETHER = 100  # the most that a transaction takes
TRIES = 20


def key(ref: BatchRef, index: int) -> Key:
    """Give the key of a shard's item."""
    return Key(str(ref), f"S#{index:06d}")


def _queue(shard: Shard) -> dict[str, str]:
    return {tables.QUEUE.partition: _in(shard.state, shard.revision)} if lease.is_open(shard) else {}


def _in(state: ShardState, revision: str) -> str:
    return f"{state}/{revision}"


KIND = Kind(Shard, lambda shard: key(shard.ref, shard.index), _queue)


class DynamoShards:
    """`shared.ports.Shards` and `ShardQueue`. Args: the client, and what the names of the deployment's tables begin with."""

    def __init__(self, dynamo: Dynamo, prefix: str) -> None:
        self._dynamo = dynamo
        self._table = tables.SHARDS.named(prefix)
        self._shards = RecordTable(dynamo, self._table, KIND)

    def put(self, shards: Sequence[Shard]) -> None:
        """Keep those that are not there yet, a hundred in a transaction."""
        for start in range(0, len(shards), TOGETHER):
            self._put(shards[start : start + TOGETHER])

    def _put(self, shards: Sequence[Shard]) -> None:
        missing = shards
        for attempt in range(TRIES):
            try:
                self._dynamo.transact([{"Put": self._shards.insertion(shard)} for shard in missing])
            except Conflict:
                self._dynamo.pause(attempt)
            else:
                return
            missing = [shard for shard in missing if self._shards.find(key(shard.ref, shard.index)) is None]
            if not missing:
                return
        raise Conflict("the same shards are put by too many at once: try again later")

    def of(self, ref: BatchRef) -> list[Shard]:
        """Give all shards of a batch, by index, as last written."""
        return [self._shards.record(item) for item in self._dynamo.query(self._table, str(ref), Sorted("begins", "S#"))]

    def drain(self, shard: Shard) -> None:
        """Close it when nobody leases it, else mark it draining."""
        self._change(shard, lease.drained)

    def reclaim(self, shard: Shard, at: float) -> bool:
        """Take the lease of `shard.epoch` away; False when it is lost already."""
        held = False

        def change(now: Shard) -> Shard:
            nonlocal held
            held = lease.holds(now, shard)
            return lease.reclaimed(now, shard, at)

        self._change(shard, change)
        return held

    def close(self, shard: Shard) -> None:
        """Close it, whatever its state."""
        self._change(shard, lease.closed)

    def ready(self, revision: str, each: int) -> list[Shard]:
        """Give the first `each` ready shards of every organization by rank, from the index: a query an organization at the most.

        Ranks begin with the organization and a slash: behind all of them lies what begins with the organization and a zero, the next character.
        """
        partition = _in(ShardState.READY, revision)
        ready: list[Shard] = []
        behind = None
        while True:
            found = self._dynamo.query(self._table, partition, behind, index=tables.QUEUE, limit=each)
            page = [self._shards.record(item) for item in found]
            ready += page
            if len(page) < each:
                return ready
            behind = Sorted(">", f"{page[-1].org}0")

    def leased(self, revision: str, limit: int | None = None) -> list[Shard]:
        """Give the leased shards of a revision by rank, from the index."""
        found = self._dynamo.query(self._table, _in(ShardState.LEASED, revision), index=tables.QUEUE, limit=limit)
        return [self._shards.record(item) for item in found]

    def lease(self, shard: Shard, owner: str, until: float) -> Shard:
        """Lease a ready shard at the next epoch; Conflict."""
        return self._shards.update(key(shard.ref, shard.index), lambda now: lease.taken(now, shard, owner, until))

    def renew(self, shard: Shard, until: float) -> Shard:
        """Prolong the lease; Fenced when it is lost."""
        return self._shards.update(key(shard.ref, shard.index), lambda now: lease.renewed(now, shard, until))

    def release(self, shard: Shard) -> None:
        """Give the lease back; a draining shard is closed."""
        self._change(shard, lambda now: lease.released(now, shard))

    def _change(self, shard: Shard, change: Callable[[Shard], Shard]) -> None:
        self._shards.update(key(shard.ref, shard.index), change)
