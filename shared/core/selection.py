"""Which lines a retry runs: those that have a row in the error file of the batch that it retries.

Every line of a batch that ran has its row in one of the two files, so that the rows of the error file are what failed and what was never answered, of
every kind. A row's id tells the line of the input, in a retry of a retry as well: all of them have the same input.
"""

from collections.abc import Iterable, Iterator

from shared.core import ids, rows
from shared.core.scan import Entry, Item

_BLOCK_BITS = 9


class Selection:
    """A set of line numbers, a bit each: a million neighbours take less than half a megabyte."""

    def __init__(self, lines: Iterable[int]) -> None:
        self._blocks: dict[int, int] = {}
        for line in lines:
            block, bit = divmod(line, 1 << _BLOCK_BITS)
            self._blocks[block] = self._blocks.get(block, 0) | 1 << bit

    def __contains__(self, line: int) -> bool:
        block, bit = divmod(line, 1 << _BLOCK_BITS)
        return bool(self._blocks.get(block, 0) >> bit & 1)

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self._blocks.values())


def of(error_file: Iterable[bytes]) -> Selection:
    """Give the lines of an error file, from its bytes in pieces."""
    return Selection(ids.line_of(_id(row)) for row in rows.split(error_file))


def only(index: Iterable[Item], wanted: Selection) -> Iterator[Item]:
    """Leave out of an index the requests that are not wanted. AssertionError when it lacks one that is."""
    found = 0
    for item in index:
        if isinstance(item, Entry):
            if item.line not in wanted:
                continue
            found += 1
        yield item
    if found != len(wanted):
        raise AssertionError(f"the scan has {found} of the {len(wanted)} lines that the error file names")


def _id(row: bytes) -> str:
    # Rows are ours: `shared.core.result_line` writes the id first. Decoding whole rows would take ten times as long.
    return row.split(b'"', 4)[3].decode()
