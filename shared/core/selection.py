"""Which lines a retry runs: those that have a row in the error file of the batch that it retries.

Every line of a batch that ran has its row in one of the two files, so that the rows of the error file are what failed and what was never answered, of
every kind. A row's id tells the line of the input, in a retry of a retry as well: all of them have the same input. Memory: 8 bytes a line.
"""

from array import array
from collections.abc import Iterable, Iterator

from shared.core import ids, rows
from shared.core.request_line import LineError
from shared.core.scan import Entry


def lines(error_file: Iterable[bytes]) -> "array[int]":
    """Give the lines of an error file, from its bytes in pieces, in their order in the input."""
    return array("Q", sorted(ids.line_of(_id(row)) for row in rows.split(error_file)))


def only(index: Iterable[Entry | LineError], wanted: Iterable[int]) -> Iterator[Entry | LineError]:
    """Leave out of an index the requests that are not wanted. AssertionError when it lacks one that is."""
    left = iter(wanted)
    line = next(left, None)
    for item in index:
        if isinstance(item, Entry):
            if item.line != line:
                continue
            line = next(left, None)
        yield item
    if line is not None:
        raise AssertionError(f"the scan has no request at line {line}, which the error file names")


def _id(row: bytes) -> str:
    # Rows are ours: `shared.core.result_line` writes the id first. Decoding whole rows would take ten times as long.
    return row.split(b'"', 4)[3].decode()
