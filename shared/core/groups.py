"""The order in which a batch goes through the engines: lines that begin alike side by side, and long answers first.

An engine keeps what it computed for the beginning of a prompt as long as it has room. Where a file mixes many long beginnings, each is computed again and
again; side by side, each is computed once. And where long answers come last, the engine writes them when it has nothing else to do, nearly empty; early,
the short ones fill it beside them. Order is free, since results come in any.

Lines move within a window of the file only: its bytes are read in one go, whatever the order, and the plan's memory stays flat. Inside a window, lines are
ordered as a tree: by their model, by their first bytes, and within these by a longer beginning (`shared.core.beginnings`), each where its longest
answer belongs. A line that names no limit may have the longest of all.
"""

from collections.abc import Iterable, Iterator
from math import inf

from shared.core.scan import Entry

WINDOW_BYTES = 16 << 20
WINDOW_LINES = 20_000


def grouped(lines: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the lines of a file, which come in file order, in the order of the engines."""
    window: list[Entry] = []
    for entry in lines:
        end = entry.offset + entry.length
        if window and (len(window) >= WINDOW_LINES or end - window[0].offset > WINDOW_BYTES):
            yield from _ordered(window)
            window = []
        window.append(entry)
    yield from _ordered(window)


def _ordered(window: list[Entry]) -> list[Entry]:
    places: dict[tuple[str | int, ...], tuple[float, int]] = {}
    for entry in window:
        place = _place(entry)
        for branch in _branches(entry):
            places[branch] = min(place, places.get(branch, place))
    return sorted(window, key=lambda entry: [*(places[branch] for branch in _branches(entry)), _place(entry)])


def _place(entry: Entry) -> tuple[float, int]:
    """Give where a line would stand by itself: before shorter answers, and else in the file's order."""
    return -(entry.cap or inf), entry.line


def _branches(entry: Entry) -> list[tuple[str | int, ...]]:
    """Give the ways from the root to the line, each of which it shares with its group: nothing is kept between models, be they adapters of one base."""
    way: tuple[str | int, ...] = (entry.model, *entry.prefixes)
    return [way[:depth] for depth in range(1, len(way) + 1)]
