"""The requests that the references show, sent with curl to a real server: upload, create, look, download, resume, delete."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api import dialects
from tests.api.dialects import CHAT, EMBEDDINGS, chat, jsonl
from tests.api.runs import MOUNTS, Run
from tests.api.world import KEY, PREFIXES, START, World
from tests.serving import serving


class Shell:
    """A directory with curl in it, and a server that it speaks to."""

    def __init__(self, world: World, port: int, contract: str, folder: Path) -> None:
        self.world = world
        self.port = port
        self.contract = contract
        self.folder = folder

    def curl(self, path: str, *options: str, text: str | None = None) -> str:
        """Send a request as the references do; give what curl prints. Whatever is no success raises."""
        url = f"http://127.0.0.1:{self.port}{PREFIXES[self.contract]}{path}"
        command = ["curl", "--fail", "--silent", "--show-error", url, "-H", f"Authorization: Bearer {KEY}", *options]
        return subprocess.run(command, cwd=self.folder, input=text, capture_output=True, text=True, check=True).stdout

    def upload(self, *lines: dict[str, Any]) -> str:
        """Upload a file of these lines; give its id."""
        (self.folder / "requests.jsonl").write_bytes(jsonl(*lines))
        told = json.loads(self.curl("/files", "-F", "purpose=batch", "-F", "file=@requests.jsonl"))
        assert ("file", "batch", "processed") == (told["object"], told["purpose"], told["status"])
        return str(told["id"])

    def create(self, body: dict[str, Any], *options: str) -> dict[str, Any]:
        """Create a batch with a body from standard input."""
        told: dict[str, Any] = json.loads(
            self.curl(
                "/batches",
                "-H",
                "Content-Type: application/json",
                "--data-binary",
                "@-",
                *options,
                text=json.dumps(body, indent=2),
            )
        )
        return told

    def rows(self, file_id: str) -> list[dict[str, Any]]:
        """Download a result file and give its rows."""
        self.curl(f"/files/{file_id}/content", "--output", "results.jsonl")
        return [json.loads(line) for line in (self.folder / "results.jsonl").read_bytes().splitlines()]


@pytest.fixture
def contract(request: pytest.FixtureRequest) -> str:
    """Give a mount; a test that does not say which has the first."""
    return str(getattr(request, "param", "openai"))


@pytest.fixture
def shell(contract: str, tmp_path: Path) -> Iterator[Shell]:
    """Give a shell that speaks to this mount."""
    world = dialects.world()
    with serving(world.app) as port:
        yield Shell(world, port, contract, tmp_path)


every_mount = pytest.mark.parametrize("contract", MOUNTS, indirect=True)


@every_mount
def test_a_batch_goes_its_way(shell: Shell) -> None:
    """Its rows name the custom_ids; the failed one says why, in the way of the contract."""
    file_id = shell.upload(chat("task-1"), chat("task-2"), chat("task-3"))
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    batch_id = shell.create(body, "-H", "Idempotency-Key: tide-run-1")["id"]
    assert batch_id == shell.create(body, "-H", "Idempotency-Key: tide-run-1")["id"]
    told = json.loads(shell.curl(f"/batches/{batch_id}"))
    assert (file_id, int(START) + 86400, None) == (told["input_file_id"], told["expires_at"], told["output_file_id"])

    Run(shell.world, shell.contract, batch_id).begin().answer_all(bad=["task-2"]).end()

    told = json.loads(shell.curl(f"/batches/{batch_id}"))
    assert ("completed", {"total": 3, "completed": 2, "failed": 1}) == (told["status"], told["request_counts"])
    good, (bad,) = shell.rows(told["output_file_id"]), shell.rows(told["error_file_id"])
    assert {"task-1", "task-3"} == {row["custom_id"] for row in good}
    assert [(None, 200, "tide-7b")] * 2 == [
        (row["error"], row["response"]["status_code"], row["response"]["body"]["model"]) for row in good
    ]
    assert 3 == len({row["id"] for row in [*good, bad]})
    assert 2 == len({row["response"]["request_id"] for row in good})
    assert "task-2" == bad["custom_id"]
    if shell.contract == "gridline":
        assert (None, "invalid_request") == (bad["response"], bad["error"]["code"])
    else:
        assert (None, 400) == (bad["error"], bad["response"]["status_code"])
        assert "invalid_request" == bad["response"]["body"]["error"]["code"]


@every_mount
def test_a_download_is_resumed(shell: Shell) -> None:
    """With the rest where the ETag is that of the file, with the whole where it is not."""
    file_id, content = shell.upload(chat()), jsonl(chat())
    path, got = f"/files/{file_id}/content", shell.folder / "part.jsonl"
    head = shell.curl(path, "--head").lower()
    assert "content-type: application/jsonl\n" in head
    assert "accept-ranges: bytes\n" in head
    etag = next(line.split(": ", 1)[1] for line in head.splitlines() if line.startswith("etag: "))
    for known, status, expected in ((etag, "206", content[40:]), ('"another"', "200", content)):
        said = shell.curl(
            path, "-H", "Range: bytes=40-", "-H", f"If-Range: {known}", "-o", got.name, "-w", "%{http_code}"
        )
        assert (status, expected) == (said, got.read_bytes())


@every_mount
def test_a_file_is_deleted(shell: Shell) -> None:
    """And is gone."""
    file_id = shell.upload(chat())
    assert {"id": file_id, "object": "file", "deleted": True} == json.loads(
        shell.curl(f"/files/{file_id}", "-X", "DELETE")
    )
    with pytest.raises(subprocess.CalledProcessError, match="22"):
        shell.curl(f"/files/{file_id}")


@pytest.mark.parametrize("contract", ["gridline"], indirect=True)
def test_the_long_window_and_embeddings_are_asked_for_in_one_line(shell: Shell) -> None:
    """With `-d`, and no key."""
    body = {"model": "shells", "input": ["first passage", "second passage"]}
    file_id = shell.upload({"custom_id": "e-1", "method": "POST", "url": EMBEDDINGS, "body": body})
    asked = {"input_file_id": file_id, "endpoint": EMBEDDINGS, "completion_window": "72h"}
    told = json.loads(shell.curl("/batches", "-H", "Content-Type: application/json", "-d", json.dumps(asked)))
    assert ("validating", "72h", int(START) + 72 * 3600) == (
        told["status"],
        told["completion_window"],
        told["expires_at"],
    )


def test_a_body_of_unknown_length_is_taken(shell: Shell) -> None:
    """Chunk by chunk, as curl sends what it reads from a pipe."""
    (shell.folder / "requests.jsonl").write_bytes(jsonl(chat()))
    told = json.loads(
        shell.curl("/files", "-H", "Transfer-Encoding: chunked", "-F", "purpose=batch", "-F", "file=@requests.jsonl")
    )
    assert len(jsonl(chat())) == told["bytes"]


def test_an_idempotency_key_is_bytes_of_any_kind(shell: Shell) -> None:
    """Each counts once, be they UTF-8 or not, and other bytes are another key."""
    body = {"input_file_id": shell.upload(chat()), "endpoint": CHAT, "completion_window": "24h"}

    def made(key: bytes) -> tuple[int, str | None]:
        connection = http.client.HTTPConnection("127.0.0.1", shell.port)
        headers: dict[str, str | bytes] = {"authorization": f"Bearer {KEY}", "idempotency-key": key}
        connection.request("POST", "/v1/batches", json.dumps(body), headers)
        answer = connection.getresponse()
        told = answer.status, json.loads(answer.read()).get("id")
        connection.close()
        return told

    keys = (b"\xff" * 256, b"\xff", b"\\xff", "ÿ".encode(), b"\xff" * 256)
    answers = [made(key) for key in keys]
    assert [200] * 5 == [status for status, _ in answers]
    assert answers[0] == answers[-1]
    assert 4 == len(set(answers))
    assert 400 == made(b"\xff" * 257)[0]
