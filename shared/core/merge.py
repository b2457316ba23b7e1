"""The merge: committed chunks, and rows for the lines that have none, become the output file and the error file.

A file is a sequence of pieces in a fixed order: the committed chunks by shard, epoch and number, then (error file only) the rows of unanswered
lines by shard. The order follows from the frozen records alone, so that a merge that was stopped anywhere goes on with the same bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shared.core import result_line
from shared.core.assembly import Piece
from shared.core.plan import ShardPlan
from shared.core.records import Batch, Chunk, Counts, Ending, Shard, Usage

ROW_BYTES = 4096  # more than any row without an answer has


class Unanswered(NamedTuple):
    """A piece that is still to be written: the rows of the lines of one shard that have none."""

    shard: int
    positions: tuple[int, ...]


class Totals(NamedTuple):
    """What the merge delivers."""

    counts: Counts
    usage: Usage


def bitmap(positions: Iterable[int], lines: int) -> bytes:
    """Give one bit for each of `lines` positions, set for those given."""
    bits = bytearray((lines + 7) // 8)
    for position in positions:
        bits[position >> 3] |= 1 << (position & 7)
    return bytes(bits)


def positions(bits: bytes) -> Iterator[int]:
    """Give the positions whose bits are set, in order."""
    for index, byte in enumerate(bits):
        for bit in range(8):
            if byte >> bit & 1:
                yield index * 8 + bit


def missing(lines: int, chunks: Iterable[Chunk]) -> tuple[int, ...]:
    """Give the positions of a shard that no chunk answers. AssertionError when a position is answered twice, or is none."""
    union = 0
    for chunk in chunks:
        bits = int.from_bytes(chunk.bitmap, "little")
        if union & bits:
            raise AssertionError(f"chunk {chunk.key} answers positions that are answered already")
        if bits >> lines:
            raise AssertionError(f"chunk {chunk.key} answers positions that the shard does not have")
        if bits.bit_count() != chunk.completed + chunk.failed:
            raise AssertionError(f"chunk {chunk.key} counts other rows than its bitmap")
        union |= bits
    return tuple(position for position in range(lines) if not union >> position & 1)


def pieces(shards: Sequence[Shard], chunks: Sequence[Chunk], phase: str) -> Iterator[Piece | Unanswered]:
    """Give the pieces of the `output` or the `error` file. `chunks` are all committed chunks of the batch."""
    for chunk in sorted(chunks, key=lambda chunk: (chunk.shard, chunk.epoch, chunk.seq)):
        if phase == "output" and chunk.output_bytes:
            yield Piece(chunk.key, chunk.etag, 0, chunk.output_bytes)
        if phase == "error" and chunk.error_bytes:
            yield Piece(chunk.key, chunk.etag, chunk.output_bytes, chunk.output_bytes + chunk.error_bytes)
    if phase == "error":
        by_shard: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            by_shard.setdefault(chunk.shard, []).append(chunk)
        for shard in sorted(shards, key=lambda shard: shard.index):
            left = missing(shard.lines, by_shard.get(shard.index, ()))
            if left:
                yield Unanswered(shard.index, left)


def rows(plan: ShardPlan, piece: Unanswered, ending: Ending) -> bytes:
    """Write the rows of lines that have none."""
    lines = (plan.lines[position] for position in piece.positions)
    return b"".join(result_line.unanswered(plan.batch, line.line, line.custom_id, ending) for line in lines)


def most_bytes(piece: Piece | Unanswered) -> int:
    """Give how many bytes a piece has at most."""
    return piece.size if isinstance(piece, Piece) else len(piece.positions) * ROW_BYTES


def largest(shards: Sequence[Shard], chunks: Sequence[Chunk]) -> int:
    """Give how large the larger of the two files is at most."""
    unanswered = sum(shard.lines - shard.answered for shard in shards)
    output = sum(chunk.output_bytes for chunk in chunks)
    error = sum(chunk.error_bytes for chunk in chunks)
    return max(output, error + unanswered * ROW_BYTES)


def totals(batch: Batch, shards: Sequence[Shard], chunks: Sequence[Chunk]) -> Totals:
    """Sum what is delivered; answers that were too large for their file are errors.

    AssertionError when rows and lines do not add up: better no result than a wrong one.
    """
    completed = sum(chunk.completed for chunk in chunks)
    failed = sum(chunk.failed for chunk in chunks)
    lines = sum(shard.lines for shard in shards)
    counted = (sum(shard.completed for shard in shards), sum(shard.failed for shard in shards))
    if lines != batch.counts.total or (completed, failed) != counted:
        raise AssertionError(f"{batch.ref}: the shards do not add up to the batch")
    usage = sum((chunk.usage for chunk in chunks), Usage()) - batch.cursor.unbilled
    too_large = batch.cursor.too_large
    return Totals(Counts(total=lines, completed=completed - too_large, failed=failed + too_large), usage)
