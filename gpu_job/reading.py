"""The lines of a shard, read from its input in few ranges: lines that are near to each other are one read, and so are the sections that they are of.

Memory: the lines and the sections of one read, some MiB each or one that is larger. A section that the next lines need too is kept.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from shared.core import request_line, sectioned
from shared.core.plan import PlanLine
from shared.core.request_line import LineError, RequestLine
from shared.core.sectioned import Shared, Span
from shared.ports import Blobs

READ_BYTES = 4 << 20
READ_GAP = 1 << 20

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
        data, sections = await asyncio.to_thread(_read, blobs, key, window, sections)
        for position, line in window:
            section = None if line.section is None else sections[line.section]
            yield Line(position, _cut(data, window[0][1].offset, line), section)


def _read(
    blobs: Blobs, key: str, window: Window, known: dict[Span, Shared | LineError]
) -> tuple[bytes, dict[Span, Shared | LineError]]:
    """Give the bytes of a window from its first line on, and the sections of its lines, of which some may be known."""
    data = _range(blobs, key, [line for _, line in window])
    start = window[0][1].offset
    needed = {line.section for _, line in window if line.section is not None}
    sections = {place: known[place] for place in needed & known.keys()}
    elsewhere = []
    for place in sorted(needed - known.keys(), key=lambda place: place.offset):
        if start <= place.offset < start + len(data):
            sections[place] = sectioned.decoded(_cut(data, start, place))
        else:
            elsewhere.append(place)
    for places in _near(elsewhere):
        read = _range(blobs, key, places)
        sections |= {place: sectioned.decoded(_cut(read, places[0].offset, place)) for place in places}
    return data, sections


class _Piece(Protocol):
    """A piece of the input."""

    @property
    def offset(self) -> int: ...

    @property
    def length(self) -> int: ...


def _range(blobs: Blobs, key: str, spans: Sequence[_Piece]) -> bytes:
    return blobs.get(key, spans[0].offset, spans[-1].offset + spans[-1].length)


def _cut(data: bytes, start: int, span: _Piece) -> bytes:
    return data[span.offset - start : span.offset - start + span.length]


def _is_near(first: _Piece, last: _Piece, following: _Piece) -> bool:
    """Whether one read may go on from the last piece to the following one."""
    gap = following.offset - (last.offset + last.length)
    return 0 <= gap <= READ_GAP and following.offset + following.length - first.offset <= READ_BYTES


def _near(places: Iterable[Span]) -> Iterator[list[Span]]:
    """Group places so that each group is one read."""
    group: list[Span] = []
    for place in places:
        if group and not _is_near(group[0], group[-1], place):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _windows(wanted: Iterable[tuple[int, PlanLine]]) -> Iterator[Window]:
    """Group lines so that each group is one read, and their sections are not too much at once either."""
    window: Window = []
    sections: set[Span] = set()
    weight = 0
    for position, line in wanted:
        more = line.section.length if line.section is not None and line.section not in sections else 0
        heavy = more and weight + more > READ_BYTES
        if window and (heavy or not _is_near(window[0][1], window[-1][1], line)):
            yield window
            window, sections, weight = [], set(), 0
            more = line.section.length if line.section is not None else 0
        window.append((position, line))
        weight += more
        if line.section is not None:
            sections.add(line.section)
    if window:
        yield window
