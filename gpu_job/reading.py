"""The lines of a shard, read from its input in few ranges: lines that are near to each other are one read, and so are the sections that they are of.

The plan moves lines within a window of the file, by the lengths of their answers for one: neighbours in the shard are far from each other in the file then.
So a window's lines are read together, in the file's order, and given in the shard's.

Memory: the lines and the sections of one window, some MiB each or one that is larger. A section that the next lines need too is kept.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple, Protocol, Self

from shared.core import request_line, sectioned
from shared.core.groups import WINDOW_BYTES
from shared.core.plan import PlanLine
from shared.core.request_line import LineError, RequestLine
from shared.core.sectioned import Shared, Span
from shared.ports import Blobs

READ_BYTES = WINDOW_BYTES  # within which the plan has moved lines
READ_GAP = 1 << 20
SECTIONS_BYTES = 4 << 20

Window = list[tuple[int, PlanLine]]
"""Lines that are read together, with their positions."""


class Line(NamedTuple):
    """A line of a shard: its position, its bytes, and the section that it is of, if it is of one."""

    position: int
    raw: bytes
    section: Shared | LineError | None = None

    def request(self, number: int) -> RequestLine | LineError:
        """Read it as a whole request; `number` is its physical number."""
        if self.section is None:
            return request_line.parse(self.raw, number)
        return sectioned.read_request(self.raw, number, self.section)


async def lines(blobs: Blobs, key: str, wanted: Sequence[tuple[int, PlanLine]]) -> AsyncIterator[Line]:
    """Give the lines, with their positions, in their order. NotFound, Unavailable."""
    sections: dict[Span, Shared | LineError] = {}
    for window in _windows(wanted):
        read, sections = await asyncio.to_thread(_read, blobs, key, window, sections)
        for position, line in window:
            section = None if line.section is None else sections[line.section]
            yield Line(position, read.cut(line), section)


def _read(
    blobs: Blobs, key: str, window: Window, known: dict[Span, Shared | LineError]
) -> tuple["_Read", dict[Span, Shared | LineError]]:
    """Give what was read for a window, and the sections of its lines, of which some may be known."""
    read = _Read.of(blobs, key, [line for _, line in window])
    needed = {line.section for _, line in window if line.section is not None}
    sections = {place: known[place] for place in needed & known.keys()}
    elsewhere = []
    for place in sorted(needed - known.keys(), key=lambda place: place.offset):
        if read.holds(place):
            sections[place] = sectioned.decoded(read.cut(place))
        else:
            elsewhere.append(place)
    for places in _near(elsewhere):
        together = _Read.of(blobs, key, places)
        sections |= {place: sectioned.decoded(together.cut(place)) for place in places}
    return read, sections


class _Piece(Protocol):
    """A piece of the input."""

    @property
    def offset(self) -> int: ...

    @property
    def length(self) -> int: ...


class _Range(NamedTuple):
    """Bytes of the input, from `start` on."""

    start: int
    data: bytes

    def holds(self, piece: _Piece) -> bool:
        """Whether a piece is in it."""
        return self.start <= piece.offset and piece.offset + piece.length <= self.start + len(self.data)


class _Read(NamedTuple):
    """What was read at once: ranges, in order, far from each other."""

    ranges: list[_Range]

    @classmethod
    def of(cls, blobs: Blobs, key: str, pieces: Iterable[_Piece]) -> Self:
        """Read the ranges that have all the pieces, and what is between two that are near."""
        covers: list[_Cover] = []
        for piece in sorted(pieces, key=lambda piece: piece.offset):
            wider = covers[-1].with_(piece) if covers else None
            if wider is None:
                covers.append(_Cover.of(piece))
            else:
                covers[-1] = wider
        return cls([_Range(cover.start, blobs.get(key, cover.start, cover.end)) for cover in covers])

    def holds(self, piece: _Piece) -> bool:
        """Whether a piece is in it."""
        return self._behind(piece) > 0 and self.ranges[self._behind(piece) - 1].holds(piece)

    def cut(self, piece: _Piece) -> bytes:
        """Give the bytes of a piece."""
        start, data = self.ranges[self._behind(piece) - 1]
        return data[piece.offset - start : piece.offset - start + piece.length]

    def _behind(self, piece: _Piece) -> int:
        return bisect_right(self.ranges, piece.offset, key=lambda each: each.start)


class _Cover(NamedTuple):
    """A range of the input that one read may have."""

    start: int
    end: int

    @classmethod
    def of(cls, piece: _Piece) -> Self:
        """Cover one piece."""
        return cls(piece.offset, piece.offset + piece.length)

    def with_(self, piece: _Piece, most: float = inf) -> "_Cover | None":
        """Cover a piece behind it as well; None where that were too much, or too much in vain."""
        wider = self.over(piece, most)
        return wider if piece.offset - self.end <= READ_GAP else None

    def over(self, piece: _Piece, most: float) -> "_Cover | None":
        """Cover a piece as well, wherever it is; None where that were too much."""
        wider = _Cover(min(self.start, piece.offset), max(self.end, piece.offset + piece.length))
        return wider if wider.end - wider.start <= most else None


def _near(places: Iterable[Span]) -> Iterator[list[Span]]:
    """Group places so that each group is one read."""
    group: list[Span] = []
    cover: _Cover | None = None
    for place in places:
        cover = cover and cover.with_(place, SECTIONS_BYTES)
        if cover is None:
            if group:
                yield group
            group, cover = [], _Cover.of(place)
        group.append(place)
    if group:
        yield group


def _windows(wanted: Iterable[tuple[int, PlanLine]]) -> Iterator[Window]:
    """Group lines so that a group is near enough to be held at once, and their sections are not too much at once either."""
    window: Window = []
    cover: _Cover | None = None
    sections: set[Span] = set()
    weight = 0
    for position, line in wanted:
        more = line.section.length if line.section is not None and line.section not in sections else 0
        heavy = more and weight + more > SECTIONS_BYTES
        cover = None if heavy else cover and cover.over(line, READ_BYTES)
        if cover is None:
            if window:
                yield window
            window, sections, weight, cover = [], set(), 0, _Cover.of(line)
            more = line.section.length if line.section is not None else 0
        window.append((position, line))
        weight += more
        if line.section is not None:
            sections.add(line.section)
    if window:
        yield window
