"""The plan: an accepted file cut into shards of bounded work.

A shard is what one worker leases: enough lines that leases are rare, few enough that many workers can share a batch and that a
lost worker costs little. Lines come in the order of `shared.core.groups`, which moves them within a window of the file only, so that a shard
is a few ranges of the input.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from shared.core.contract import Contract
from shared.core.contracts import CONTRACTS
from shared.core.records import Batch, Chunk, Shard, ShardState
from shared.core.scan import Entry
from shared.core.sectioned import Span

BYTES_PER_TOKEN = 4  # English text; only the balance of shards rests on it
STALLS = 3


class PlanLine(msgspec.Struct, frozen=True, array_like=True):
    """A line of a shard; its place in the shard is its position. See `shared.core.scan.Entry`."""

    line: int
    offset: int
    length: int
    custom_id: str
    section: Span | None = None


class ShardPlan(msgspec.Struct, frozen=True):
    """All that a worker needs to know of a shard besides its lease.

    Attributes:
        batch: The batch's id.
        org: Its organization; salts the engine's prefix cache.
        contract: Whose rows to write.
        input_key: The object that holds the lines.
        endpoint: The url of every line.
        lines: The lines, by position.

    """

    batch: str
    org: str
    contract: str
    input_key: str
    endpoint: str
    lines: list[PlanLine]

    @property
    def rules(self) -> Contract:
        """The contract."""
        return CONTRACTS[self.contract]


class ShardSize(msgspec.Struct, frozen=True):
    """The most of a shard: lines, and tokens of prompts and allowed answers together.

    Where a file would make more than some `shards` by its tokens, a shard may have more of them (`widened`).
    """

    lines: int = 1000
    tokens: int = 2_000_000
    shards: int = 4000


class Cut(NamedTuple):
    """The lines of one shard, and what they cost at most: tokens of prompts and allowed answers together."""

    lines: list[PlanLine]
    tokens: int


_PLAN = msgspec.msgpack.Decoder(ShardPlan)


def encode(plan: ShardPlan) -> bytes:
    """Write a shard's plan."""
    return msgspec.msgpack.encode(plan)


def decode(data: bytes) -> ShardPlan:
    """Read what `encode` wrote."""
    return _PLAN.decode(data)


def _cost(entry: Entry, default_cap: int) -> int:
    return entry.size // BYTES_PER_TOKEN + (entry.cap or default_cap) * entry.n


def widened(size: ShardSize, lines: Iterable[Entry], default_cap: int) -> ShardSize:
    """Give the size by which all lines of a file make no more than about `size.shards` shards, however much they may cost."""
    total = sum(_cost(entry, default_cap) for entry in lines)
    return msgspec.structs.replace(size, tokens=max(size.tokens, -(-total // size.shards)))


def cut(lines: Iterable[Entry], size: ShardSize, default_cap: int) -> Iterator[Cut]:
    """Cut lines into shards. `default_cap` stands for the answers of lines that name no limit."""
    shard: list[PlanLine] = []
    tokens = 0
    for entry in lines:
        cost = _cost(entry, default_cap)
        if shard and (len(shard) >= size.lines or tokens + cost > size.tokens):
            yield Cut(shard, tokens)
            shard, tokens = [], 0
        shard.append(PlanLine(entry.line, entry.offset, entry.length, entry.custom_id, entry.section))
        tokens += cost
    if shard:
        yield Cut(shard, tokens)


def shard(batch: Batch, revision: str, index: int, cut: Cut, urgent_at: int) -> Shard:
    """Give the record of a new shard (`shared.core.window.Timing.urgent_at`); closed from the start when the batch has been ended meanwhile."""
    return Shard(
        org=batch.org,
        contract=batch.contract,
        batch=batch.id,
        index=index,
        revision=revision,
        lines=len(cut.lines),
        rank=rank(batch, index),
        tokens=cut.tokens,
        deadline=batch.expires_at,
        urgent_at=urgent_at,
        state=ShardState.CLOSED if batch.ending else ShardState.READY,
    )


def rank(batch: Batch, index: int) -> str:
    """Where a shard stands among those of its organization: by deadline, then by batch, then in file order."""
    return f"{batch.org}/{batch.expires_at:012d}/{batch.id}/{index:06d}"


def committed(shard: Shard, chunk: Chunk) -> Shard:
    """Return the shard after a commit of `chunk` under its lease: how every store counts, and how a worker keeps its own copy in step.

    AssertionError when the chunk is of another lease, or answers no line, or more than are left.
    """
    rows = chunk.completed + chunk.failed
    if (chunk.shard, chunk.epoch) != (shard.index, shard.epoch) or not 0 < rows <= shard.lines - shard.answered:
        raise AssertionError(f"chunk {chunk.key} is none of shard {shard.index} of {shard.ref} at epoch {shard.epoch}")
    after = msgspec.structs.replace(
        shard,
        completed=shard.completed + chunk.completed,
        failed=shard.failed + chunk.failed,
        usage=shard.usage + chunk.usage,
        gpu_ms=shard.gpu_ms + chunk.gpu_ms,
        stalls=0,
    )
    if after.answered < shard.lines:
        return after
    return msgspec.structs.replace(after, state=ShardState.DONE, owner=None, lease_until=0)


def stalled(shard: Shard, at: float) -> Shard:
    """Return the shard after its lease ran out at `at` without being given back.

    One poisonous line can take whole workers down. A shard that loses lease after lease without a commit is therefore fed to the
    engine in ever smaller bites, down to one line at a time: then the lines before it get through, and it stands alone.
    A commit takes the stalls back, and the row that gives a line up takes the bite back.
    """
    stalls = shard.stalls + 1
    bite = shard.bite
    if stalls >= STALLS and bite != 1:
        bite, stalls = max(1, (bite or shard.lines - shard.answered) // 8), 0
    return msgspec.structs.replace(
        shard, state=ShardState.READY, owner=None, lease_until=at, stalls=stalls, bite=bite, epoch=shard.epoch + 1
    )


def hopeless(shard: Shard) -> bool:
    """Whether the shard's first unanswered line has killed enough workers, running alone, to be given up."""
    return shard.bite == 1 and shard.stalls >= STALLS
