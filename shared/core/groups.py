"""Lines that begin alike, side by side: the order in which a batch goes through the engines.

An engine keeps what it computed for the beginning of a prompt as long as it has room. Where a file mixes many long beginnings, each is computed again and
again; side by side, each is computed once. Order is free, since results come in any.

Lines move within a window of the file only: its bytes are read in one go, whatever the order, and the plan's memory stays flat. Inside a window, lines are
ordered as a tree: by their model, by their first bytes, and within these by a longer beginning (`shared.core.beginnings`), each in the order of its
first line.
"""

from collections.abc import Iterable, Iterator

from shared.core.scan import Entry

WINDOW_BYTES = 16 << 20
WINDOW_LINES = 20_000


def grouped(lines: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the lines of a file, in file order, grouped within windows."""
    window: list[Entry] = []
    for entry in lines:
        end = entry.offset + entry.length
        if window and (len(window) >= WINDOW_LINES or end - window[0].offset > WINDOW_BYTES):
            yield from _ordered(window)
            window = []
        window.append(entry)
    yield from _ordered(window)


def _ordered(window: list[Entry]) -> list[Entry]:
    firsts: dict[tuple[str | int, ...], int] = {}
    for entry in window:
        for branch in _branches(entry):
            firsts.setdefault(branch, entry.line)
    return sorted(window, key=lambda entry: [firsts[branch] for branch in _branches(entry)])


def _branches(entry: Entry) -> list[tuple[str | int, ...]]:
    """Give the ways from the root to the line, each of which it shares with its group: nothing is kept between models, be they adapters of one base."""
    way: tuple[str | int, ...] = (entry.model, *entry.prefixes)
    return [way[:depth] for depth in range(1, len(way) + 1)]
