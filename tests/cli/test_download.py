from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import FakeTime, Run
from tests.cli.fake_slackwater import FakeSlackwater, answers, batch_object, loses_the_answer

BODY = b"".join(b'{"custom_id": "%d"}\n' % number for number in range(1000))
ENDED = batch_object("batch_1", status="completed", output_file_id="file-out")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Give a place for results that does not exist yet."""
    return tmp_path / "results"


def names(directory: Path) -> list[str]:
    """List a directory, hidden files and all."""
    return sorted(path.name for path in directory.iterdir())


def served(_request: httpx.Request, serve: object) -> httpx.Response:
    """Let a request through between faults."""
    assert callable(serve)
    answer = serve()
    assert isinstance(answer, httpx.Response)
    return answer


def test_download_prints_where_the_files_are(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """Output and errors come under names made from the batch's id, an empty file too."""
    server.has_batch(batch_object("batch_1", status="expired", output_file_id="file-out", error_file_id="file-err"))
    server.has_content("file-out", BODY)
    server.has_content("file-err", b"")
    result = run("download", "batch_1", "-o", str(directory))

    assert (0, "") == (result.exit_code, result.stderr)
    assert [f"{directory}/batch_1_output.jsonl", f"{directory}/batch_1_errors.jsonl"] == result.stdout.splitlines()
    assert BODY == (directory / "batch_1_output.jsonl").read_bytes()
    assert b"" == (directory / "batch_1_errors.jsonl").read_bytes()
    assert ["batch_1_errors.jsonl", "batch_1_output.jsonl"] == names(directory)


