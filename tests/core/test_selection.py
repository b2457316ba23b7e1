"""Which lines a retry runs."""

import tracemalloc
from collections.abc import Iterable

import pytest

from shared.core import result_line, rows, selection
from shared.core.records import Ending
from shared.core.request_line import LineError
from shared.core.scan import Entry
from shared.core.selection import Selection


def entry(line: int) -> Entry:
    """Give a line of an index."""
    return Entry(line, 0, 1, str(line), "/v1/chat/completions", "echo", 0, 1, ())


def pieces(data: bytes, size: int) -> Iterable[bytes]:
    """Cut bytes into pieces."""
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_rows_of_an_error_file_name_their_lines(size: int) -> None:
    """In whatever order they stand, and whatever a custom_id looks like."""
    data = (
        result_line.unanswered("batch_1", 12, '"batch_req_9_9"', Ending.EXPIRED)
        + result_line.given_up("batch_1", 3, "a\nb", "server_error", "x")
        + result_line.unanswered("batch_1", 5_000_000_000, "c", Ending.CANCELLED)
    )

    found = selection.of(pieces(data, size))

    assert 3 == len(found)
    assert [3, 12] == [line for line in range(2000) if line in found]
    assert 5_000_000_000 in found
    assert 4_999_999_999 not in found


def test_an_empty_error_file_names_none() -> None:
    """A file may have no bytes."""
    assert 0 == len(selection.of([]))


def test_only_what_is_wanted_is_left_of_an_index() -> None:
    """What is no request stays: it says something about others."""
    refused = LineError(2, "invalid_json_line", "no")

    assert [entry(1), refused, entry(4)] == list(
        selection.only([entry(1), refused, entry(3), entry(4), entry(5)], Selection([4, 1]))
    )


def test_a_line_that_the_scan_has_not_is_a_mistake() -> None:
    """No line is lost silently."""
    with pytest.raises(AssertionError):
        list(selection.only([entry(1), entry(3)], Selection([1, 2])))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_rows_are_split_wherever_pieces_end(size: int) -> None:
    """What follows the last newline is no row; an empty one is."""
    assert [b"ab", b"", b"cde"] == list(rows.split(pieces(b"ab\n\ncde\nrest", size)))


def test_a_million_lines_take_little_memory() -> None:
    """The error file of a batch of which nothing was answered, in any order."""
    tracemalloc.start()
    found = Selection(line * 7919 % 1_000_003 for line in range(1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert 1_000_000 == len(found)
    assert peak < 2 << 20
