"""Fitting results into files of limited size."""

import json
from itertools import starmap

from hypothesis import given
from hypothesis import strategies as st

from shared.core import result_line
from shared.core.fit import Fitted, Rows, fit
from shared.core.merge import ROW_BYTES
from shared.core.records import Ending, Usage

LINES = 20
ROOM = LINES * ROW_BYTES


def answer(line: int, size: int) -> bytes:
    """Give a row of the output file with so long an answer, which used as many tokens."""
    usage = {"prompt_tokens": 1, "completion_tokens": size}
    return result_line.answered("batch_1", line, f"id-{line}", {"text": "x" * size, "usage": usage})


def failure(line: int, size: int) -> bytes:
    """Give a row of the error file with so long a message."""
    return result_line.given_up("batch_1", line, f"id-{line}", "server_error", "x" * size)


def ids(data: bytes) -> list[str]:
    """Give the custom_ids of a file's rows."""
    return [json.loads(row)["custom_id"] for row in data.splitlines()]


def test_an_answer_without_room_becomes_an_error_that_is_not_charged() -> None:
    """Later answers that fit still do; its tokens are told, to be taken off."""
    rows = Rows(answer(1, 900) + answer(2, ROOM) + answer(3, 50), failure(4, 10))
    unanswered = result_line.unanswered("batch_1", 5, "id-5", Ending.EXPIRED)
    fitted = fit([rows], [unanswered], limit=ROOM + 100, lines=LINES)
    assert ["id-1", "id-3"] == ids(fitted.output)
    assert ["id-4", "id-2", "id-5"] == ids(fitted.error)
    displaced = json.loads(fitted.error.splitlines()[1])
    assert json.loads(answer(2, 1))["id"] == displaced["id"]
    assert (None, "output_too_large") == (displaced["response"], displaced["error"]["code"])
    assert (1, Usage(input_tokens=1, output_tokens=ROOM)) == (fitted.too_large, fitted.unbilled)


def test_a_long_error_without_room_becomes_a_short_one() -> None:
    """It was never charged, and is none of the answers that became errors."""
    fitted = fit([Rows(b"", failure(1, 2 * ROOM) + failure(2, 5))], [], limit=2 * ROOM, lines=LINES)
    assert ["id-1", "id-2"] == ids(fitted.error)
    assert "output_too_large" == json.loads(fitted.error.splitlines()[0])["error"]["code"]
    assert (b"", 0, Usage()) == (fitted.output, fitted.too_large, fitted.unbilled)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 30_000)), max_size=LINES),
    st.integers(ROOM, 3 * ROOM),
)
def test_every_row_is_in_one_file_and_both_fit(sizes: list[tuple[bool, int]], limit: int) -> None:
    """Whatever the sizes; and the same chunks give the same files."""
    outputs = [(line, size) for line, (ok, size) in enumerate(sizes) if ok]
    errors = [(line, size) for line, (ok, size) in enumerate(sizes) if not ok]
    rows = [Rows(row, b"") for row in starmap(answer, outputs)] + [Rows(b"", row) for row in starmap(failure, errors)]
    left = [result_line.unanswered("batch_1", n, f"id-{n}", Ending.CANCELLED) for n in range(len(sizes), LINES)]

    def fitted() -> Fitted:
        return fit(iter(rows), iter(left), limit=limit, lines=LINES)

    first = fitted()
    assert max(len(first.output), len(first.error)) <= limit
    assert sorted(f"id-{n}" for n in range(LINES)) == sorted(ids(first.output) + ids(first.error))
    assert len(outputs) == len(ids(first.output)) + first.too_large
    assert first == fitted()
