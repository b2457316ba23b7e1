from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import FakeTime, Run
from tests.cli.fake_slackwater import FakeSlackwater, answers, batch_object, breaks, refusal

REMOTE = {"SLACKWATER_BASE_URL": "https://batch.example/v1"}


def test_on_this_machine_the_local_key_is_sent(server: FakeSlackwater, run: Run) -> None:
    """A stack that was just started needs no variables, under each name of this machine."""
    for base_url in ("http://127.0.0.1:8000/v1", "http://localhost:9000/gridline/openai/v1/", "http://[::1]:8000/v1"):
        run("get", "batch_1", "--base-url", base_url)

    assert ["Bearer sk-local"] * 3 == [r.headers["authorization"] for r in server.requests]
    assert "http://localhost:9000/gridline/openai/v1/batches/batch_1" == str(server.requests[1].url)


def test_elsewhere_no_key_is_made_up(server: FakeSlackwater, run: Run) -> None:
    """The local key stays on this machine, and the error names the variable to set; an empty one counts as unset."""
    result = run("get", "batch_1", **REMOTE, SLACKWATER_API_KEY="")

    assert "authorization" not in server.requests[0].headers
    assert (
        "error: The API key is not known. (invalid_api_key, request req_fake): "
        "no key was sent: set SLACKWATER_API_KEY or give --api-key\n"
    ) == result.stderr


@pytest.mark.parametrize(
    ("base_url", "key", "hint"),
    [
        ("https://batch.example/v1", "sk-wrong", "check the key in SLACKWATER_API_KEY or --api-key"),
        ("http://127.0.0.1:8000/v1", "", "the key was the local stack's sk-local: set SLACKWATER_API_KEY"),
    ],
)
def test_a_key_that_is_not_known_names_its_variable_and_not_itself(
    server: FakeSlackwater, run: Run, base_url: str, key: str, hint: str
) -> None:
    """The caller learns where the key came from; the key itself is not printed."""
    server.key = "sk-another"
    result = run("list", SLACKWATER_BASE_URL=base_url, SLACKWATER_API_KEY=key)

    assert 1 == result.exit_code
    assert hint in result.stderr
    assert "sk-wrong" not in result.output


def test_an_option_wins_over_its_variable(server: FakeSlackwater, run: Run) -> None:
    """--base-url and --api-key are for one command."""
    server.has_batch(batch_object("batch_1"))
    server.key = "sk-b"
    words = ("--base-url", "https://other.example/v1", "--api-key", "sk-b")
    result = run("get", "batch_1", *words, **REMOTE, SLACKWATER_API_KEY="sk-a")

    assert 0 == result.exit_code
    assert "https://other.example/v1/batches/batch_1" == str(server.requests[0].url)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            breaks(httpx.ConnectError, "no such name"),
            "cannot reach https://batch.example/v1 (no such name): check SLACKWATER_BASE_URL and the network",
        ),
        (
            breaks(httpx.ConnectTimeout),
            "cannot reach https://batch.example/v1 (no connection in 10 s): check SLACKWATER_BASE_URL and the network",
        ),
        (breaks(httpx.ReadTimeout), "https://batch.example/v1 took too long to answer: try again"),
        (breaks(httpx.ReadError, "reset"), "the connection to https://batch.example/v1 broke (reset): try again"),
    ],
)
def test_each_failure_of_the_network_is_one_line(server: FakeSlackwater, run: Run, error: object, told: str) -> None:
    """Who failed, how, and what to do; never a traceback."""
    assert callable(error)
    server.faults = [error] * 20
    result = run("get", "batch_1", **REMOTE)

    assert (1, f"error: {told}\n", "") == (result.exit_code, result.stderr, result.stdout)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>Welcome</html>"),
        httpx.Response(200, json={"object": "batch"}),
        httpx.Response(200, json=[1]),
        httpx.Response(200, content=b"\xff\xfe"),
        httpx.Response(200, json=batch_object("../../etc/passwd")),
        httpx.Response(200, json=batch_object("batch_1", created_at=10**15)),
        httpx.Response(404, json={"message": "Not Found"}),
        httpx.Response(403, json={"error": "forbidden"}),
        httpx.Response(302, headers={"location": "https://login.example/"}),
    ],
)
def test_an_answer_of_somebody_else_is_told(server: FakeSlackwater, run: Run, answer: httpx.Response) -> None:
    """A page, another API, a gateway or a login in the way: the base URL is what to look at."""
    server.faults = [answers(answer)]
    result = run("get", "batch_1")

    assert 1 == result.exit_code
    assert (
        "error: http://127.0.0.1:8000/v1/batches/batch_1 gave an answer that is not Slackwater's "
        f"(HTTP {answer.status_code}): check SLACKWATER_BASE_URL, which usually ends in /v1\n"
    ) == result.stderr