def test_a_broken_download_goes_on_where_it_broke(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """Every byte comes once, however often the connection breaks."""
    server.has_batch(ENDED)
    server.has_content("file-out", BODY)
    server.cuts = [5000, 1, 0, 7000]
    result = run("download", "batch_1", "-o", str(directory))

    assert 0 == result.exit_code
    assert BODY == (directory / "batch_1_output.jsonl").read_bytes()
    ranges = [(r.headers.get("range"), r.headers.get("if-range")) for r in server.requests[1:]]
    etag = '"file-out-1"'
    assert [
        (None, None),
        ("bytes=5000-", etag),
        ("bytes=5001-", etag),
        ("bytes=5001-", etag),
        ("bytes=12001-", etag),
    ] == ranges


@pytest.mark.parametrize("ignores_if_range", [False, True])
def test_a_file_that_became_another_is_downloaded_anew(
    server: FakeSlackwater, run: Run, directory: Path, *, ignores_if_range: bool
) -> None:
    """Halves of two files are never joined, even by a store that ignores If-Range."""
    server.has_batch(ENDED)
    server.has_content("file-out", b"x" * len(BODY))
    server.cuts = [5000]
    server.ignores_if_range = ignores_if_range

    def replaced(request: httpx.Request, serve: object) -> httpx.Response:
        server.has_content("file-out", BODY)
        return served(request, serve)

    server.faults = [served, served, replaced]
    result = run("download", "batch_1", "-o", str(directory))

    assert 0 == result.exit_code
    assert BODY == (directory / "batch_1_output.jsonl").read_bytes()


def test_a_file_that_became_shorter_is_downloaded_anew(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """416 says that there is nothing to go on with."""
    server.has_batch(ENDED)
    server.has_content("file-out", BODY)
    server.cuts = [5000]
    server.ignores_if_range = True

    def replaced(request: httpx.Request, serve: object) -> httpx.Response:
        server.has_content("file-out", b"{}\n")
        return served(request, serve)

    server.faults = [served, served, replaced]
    result = run("download", "batch_1", "-o", str(directory))

    assert 0 == result.exit_code
    assert b"{}\n" == (directory / "batch_1_output.jsonl").read_bytes()


def test_a_redirect_to_a_store_is_followed_without_the_key(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """The store gets the range and not the credentials; a break goes back to Slackwater for a fresh address."""
    server.has_batch(ENDED)
    server.has_content("file-out", BODY)
    server.redirects_content = True
    server.cuts = [5000]
    result = run("download", "batch_1", "-o", str(directory))

    assert 0 == result.exit_code
    assert BODY == (directory / "batch_1_output.jsonl").read_bytes()
    assert [
        "GET /v1/batches/batch_1",
        "GET /v1/files/file-out/content",
        "GET /file-out?X-Amz-Signature=secret",
        "GET /v1/files/file-out/content",
        "GET /file-out?X-Amz-Signature=secret",
    ] == server.paths()
    assert "bytes=5000-" == server.requests[-1].headers["range"]


def test_a_store_that_refuses_is_named_without_its_signature(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """A signed address is a credential."""
    server.has_batch(ENDED)
    server.redirects_content = True
    server.faults = [served, served, answers(httpx.Response(403, text="<Error/>"))]
    result = run("download", "batch_1", "-o", str(directory))

    assert 1 == result.exit_code
    assert "https://store.example/file-out gave an answer that is not Slackwater's (HTTP 403)" in result.stderr
    assert "secret" not in result.output


def test_a_store_that_cannot_be_reached_is_named(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """The trouble is not the server of the base URL, so its name would lead astray."""

    def gone(request: httpx.Request, _serve: object) -> httpx.Response:
        raise httpx.ConnectError("no route", request=request)

    server.has_batch(ENDED)
    server.redirects_content = True
    server.faults = [served, *[served, gone] * 20]
    result = run("download", "batch_1", "-o", str(directory))

    assert 1 == result.exit_code
    assert result.stderr.startswith("error: cannot reach https://store.example (no route)")


def test_a_download_that_fails_leaves_nothing_and_keeps_the_older_file(
    server: FakeSlackwater, time: FakeTime, run: Run, directory: Path
) -> None:
    """The right name is always a whole file; patience without progress is one minute."""
    directory.mkdir()
    (directory / "batch_1_output.jsonl").write_bytes(b"older\n")
    server.has_batch(ENDED)
    server.has_content("file-out", BODY)
    server.cuts = [5000] + [0] * 100
    result = run("download", "batch_1", "-o", str(directory))

    assert 1 == result.exit_code
    assert result.stderr.startswith("error: the connection to http://127.0.0.1:8000/v1 broke")
    assert sum(time.slept) <= 61
    assert ["batch_1_output.jsonl"] == names(directory)
    assert b"older\n" == (directory / "batch_1_output.jsonl").read_bytes()


def test_a_broken_first_request_is_tried_again(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """A break before the first byte is a break like another."""
    server.has_batch(ENDED)
    server.has_content("file-out", BODY)
    server.faults = [served, loses_the_answer]
    result = run("download", "batch_1", "-o", str(directory))

    assert 0 == result.exit_code
    assert BODY == (directory / "batch_1_output.jsonl").read_bytes()


def test_a_batch_that_runs_has_no_files_yet(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """The command says what to do in place of it, and makes no directory."""
    server.has_batch(batch_object("batch_1", status="in_progress"))
    result = run("download", "batch_1", "-o", str(directory))

    assert 1 == result.exit_code
    assert "error: batch batch_1 is in_progress and has its files when it has ended: slackwater wait batch_1\n" == (
        result.stderr
    )
    assert not directory.exists()


def test_a_batch_without_files_says_so(server: FakeSlackwater, run: Run, directory: Path) -> None:
    """A batch that failed in validation has errors and no files."""
    server.has_batch(batch_object("batch_1", status="failed"))
    result = run("download", "batch_1", "-o", str(directory))

    assert (1, "error: batch batch_1 is failed and left no files: slackwater get batch_1\n") == (
        result.exit_code,
        result.stderr,
    )


def test_a_place_that_cannot_be_written_is_told(server: FakeSlackwater, run: Run, tmp_path: Path) -> None:
    """What the operating system refused is one line with the path."""
    (tmp_path / "file").touch()
    server.has_batch(ENDED)
    server.has_content("file-out", BODY)
    result = run("download", "batch_1", "-o", str(tmp_path / "file" / "below"))

    assert 1 == result.exit_code
    assert f"error: cannot write {tmp_path}/file/below/batch_1_output.jsonl: Not a directory\n" == result.stderr
