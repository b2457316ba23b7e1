"""Large files from the command line: in parts, and taken up again where they broke off."""

import json
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import FakeTime, Run
from tests.cli.fake_slackwater import FakeSlackwater, answers, breaks, loses_the_answer, refusal

MIB = 1 << 20
CONTENT = b"".join(bytes([number]) * MIB for number in range(66))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Give a file that is too large for one request."""
    path = tmp_path / "large.jsonl"
    path.write_bytes(CONTENT)
    return path


def note(path: Path) -> Path:
    """Name the note beside a file."""
    return path.with_name(f".{path.name}.slackwater-upload")


@pytest.mark.parametrize(("signs", "parts"), [(True, 5), (False, 17)])
def test_a_large_file_goes_up_in_parts(
    server: FakeSlackwater, run: Run, large: Path, *, signs: bool, parts: int
) -> None:
    """Straight to the store where URLs are signed, else through the API; the file is the same."""
    server.in_parts.signs = signs

    result = run("submit", str(large))

    assert (0, "batch_1\n") == (result.exit_code, result.stdout), result.stderr
    assert [CONTENT] == server.in_parts.files
    assert parts == server.in_parts.arrived
    assert [] == server.uploads
    assert not note(large).exists()


def test_the_key_does_not_go_to_the_store(server: FakeSlackwater, run: Run, large: Path) -> None:
    """A signed URL says all that has to be said."""
    run("submit", str(large))

    puts = [request for request in server.requests if request.method == "PUT"]
    assert 5 == len(puts)
    assert not any("authorization" in request.headers for request in puts)


@pytest.mark.parametrize("signs", [True, False])
def test_parts_whose_connection_broke_are_sent_again(
    server: FakeSlackwater, run: Run, large: Path, *, signs: bool
) -> None:
    """Before or after they arrived."""
    server.in_parts.signs = signs
    through = answers_as_served
    server.faults += [through, through, breaks(httpx.ConnectError), loses_the_answer, breaks(httpx.ReadTimeout)]

    result = run("submit", str(large))

    assert 0 == result.exit_code, result.stderr
    assert [CONTENT] == server.in_parts.files


def answers_as_served(_: httpx.Request, serve: object) -> httpx.Response:
    """Go wrong nowhere."""
    assert callable(serve)
    answer: httpx.Response = serve()
    return answer


@pytest.mark.parametrize("signs", [True, False])
def test_the_same_command_sends_what_is_missing(
    server: FakeSlackwater, run: Run, large: Path, time: FakeTime, *, signs: bool
) -> None:
    """What has arrived is noted, and not sent again."""
    server.in_parts.signs = signs
    down = refusal(500, "server_error", "Something went wrong.")
    served = 0

    def fault(request: httpx.Request, serve: object) -> httpx.Response:
        nonlocal served
        is_part = request.method == "PUT" or request.url.path.endswith("/parts")
        served += is_part
        if is_part and served > 3:
            return down
        return answers_as_served(request, serve)

    server.faults += [fault] * 10_000
    first = run("submit", str(large))
    server.faults.clear()
    there = server.in_parts.arrived
    time.now += 1000
    second = run("submit", str(large))

    assert 1 == first.exit_code
    assert "the same command goes on where it broke off" in first.stderr
    assert 3 == there
    assert f"going on with large.jsonl: 3 of {5 if signs else 17} parts are there" in second.stderr
    assert (0, 5 if signs else 17) == (second.exit_code, server.in_parts.arrived)
    assert [CONTENT] == server.in_parts.files
    assert 1 == len(server.in_parts.uploads)


def interrupted(server: FakeSlackwater, run: Run, large: Path) -> None:
    """Break off before the completion."""
    server.faults += [answers_as_served] * 8 + [answers(refusal(400, "invalid_request", "No."))]
    assert 1 == run("submit", str(large)).exit_code
    assert note(large).exists()


def test_an_upload_that_is_over_is_begun_anew(server: FakeSlackwater, run: Run, large: Path) -> None:
    """It expires after an hour."""
    interrupted(server, run, large)
    server.in_parts.expire()

    assert 0 == run("submit", str(large)).exit_code
    assert (2, 10) == (len(server.in_parts.uploads), server.in_parts.arrived)


def test_a_completion_whose_answer_was_lost_is_not_repeated(server: FakeSlackwater, run: Run, large: Path) -> None:
    """The upload tells its file."""
    interrupted(server, run, large)
    upload = server.in_parts.uploads["upload_1"]
    upload |= {"status": "completed", "file": {"id": "file-77", "bytes": len(CONTENT)}}

    assert 0 == run("submit", str(large)).exit_code
    assert "file-77" == server.created[0]["input_file_id"]
    assert not note(large).exists()


def test_a_changed_file_is_another_file(server: FakeSlackwater, run: Run, large: Path) -> None:
    """Its parts do not fit the old ones."""
    interrupted(server, run, large)
    large.write_bytes(CONTENT[::-1])

    assert 0 == run("submit", str(large)).exit_code
    assert [CONTENT[::-1]] == server.in_parts.files


def test_a_spoiled_note_is_no_note(server: FakeSlackwater, run: Run, large: Path) -> None:
    """The upload begins anew."""
    note(large).write_text(json.dumps({"parts": "nonsense"}))

    assert 0 == run("submit", str(large)).exit_code
    assert [CONTENT] == server.in_parts.files


def test_a_gateway_that_takes_no_large_request_is_passed_in_parts(
    server: FakeSlackwater, run: Run, tmp_path: Path
) -> None:
    """Its 413 is not Slackwater's, which would be final."""
    path = tmp_path / "middling.jsonl"
    path.write_bytes(CONTENT[: 6 * MIB])
    server.in_parts.signs = False
    server.faults.append(answers(httpx.Response(413, json={"message": "Request Too Long"})))

    assert 0 == run("submit", str(path)).exit_code
    assert [CONTENT[: 6 * MIB]] == server.in_parts.files


def test_a_file_that_slackwater_finds_too_large_is_refused(server: FakeSlackwater, run: Run, large: Path) -> None:
    """At once, with its words."""
    server.faults.append(answers(refusal(413, "file_too_large", "The file is larger than 1 byte.")))

    result = run("submit", str(large))

    assert 1 == result.exit_code
    assert "larger than 1 byte" in result.stderr
    assert not note(large).exists()
