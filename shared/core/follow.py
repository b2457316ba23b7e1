"""What a reader of results is given, in which order: chunks while a batch runs, the same bytes out of the result files when it has ended.

A chunk is its rows of the output file, then those of the error file. The result files are the chunks' rows in the order of the merge (`shared.core.merge`)
and behind them the tail, which no chunk has: rows of lines that were never answered. So the chunks' records, which outlive their objects, tell where in the
files each of them stands, and a place means the same before the end and after it.

Where result files are limited in size, what does not fit is not delivered as it was answered (`shared.core.fit`), and that is not known before the end. There
chunks are given in the order of the merge alone, as far as every row of them is sure to fit; all others are tail.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from shared.core.merge import ROW_BYTES
from shared.core.place import ALL, Place, runs
from shared.core.records import Chunk


class Span(NamedTuple):
    """Bytes of an object, whole rows: from `start`, `length` of them."""

    key: str
    etag: str | None
    start: int
    length: int


class Unit(NamedTuple):
    """Rows that are given together: the chunk `number` of a shard, or (shard None) the tail."""

    shard: int | None
    number: int
    spans: tuple[Span, ...]

    @property
    def length(self) -> int:
        """How many bytes."""
        return sum(span.length for span in self.spans)


class Files(NamedTuple):
    """The result files of a batch that has ended: their keys, and their sizes (0 where there is none)."""

    output_key: str
    output_bytes: int
    error_key: str
    error_bytes: int


def fitting(chunks: Iterable[Chunk], *, limit: int | None, lines: int, first_open: int | None) -> list[Chunk]:
    """Give the chunks whose rows are sure to be delivered as they are, by shard, epoch and number.

    `limit` is the largest result file, `lines` the lines of the batch, `first_open` its first shard that may get more chunks (None: no shard does).
    """
    ordered = sorted(chunks, key=lambda chunk: (chunk.shard, chunk.epoch, chunk.seq))
    if limit is None:
        return ordered
    output = error = 0
    kept = []
    for chunk in ordered:
        output, error = output + chunk.output_bytes, error + chunk.error_bytes
        blocked = first_open is not None and chunk.shard > first_open
        if blocked or output > limit or error > limit - lines * ROW_BYTES:
            break
        kept.append(chunk)
    return kept


def stored(chunks: Sequence[Chunk]) -> Iterator[Unit]:
    """Give the units of chunks whose objects are there."""
    for number, chunk in _numbered(chunks):
        whole = Span(chunk.key, chunk.etag, 0, chunk.output_bytes + chunk.error_bytes)
        yield Unit(chunk.shard, number, (whole,))


def published(chunks: Sequence[Chunk], files: Files) -> Iterator[Unit]:
    """Give the units of chunks, and the tail, out of the result files."""
    output = error = 0
    for number, chunk in _numbered(chunks):
        yield Unit(
            chunk.shard,
            number,
            (
                Span(files.output_key, None, output, chunk.output_bytes),
                Span(files.error_key, None, error, chunk.error_bytes),
            ),
        )
        output, error = output + chunk.output_bytes, error + chunk.error_bytes
    tail = (
        Span(files.output_key, None, output, files.output_bytes - output),
        Span(files.error_key, None, error, files.error_bytes - error),
    )
    if any(span.length for span in tail):
        yield Unit(None, 0, tail)


def ahead(units: Iterable[Unit], place: Place) -> list[tuple[Unit, int]]:
    """Give the units that do not lie behind a place, and the byte of each to begin with: first the one that lies behind in part, the tail last.

    ValueError when it is no place in these units.
    """
    behind = place.behind()
    found = []
    for unit in units:
        if unit.shard is None:
            passed, at = False, place.tail
        else:
            value = behind[unit.shard]
            passed = value == ALL or unit.number < value
            at = place.at if (unit.shard, unit.number) == (place.shard, value) else 0
        if not 0 <= at <= unit.length:
            raise ValueError("a place beyond the rows")
        if not passed and at < unit.length:
            found.append((unit, at))
    return sorted(found, key=lambda each: each[0].shard is None or not each[1])


def place(before: Place, given: Iterable[Unit], part: tuple[Unit, int] | None, over: dict[int, int | None]) -> Place:
    """Give the place behind the units that were given from `before` on, and behind so many bytes of one more.

    `over` has every shard up to the last that has chunks: how many it has where it gets no more, else None.
    """
    behind = before.behind()
    counts = {shard: over[shard] if behind[shard] == ALL else behind[shard] for shard in over}
    tail = before.tail
    for unit in given:
        if unit.shard is None:
            tail = unit.length
        else:
            counts[unit.shard] = unit.number + 1
    marks = (ALL if count == over[shard] else count or 0 for shard, count in sorted(counts.items()))
    shard, at = None, 0
    if part is not None and part[0].shard is None:
        tail = part[1]
    elif part is not None:
        shard, at = part[0].shard, part[1]
    return Place(runs(marks), shard, at, tail)


def _numbered(chunks: Sequence[Chunk]) -> Iterator[tuple[int, Chunk]]:
    """Give chunks with their numbers within their shards."""
    shard, number = -1, 0
    for chunk in chunks:
        shard, number = chunk.shard, number + 1 if chunk.shard == shard else 0
        yield number, chunk
