import json

import httpx
import pytest

from tests.cli.conftest import FakeTime, Run
from tests.cli.fake_slackwater import CREATED_AT, FakeSlackwater, answers, batch_object, counts, refusal


def test_get_shows_what_is_known_about_a_batch(server: FakeSlackwater, run: Run) -> None:
    """Every known field is a line; what the server does not know is left out."""
    fields = {
        "status": "in_progress",
        "model": "echo",
        "metadata": {"job": "night"},
        "slackwater": {"reason": "no_spot_capacity", "since": CREATED_AT},
    }
    server.has_batch(batch_object("batch_1", **fields, **counts(10, 4, 1)))
    result = run("get", "batch_1")

    assert 0 == result.exit_code
    assert [
        "id\tbatch_1",
        "status\tin_progress",
        "reason\tno_spot_capacity",
        "model\techo",
        "endpoint\t/v1/chat/completions",
        "window\t24h",
        "created\t2026-05-28 20:26:40Z",
        "ends by\t2026-05-29 20:26:40Z",
        "rows\t10 total, 4 completed, 1 failed",
        "input file\tfile-in",
        "metadata job\tnight",
    ] == result.stdout.splitlines()


def test_get_as_json_is_what_the_server_sent(server: FakeSlackwater, run: Run) -> None:
    """Fields that the command line does not know are there as well."""
    batch = batch_object("batch_1", pricing={"unknown": [1, 2.5, None]}, metadata={"name": "é"})
    server.has_batch(batch)
    result = run("get", "batch_1", "--json")

    assert batch == json.loads(result.stdout)


def test_long_error_lists_are_cut_and_say_so(server: FakeSlackwater, run: Run) -> None:
    """Twenty errors are shown, and where the others are."""
    errors = [{"code": "invalid_json_line", "message": "No.", "param": None, "line": n} for n in range(1, 31)]
    server.has_batch(batch_object("batch_1", status="failed", errors={"object": "list", "data": errors}))
    lines = run("get", "batch_1").stdout.splitlines()

    assert "line 20\tinvalid_json_line: No." == lines[-2]
    assert "more\t10 more errors: slackwater get batch_1 --json" == lines[-1]


def test_errors_that_the_server_does_not_send_are_counted_too(server: FakeSlackwater, run: Run) -> None:
    """A batch holds the first thousand errors, and how many there are."""
    errors = [{"code": "invalid_json_line", "message": "No.", "param": None, "line": n} for n in range(1, 1001)]
    listed = {"object": "list", "data": errors, "total": 4000}
    server.has_batch(batch_object("batch_1", status="failed", errors=listed))

    assert "more\t3980 more errors: slackwater get batch_1 --json" == run("get", "batch_1").stdout.splitlines()[-1]


def test_control_characters_of_the_server_never_reach_the_terminal(server: FakeSlackwater, run: Run) -> None:
    """A value with an escape sequence, a line break or a tab is shown escaped, in its own cell."""
    server.has_batch(batch_object("batch_1", metadata={"k": "\x1b[2Jgone\nid\tbatch_2"}))
    result = run("get", "batch_1")

    assert "metadata k\t\\x1b[2Jgone\\nid\\tbatch_2" == result.stdout.splitlines()[-1]


def test_list_shows_the_newest_first_and_says_when_there_are_more(server: FakeSlackwater, run: Run) -> None:
    """Twenty batches are shown if nothing else is said, and nobody takes them for all."""
    for number in range(30):
        server.has_batch(batch_object(f"batch_{number}", **counts(10, 3, 2)))
    result = run("list")
    lines = result.stdout.splitlines()

    assert "id\tstatus\tcreated\trows\tfailed\tmodel" == lines[0]
    assert "batch_29\tvalidating\t2026-05-28 20:26:40Z\t5/10\t2\t-" == lines[1]
    assert [f"batch_{n}" for n in range(29, 9, -1)] == [line.split("\t")[0] for line in lines[1:]]
    assert "there are more than 20: --limit N shows more, --all every one\n" == result.stderr


