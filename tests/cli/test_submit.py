import os
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import FakeTime, Run
from tests.cli.fake_slackwater import (
    CREATED_AT,
    FakeSlackwater,
    answers,
    breaks,
    counts,
    loses_the_answer,
    refusal,
)

LINES = b'{"custom_id": "a"}\n{"custom_id": "b"}\n'


@pytest.fixture
def requests_file(tmp_path: Path) -> Path:
    """Give an input file."""
    path = tmp_path / "requests.jsonl"
    path.write_bytes(LINES)
    return path


def test_a_submitted_file_becomes_a_batch_and_its_id_is_all_of_stdout(
    server: FakeSlackwater, run: Run, requests_file: Path
) -> None:
    """The id alone is on stdout, so that a shell can catch it."""
    result = run("submit", str(requests_file))

    assert (0, "batch_1\n") == (result.exit_code, result.stdout)
    assert "uploaded requests.jsonl (38 bytes) as file-1\n" == result.stderr
    assert [("batch", "requests.jsonl", LINES)] == server.uploads
    assert [
        {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    ] == server.created


def test_endpoint_window_and_metadata_go_into_the_batch(server: FakeSlackwater, run: Run, requests_file: Path) -> None:
    """What the options say is what is created, and a value may hold equals signs."""
    words = ("--endpoint", "/v1/embeddings", "--window", "72h", "--metadata", "job=night", "--metadata", "eq=a=b")
    result = run("submit", str(requests_file), *words)

    assert 0 == result.exit_code
    assert [
        {
            "input_file_id": "file-1",
            "endpoint": "/v1/embeddings",
            "completion_window": "72h",
            "metadata": {"job": "night", "eq": "a=b"},
        }
    ] == server.created


@pytest.mark.parametrize(
    ("line", "endpoint"),
    [
        (b'{"custom_id": "a", "url": "/v1/embeddings"}', "/v1/embeddings"),
        (b'\xef\xbb\xbf{"url": "/v1/responses"}', "/v1/responses"),
        (b'{"url": "/v1/images"}', "/v1/chat/completions"),
        (b'{"url": 1}', "/v1/chat/completions"),
        (b"not JSON", "/v1/chat/completions"),
        (b"\xff", "/v1/chat/completions"),
        (b'{"url": "\xff"}', "/v1/chat/completions"),
        (b'{"format": "batchrouter.sectioned.v1"}\n{"section": "s", "url": "/v1/embeddings"}', "/v1/embeddings"),
        (b'{"format": "batchrouter.sectioned.v1"}\n{"section": "s"}', "/v1/chat/completions"),
    ],
)
def test_the_endpoint_is_that_of_the_first_line(
    server: FakeSlackwater, run: Run, requests_file: Path, line: bytes, endpoint: str
) -> None:
    """Where none is said; what is wrong with the line is for the server to say."""
    requests_file.write_bytes(line + b"\n" + LINES)

    assert 0 == run("submit", str(requests_file)).exit_code
    assert endpoint == server.created[0]["endpoint"]


def test_an_answer_lost_after_the_create_does_not_make_a_second_batch(
    server: FakeSlackwater, run: Run, requests_file: Path
) -> None:
    """The create is repeated under the same idempotency key and finds the first one's batch."""
    server.faults = [lambda _request, serve: serve(), loses_the_answer]
    result = run("submit", str(requests_file))

    assert (0, "batch_1\n") == (result.exit_code, result.stdout)
    assert 1 == len(server.created)
    assert ["key-1", "key-1"] == [r.headers["idempotency-key"] for r in server.requests[1:]]


def test_two_submits_have_two_keys(server: FakeSlackwater, run: Run, requests_file: Path) -> None:
    """A key stands for one submit, not for one file."""
    run("submit", str(requests_file))
    result = run("submit", str(requests_file))

    assert "batch_2\n" == result.stdout
    assert 2 == len(server.created)


def test_a_throttled_upload_is_sent_again_whole(
    server: FakeSlackwater, time: FakeTime, run: Run, requests_file: Path
) -> None:
    """A 429 kept nothing, so the file goes again from its first byte after the time that was asked for."""
    server.faults = [answers(refusal(429, "rate_limit_exceeded", "Slow down.", retry_after="3"))]
    result = run("submit", str(requests_file))

    assert 0 == result.exit_code
    assert [3.0] == time.slept
    assert [("batch", "requests.jsonl", LINES)] == server.uploads


def test_an_upload_whose_answer_was_lost_is_not_repeated(server: FakeSlackwater, run: Run, requests_file: Path) -> None:
    """Uploads have no key: a second would be a second file, so the caller decides."""
    server.faults = [loses_the_answer]
    result = run("submit", str(requests_file))

    assert 1 == result.exit_code
    assert "error: the connection to http://127.0.0.1:8000/v1 broke (reset by peer): try again\n" == result.stderr
    assert 1 == len(server.uploads)


def test_a_refused_create_is_told_and_not_repeated(server: FakeSlackwater, run: Run, requests_file: Path) -> None:
    """A limit that says x-should-retry: false is an answer, 429 or not."""
    limit = refusal(429, "limit_exceeded", "Four batches are open.", x_should_retry="false")
    server.faults = [lambda _request, serve: serve(), answers(limit)]
    result = run("submit", str(requests_file))

    assert 1 == result.exit_code
    assert "error: Four batches are open. (limit_exceeded, request req_fake)" == result.stderr.splitlines()[-1]
    assert ["POST /v1/files", "POST /v1/batches"] == server.paths()


def test_wait_downloads_both_files_and_sums_up(
    server: FakeSlackwater, run: Run, requests_file: Path, tmp_path: Path
) -> None:
    """With --wait the command ends when the batch did, its files are on disk, and the numbers are printed."""
    server.has_content("file-out", b'{"custom_id": "a"}\n')
    server.has_content("file-err", b'{"custom_id": "b"}\n')
    server.next_batch_plays(
        {"status": "in_progress", **counts(3, 0)},
        {
            "status": "completed",
            "completed_at": CREATED_AT + 75,
            "output_file_id": "file-out",
            "error_file_id": "file-err",
            "usage": {"input_tokens": 12, "output_tokens": 5, "total_tokens": 17},
            **counts(3, 1, 1),
        },
    )
    directory = tmp_path / "deep" / "answers"
    result = run("submit", str(requests_file), "--wait", "-o", str(directory))

    assert 0 == result.exit_code
    assert b'{"custom_id": "a"}\n' == (directory / "batch_1_output.jsonl").read_bytes()
    assert b'{"custom_id": "b"}\n' == (directory / "batch_1_errors.jsonl").read_bytes()
    assert [
        "batch_1",
        "batch\tbatch_1",
        "status\tcompleted",
        "rows\t3",
        "completed\t1",
        "failed\t1",
        "never ran\t1",
        "tokens\t12 in, 5 out",
        "took\t0:01:15",
        f"file\t{directory}/batch_1_output.jsonl",
        f"file\t{directory}/batch_1_errors.jsonl",
    ] == result.stdout.splitlines()


def test_wait_without_a_directory_writes_into_results(
    server: FakeSlackwater, run: Run, requests_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Result files go to results/ where the command is run, unless -o says otherwise."""
    monkeypatch.chdir(tmp_path)
    server.has_content("file-out", b"{}\n")
    server.next_batch_plays({"status": "completed", "output_file_id": "file-out", **counts(1, 1)})
    run("submit", str(requests_file), "--wait")

    assert ["batch_1_output.jsonl"] == [path.name for path in Path("results").iterdir()]


def test_a_batch_that_fails_ends_the_wait_with_its_errors_and_exit_code_1(
    server: FakeSlackwater, run: Run, requests_file: Path
) -> None:
    """Refused lines are printed with their numbers; nothing is downloaded."""
    error = {"code": "url_mismatch", "message": "The url is another.", "param": "url", "line": 2}
    server.next_batch_plays({"status": "failed", "errors": {"object": "list", "data": [error]}})
    result = run("submit", str(requests_file), "--wait")

    assert 1 == result.exit_code
    assert "line 2\turl_mismatch: The url is another." == result.stdout.splitlines()[-1]


def test_a_download_that_is_stopped_tells_how_to_get_the_files(
    server: FakeSlackwater, run: Run, requests_file: Path, tmp_path: Path
) -> None:
    """The batch was paid for: whoever loses the download learns that the files are still there."""
    server.next_batch_plays({"status": "completed", "output_file_id": "file-gone", **counts(1, 1)})
    result = run("submit", str(requests_file), "--wait", "-o", str(tmp_path))

    assert 1 == result.exit_code
    assert [
        "batch batch_1 has completed; get its files with: slackwater download batch_1",
        "error: There is no such file. (not_found, request req_fake)",
    ] == result.stderr.splitlines()[-2:]


def test_files_that_cannot_be_an_input_are_wrong_usage(server: FakeSlackwater, run: Run, tmp_path: Path) -> None:
    """A missing, empty or special file is refused before anything is sent."""
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    results = [run("submit", str(path)) for path in (tmp_path / "no.jsonl", tmp_path, empty, pipe)]

    assert [2, 2, 2, 2] == [result.exit_code for result in results]
    assert "is empty: it needs one request a line" in results[2].stderr
    assert "is not a regular file" in results[3].stderr
    assert [] == server.requests


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--metadata", "word"), "metadata is key=value, not 'word'"),
        (("--metadata", "=value"), "metadata is key=value, not '=value'"),
        (("--metadata", "a=1", "--metadata", "a=2"), "metadata names 'a' twice"),
        (("-o", "somewhere"), "-o needs --wait"),
        (("--base-url", "localhost:8000"), "the base URL has to look like"),
        (("--base-url", "https://me:secret@host/v1"), "the base URL takes no user"),
        (("--api-key", "sk with space"), "the API key has characters that no key has"),
    ],
)
def test_wrong_options_are_wrong_usage(
    server: FakeSlackwater, run: Run, requests_file: Path, words: tuple[str, ...], told: str
) -> None:
    """What cannot be meant is refused with exit code 2 before anything is sent."""
    result = run("submit", str(requests_file), *words)

    assert 2 == result.exit_code
    assert told in result.stderr
    assert "secret" not in result.output
    assert [] == server.requests


def test_a_server_that_is_not_there_is_told_at_once(
    server: FakeSlackwater, time: FakeTime, run: Run, requests_file: Path
) -> None:
    """Nobody waits for a server that was never started."""
    server.faults = [breaks(httpx.ConnectError, "[Errno 111] Connection refused")]
    result = run("submit", str(requests_file))

    assert 1 == result.exit_code
    assert (
        "error: cannot reach http://127.0.0.1:8000/v1 ([Errno 111] Connection refused): is `slackwater up` running there?\n"
        == result.stderr
    )
    assert [] == time.slept
