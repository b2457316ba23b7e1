"""`slackwater validate`, `retry` and `results`."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import FakeTime, Run
from tests.cli.fake_slackwater import FakeSlackwater, answers, batch_object, breaks, refusal

GOOD = {
    "valid": True,
    "requests": 2,
    "model": "echo",
    "errors": None,
    "usage_bounds": {"input_tokens": 120, "output_tokens": 64, "total_tokens": 184},
    "cost_bounds": {"unit": "picousd", "input": "24000000", "output": "38400000", "total": "62400000"},
}
ERROR = {"code": "invalid_json_line", "message": "the line is not JSON", "param": None, "line": 2}
BAD = GOOD | {"valid": False, "cost_bounds": None, "errors": {"data": [ERROR], "total": 1200}}


def passes(_request: httpx.Request, serve: Callable[[], httpx.Response]) -> httpx.Response:
    """Let the request through."""
    return serve()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give a file that the server knows nothing of."""
    place = tmp_path / "requests.jsonl"
    place.write_text("{}\\n")
    return place


def test_validate_says_what_a_file_is_worth_and_leaves_nothing(server: FakeSlackwater, run: Run, file: Path) -> None:
    """The upload is deleted again."""
    server.verdicts = [GOOD]

    result = run("validate", str(file))

    assert 0 == result.exit_code
    assert "valid\tyes" in result.stdout
    assert "tokens\tat most 120 in, 64 out" in result.stdout
    assert "cost\tat most 0.000062400000 USD" in result.stdout
    assert [
        {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    ] == server.validated
    assert (["file-1"], []) == (server.deleted, server.created)


def test_validate_tells_the_errors_of_each_file(server: FakeSlackwater, run: Run, file: Path) -> None:
    """By line, and how many more there are; one bad file makes the exit code 1."""
    server.verdicts = [GOOD, BAD]

    result = run("validate", str(file), str(file))

    assert 1 == result.exit_code
    assert "line 2\tinvalid_json_line: the line is not JSON\nmore\t1199 more errors\n" in result.stdout
    assert "cost\t-" in result.stdout
    assert ["file-1", "file-2"] == server.deleted


def test_validate_tells_a_file_that_cannot_be_uploaded_like_a_bad_one(
    server: FakeSlackwater, run: Run, file: Path
) -> None:
    """By its name, and goes on with the others."""
    server.verdicts = [GOOD]
    server.faults = [answers(refusal(400, "invalid_file_format", "The name must end with .jsonl."))]
    table = file.with_suffix(".csv")
    table.write_text("id,prompt\n")

    result = run("validate", str(table), str(file))

    assert (1, "") == (result.exit_code, result.stderr)
    refused = (
        f"file\t{table}\nvalid\tno\nerror\tThe name must end with .jsonl. (invalid_file_format, request req_fake)\n"
    )
    assert result.stdout.startswith(f"{refused}file\t{file}\nvalid\tyes\n")


def test_validate_ends_where_the_key_is_wrong(server: FakeSlackwater, run: Run, file: Path) -> None:
    """That is no fault of a file."""
    server.faults = [answers(refusal(401, "invalid_api_key", "Incorrect API key."))]

    result = run("validate", str(file), str(file))

    assert (1, "") == (result.exit_code, result.stdout)
    assert result.stderr.startswith("error: Incorrect API key.")


def test_validate_deletes_its_upload_when_it_is_refused(server: FakeSlackwater, run: Run, file: Path) -> None:
    """As a whole, say; the refusal is what is told."""
    server.faults = [passes, answers(refusal(400, "invalid_request", "No such endpoint."))]

    result = run("validate", str(file), "--endpoint", "/v1/x")

    assert (1, "error: No such endpoint. (invalid_request, request req_fake)\n") == (result.exit_code, result.stderr)
    assert ["file-1"] == server.deleted


def test_retry_prints_the_new_batch(server: FakeSlackwater, run: Run) -> None:
    """Under a key of its own, with what is to be different."""
    server.has_batch(batch_object("batch_1", status="completed"))

    result = run("retry", "batch_1", "--window", "72h", "--metadata", "job=again")

    assert (0, "batch_1_of_batch_1\n") == (result.exit_code, result.stdout)
    assert [{"completion_window": "72h", "metadata": {"job": "again"}}] == server.created
    assert "key-1" == server.requests[-1].headers["idempotency-key"]


def test_retry_says_why_there_is_nothing_to_do(server: FakeSlackwater, run: Run) -> None:
    """In the server's words."""
    server.faults = [answers(refusal(409, "nothing_to_retry", "Nothing is left.", x_should_retry="false"))]

    result = run("retry", "batch_1")

    assert (1, "error: Nothing is left. (nothing_to_retry, request req_fake)\n") == (result.exit_code, result.stderr)


def test_results_prints_the_rows_that_there_are(server: FakeSlackwater, run: Run, time: FakeTime) -> None:
    """Page after page, and does not wait for more; what is not ASCII is escaped as JSON does it."""
    server.has_batch(batch_object("batch_1"))
    rows = ['{"id":"r1","text":"Flut \u00e4\U0001f30a"}', '{"id":"r2","n":1.0e-5}']
    server.result_pages["batch_1"] = [
        (rows[:1], "in_progress"),
        (rows[1:], "in_progress"),
        ([], "in_progress"),
        ([], "completed"),
    ]

    result = run("results", "batch_1")

    assert 0 == result.exit_code
    assert '{"id":"r1","text":"Flut \\u00e4\\ud83c\\udf0a"}\n{"id":"r2","n":1.0e-5}\n' == result.stdout
    assert [] == time.slept


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("cancelled", 1)])
def test_results_may_follow_a_batch_to_its_end(
    server: FakeSlackwater, run: Run, time: FakeTime, status: str, code: int
) -> None:
    """Waiting while there is nothing new, through a broken connection; the exit code is the batch's."""
    server.has_batch(batch_object("batch_1"))
    server.result_pages["batch_1"] = [
        (["{}"], "in_progress"),
        ([], "in_progress"),
        ([], "in_progress"),
        (["[]"], status),
    ]
    server.faults = [passes, breaks(httpx.ReadError)]

    result = run("results", "batch_1", "--follow")

    assert (code, "{}\n[]\n") == (result.exit_code, result.stdout)
    assert "asking again" in result.stderr
    assert len(time.slept) >= 3
