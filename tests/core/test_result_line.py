"""The rows of result files: one line each, for every reader."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core import result_line
from shared.core.contracts import CONTRACTS
from shared.core.records import Ending, Usage

OPENAI, GRIDLINE = CONTRACTS["openai"], CONTRACTS["gridline"]
LINE_ENDS = ["\n", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]

texts = st.text(
    st.sampled_from([*LINE_ENDS, "a", "é", "😀", '"', "\\", "\0"]) | st.characters(codec="utf-8"), max_size=8
)
bodies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def told(row: bytes) -> dict[str, Any]:
    """Read a row as the strictest and the most careless reader would; they must agree that it is one line of JSON."""
    text = row.decode()
    assert [text.removesuffix("\n")] == text.splitlines()
    read: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    assert ["id", "custom_id", "response", "error"] == list(read)
    return read


def finite(value: Any) -> Any:
    """Give a value as JSON can hold it: what is no number becomes null."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, list):
        return [finite(child) for child in value]
    if isinstance(value, dict):
        return {key: finite(child) for key, child in value.items()}
    return value


@given(texts, bodies)
def test_whatever_the_engine_says_its_row_is_one_line(custom_id: str, body: object) -> None:
    """No reader splits it, nothing in it is NaN, and it says what the engine said."""
    row = told(result_line.answered("batch_01", 7, custom_id, body))

    expected = {
        "id": "batch_req_01_7",
        "custom_id": custom_id,
        "response": {"status_code": 200, "request_id": "req_01_7", "body": finite(body)},
        "error": None,
    }
    assert expected == row


@pytest.mark.parametrize("end", LINE_ENDS)
def test_no_line_end_of_any_reader_stands_in_a_row(end: str) -> None:
    """In the custom_id, in a key, in a text: escaped, and the same when it is read."""
    row = result_line.answered("batch_01", 7, end, {end: [end]})

    assert end.encode() not in row.removesuffix(b"\n")
    assert (end, {end: [end]}) == (told(row)["custom_id"], told(row)["response"]["body"])


def test_a_row_that_was_given_up_has_an_error_and_no_response() -> None:
    """It never got an answer."""
    row = told(result_line.given_up("batch_01", 7, "a", "server_error", "Retry it."))

    assert (None, {"code": "server_error", "message": "Retry it."}) == (row["response"], row["error"])


@pytest.mark.parametrize("ending", Ending)
def test_every_ending_has_a_row_for_lines_without_one(ending: Ending) -> None:
    """It says why the line did not run."""
    row = told(result_line.unanswered("batch_01", 7, "a", ending))

    assert None is row["response"]
    assert {"code", "message"} == row["error"].keys()


ERROR: dict[str, Any] = {
    "message": "too long",
    "type": "invalid_request_error",
    "param": None,
    "code": "context_length_exceeded",
}


def test_a_failed_row_carries_the_http_answer() -> None:
    """Status and error body, as the API would have said it."""
    row = told(result_line.failed("batch_01", 7, "a", contract=OPENAI, status=400, error=ERROR))

    assert ({"status_code": 400, "request_id": "req_01_7", "body": {"error": ERROR}}, None) == (
        row["response"],
        row["error"],
    )


@pytest.mark.parametrize(
    ("status", "code", "shown"),
    [
        (400, "context_length_exceeded", "context_length_exceeded"),
        (400, "something_else", "invalid_request"),
        (404, None, "invalid_request"),
        (500, "something_else", "server_error"),
    ],
)
def test_where_a_contract_wants_no_http_answers_a_failed_row_has_one_of_its_codes(
    status: int, code: str | None, shown: str
) -> None:
    """A code that it does not know becomes the one of its kind."""
    error = ERROR | {"code": code}
    row = told(result_line.failed("batch_01", 7, "a", contract=GRIDLINE, status=status, error=error))

    assert (None, {"code": shown, "message": "too long"}) == (row["response"], row["error"])


def test_a_row_that_its_file_has_no_room_for_becomes_an_error_and_tells_what_it_used() -> None:
    """The same ids, no answer, and the tokens that are not to be paid."""
    body = {"usage": {"prompt_tokens": 5, "completion_tokens": 3}, "text": "\u2028"}

    row, used = result_line.too_large(result_line.answered("batch_01", 7, "\u2028", body))

    assert ("batch_req_01_7", "\u2028", None) == (told(row)["id"], told(row)["custom_id"], told(row)["response"])
    assert "output_too_large" == told(row)["error"]["code"]
    assert Usage(input_tokens=5, output_tokens=3) == used


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 3}, Usage(input_tokens=5, output_tokens=3)),
        ({"input_tokens": 5, "output_tokens": 3}, Usage(input_tokens=5, output_tokens=3)),
        (
            {
                "prompt_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 2},
            },
            Usage(input_tokens=5, cached_tokens=4, reasoning_tokens=2),
        ),
        ({"prompt_tokens": None, "prompt_tokens_details": None}, Usage()),
        ({"prompt_tokens": "5", "prompt_tokens_details": []}, Usage()),
        (None, Usage()),
        ([], Usage()),
    ],
)
def test_tokens_are_read_under_whichever_name_the_engine_gives_them(usage: object, expected: Usage) -> None:
    """What is missing, null or no number is zero."""
    assert expected == result_line.usage({"usage": usage})


@pytest.mark.parametrize("body", [None, "text", [], {}, {"usage": 3}])
def test_an_answer_without_usage_used_nothing(body: object) -> None:
    """An engine that does not count costs nothing."""
    assert Usage() == result_line.usage(body)
