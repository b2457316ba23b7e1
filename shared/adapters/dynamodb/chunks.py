"""The committed chunks: one transaction each, in the partition of their batch.

    Put the chunk        if there is none of its shard, epoch and number
    Update the shard     if it is leased at the epoch, and its counters are those that the caller knows

Why it cannot count twice: the chunk's item can be made once only, whatever arrives late, twice or after a lost answer; the counters move
with it or not at all. Why it cannot be done without every line: the caller is the only lease holder and knows the counters it
adds to; if it misses a commit of its own (one whose answer was lost), the counters differ and nothing is written.
A failure of unknown effect is never repeated here: the caller asks `find`, or commits the very same chunk again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shared.adapters.dynamodb import items, tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key, Sorted
from shared.adapters.dynamodb.record_table import ABSENT, VERSION, RecordTable
from shared.adapters.dynamodb.shards import KIND, key
from shared.adapters.dynamodb.tables import PARTITION, SORT
from shared.core import lease
from shared.core.errors import Conflict, Fenced
from shared.core.ids import BatchRef
from shared.core.plan import committed
from shared.core.records import Chunk, Shard, ShardState

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef


def _key(ref: BatchRef, shard: int, epoch: int, seq: int) -> Key:
    return Key(str(ref), f"C#{shard:06d}#{epoch:06d}#{seq:06d}")


COUNTED = ("completed", "failed", "usage", "gpu_ms", "stalls", "bite")
ENDED = ("state", "owner", "lease_until", tables.QUEUE.partition)


class DynamoChunkLog:
    """`shared.ports.ChunkLog`. Args: the client, and what the names of the deployment's tables begin with."""

    def __init__(self, dynamo: Dynamo, prefix: str) -> None:
        self._dynamo = dynamo
        self._table = tables.SHARDS.named(prefix)
        self._shards = RecordTable(dynamo, self._table, KIND)

    def commit(self, shard: Shard, chunk: Chunk) -> None:
        """Commit a chunk; the commit's very repetition finds it done. Fenced when the lease is lost or the number is another's; Conflict."""
        try:
            self._dynamo.transact([self._counting(shard, committed(shard, chunk)), self._keeping(shard.ref, chunk)])
        except Conflict:
            found = self.find(shard.ref, chunk.shard, chunk.epoch, chunk.seq)
            if found is None:
                lease.insist(self._shards.get(key(shard.ref, shard.index)), shard)
                raise
            if found.key != chunk.key:
                raise Fenced(f"number {chunk.seq} of {shard.ref} is taken by {found.key}") from None

    def _counting(self, seen: Shard, after: Shard) -> "TransactWriteItemTypeDef":
        values = items.fields(after)
        names = COUNTED if lease.is_open(after) else COUNTED + ENDED
        sets = ", ".join(f"#{name} = :{name}" for name in names if name in values)
        removed = ", ".join(f"#{name}" for name in names if name not in values)
        now = {"now_state": ShardState.LEASED.value, "now_epoch": seen.epoch}
        had = {"now_completed": seen.completed, "now_failed": seen.failed}
        return {
            "Update": {
                "TableName": self._table,
                "Key": key(seen.ref, seen.index).encode(),
                "UpdateExpression": f"SET {sets}, #version = #version + :one"
                + (f" REMOVE {removed}" if removed else ""),
                "ConditionExpression": (
                    "#state = :now_state AND #epoch = :now_epoch"
                    " AND #completed = :now_completed AND #failed = :now_failed"
                ),
                "ExpressionAttributeNames": {f"#{name}": name for name in (*names, "state", "epoch", VERSION)},
                "ExpressionAttributeValues": items.encode(
                    {f":{name}": value for name, value in (now | had | {"one": 1}).items()}
                    | {f":{name}": values[name] for name in names if name in values}
                ),
            }
        }

    def _keeping(self, ref: BatchRef, chunk: Chunk) -> "TransactWriteItemTypeDef":
        where = _key(ref, chunk.shard, chunk.epoch, chunk.seq)
        item = {PARTITION: where.pk, SORT: where.sk} | items.fields(chunk)
        return {"Put": {"TableName": self._table, "Item": items.encode(item), "ConditionExpression": ABSENT}}

    def find(self, ref: BatchRef, shard: int, epoch: int, seq: int) -> Chunk | None:
        """Give the committed chunk of that number, as last written, or None."""
        item = self._dynamo.get(self._table, _key(ref, shard, epoch, seq))
        return None if item is None else items.record(item, Chunk)

    def of(self, ref: BatchRef, shard: int | None = None, *, first: int = 0) -> Iterator[Chunk]:
        """Give the committed chunks of a batch, of its shards from `first` on or of one of them, by shard, epoch and number, as last written."""
        one = None if shard is None else Sorted("begins", f"C#{shard:06d}#")
        wanted = one or Sorted("between", f"C#{first:06d}#", "C$")
        for item in self._dynamo.query(self._table, str(ref), wanted):
            yield items.record(item, Chunk)