def test_a_list_of_something_else_is_told(server: FakeSlackwater, run: Run) -> None:
    """A list of the right shape with the wrong things in it is not Slackwater's."""
    server.faults = [answers(httpx.Response(200, json={"object": "list", "data": [{"id": 5}]}))]
    result = run("list")

    assert 1 == result.exit_code
    assert "error: http://127.0.0.1:8000/v1 listed something that is no batch" in result.stderr


def test_a_gateway_that_takes_no_part_either_is_told(server: FakeSlackwater, run: Run, tmp_path: Path) -> None:
    """A 413 of something before Slackwater sends the file in parts; where they meet it too, it is told in our words."""
    path = tmp_path / "requests.jsonl"
    path.write_bytes(b"{}\n")
    too_large = answers(httpx.Response(413, json={"message": "Request Too Long"}))
    server.faults = [too_large, too_large]
    result = run("submit", str(path))

    assert 1 == result.exit_code
    assert "error: http://127.0.0.1:8000/v1/uploads takes no request this large (HTTP 413)" in result.stderr


def test_an_error_without_code_or_request_id_has_its_status(server: FakeSlackwater, run: Run) -> None:
    """Null codes are the contract's; the status stands in."""
    answer = refusal(400, None, "No.")
    del answer.headers["x-request-id"]
    server.faults = [answers(answer)]

    assert "error: No. (HTTP 400)\n" == run("get", "batch_1").stderr


def test_a_retry_after_that_is_too_far_away_is_not_waited_for(server: FakeSlackwater, time: FakeTime, run: Run) -> None:
    """A look does not sit still for minutes: the answer is given as it is."""
    server.faults = [answers(refusal(429, "rate_limit_exceeded", "Slow down.", retry_after="120"))]
    result = run("get", "batch_1")

    assert 1 == result.exit_code
    assert [] == time.slept


def test_a_retry_after_date_counts_from_the_servers_own_clock(server: FakeSlackwater, time: FakeTime, run: Run) -> None:
    """Two clocks need not agree."""
    dates = {"date": "Mon, 01 Jan 2001 00:00:00 GMT", "retry_after": "Mon, 01 Jan 2001 00:00:07 GMT"}
    server.has_batch(batch_object("batch_1"))
    server.faults = [
        answers(refusal(503, "unavailable", "Busy.", **dates)),
        answers(refusal(503, "unavailable", "Busy.", retry_after="soon")),
    ]
    result = run("get", "batch_1")

    assert 0 == result.exit_code
    assert [7.0, 1.0] == time.slept


@pytest.mark.parametrize("word", ["../files/file-1", "", "batch 1", "a/b", "-x"])
@pytest.mark.parametrize("command", ["get", "wait", "cancel", "download"])
def test_an_id_that_cannot_be_one_is_wrong_usage(server: FakeSlackwater, run: Run, command: str, word: str) -> None:
    """Ids become paths of URLs and names of files: nothing else is sent."""
    result = run(command, "--", word)

    assert 2 == result.exit_code
    assert [] == server.requests