def test_list_all_walks_every_page_once(server: FakeSlackwater, run: Run) -> None:
    """Pages of a hundred are read until there are no more."""
    for number in range(250):
        server.has_batch(batch_object(f"batch_{number}"))
    result = run("list", "--all")

    assert [f"batch_{n}" for n in range(249, -1, -1)] == [
        line.split("\t")[0] for line in result.stdout.splitlines()[1:]
    ]
    assert "" == result.stderr
    assert [
        "GET /v1/batches?limit=100",
        "GET /v1/batches?limit=100&after=batch_150",
        "GET /v1/batches?limit=100&after=batch_50",
    ] == server.paths()


def test_a_limit_above_a_page_takes_several(server: FakeSlackwater, run: Run) -> None:
    """--limit counts batches and not pages."""
    for number in range(250):
        server.has_batch(batch_object(f"batch_{number}"))
    result = run("list", "--limit", "120")

    assert 121 == len(result.stdout.splitlines())


def test_list_as_json_is_one_list_object(server: FakeSlackwater, run: Run) -> None:
    """However many pages were read, the output is one list of the contract's shape."""
    batches = [batch_object(f"batch_{number}") for number in range(3)]
    for batch in batches:
        server.has_batch(batch)
    result = run("list", "--json", "--limit", "2")

    assert {
        "object": "list",
        "data": [batches[2], batches[1]],
        "first_id": "batch_2",
        "last_id": "batch_1",
        "has_more": True,
    } == json.loads(result.stdout)


def test_an_empty_list_is_a_header_or_an_empty_list_object(run: Run) -> None:
    """No batches is no error."""
    assert ["id\tstatus\tcreated\trows\tfailed\tmodel"] == run("list").stdout.splitlines()
    assert {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False} == json.loads(
        run("list", "--json").stdout
    )


def test_a_list_that_never_ends_is_refused(server: FakeSlackwater, run: Run) -> None:
    """A server that promises more and gives nothing new does not keep the command busy for ever."""
    page = {"object": "list", "data": [batch_object("batch_1")], "has_more": True}
    server.faults = [lambda _request, _serve: _json(page)] * 3
    result = run("list", "--all")

    assert 1 == result.exit_code
    assert "promised another page and did not give it" in result.stderr


@pytest.mark.parametrize("words", [("--limit", "0"), ("--limit", "many"), ("--limit", "3", "--all")])
def test_limits_that_cannot_be_meant_are_wrong_usage(run: Run, words: tuple[str, ...]) -> None:
    """Exit code 2, nothing sent."""
    assert 2 == run("list", *words).exit_code


def test_cancel_says_where_the_batch_is_now(server: FakeSlackwater, run: Run) -> None:
    """The status after the cancel is printed; the command does not wait for the end."""
    server.has_batch(batch_object("batch_1", status="in_progress"))
    result = run("cancel", "batch_1")

    assert (0, "batch_1 cancelling\n") == (result.exit_code, result.stdout)


def test_cancel_of_an_ended_batch_is_an_error(server: FakeSlackwater, run: Run) -> None:
    """What the server refuses is printed as it says it."""
    server.has_batch(batch_object("batch_1", status="completed"))
    result = run("cancel", "batch_1")

    assert 1 == result.exit_code
    assert "error: The batch has already ended. (batch_ended, request req_fake)\n" == result.stderr


@pytest.mark.parametrize(("ending", "exit_code"), [("cancelled", 0), ("completed", 1)])
def test_cancel_and_wait_is_content_with_a_cancelled_batch_alone(
    server: FakeSlackwater, run: Run, ending: str, exit_code: int
) -> None:
    """Exit code 0 says that the batch was cancelled, not that it ended."""
    server.has_batch(batch_object("batch_1", status="in_progress"), {}, {"status": ending, **counts(5, 2)})
    result = run("cancel", "batch_1", "--wait")

    assert exit_code == result.exit_code
    assert f"status\t{ending}" in result.stdout.splitlines()
    assert "never ran\t3" in result.stdout.splitlines()


def test_a_busy_server_is_asked_again_a_few_times(server: FakeSlackwater, time: FakeTime, run: Run) -> None:
    """A look is repeated after 503 with growing waits, and given up after a quarter of a minute."""
    server.faults = [answers(refusal(503, "unavailable", "Busy."))] * 9
    result = run("get", "batch_1")

    assert 1 == result.exit_code
    assert "error: Busy. (unavailable, request req_fake)\n" == result.stderr
    assert [0.5, 1.0, 2.0, 4.0] == time.slept


def _json(value: object) -> httpx.Response:
    return httpx.Response(200, json=value)
