"""Large files over a network that breaks: in parts, taken up again, scanned after their upload was answered, in flat memory.

`SLACKWATER_LARGE_MIB` says how large; by default just more than what is scanned before the answer.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.e2e.cuts import cutting
from tests.e2e.stack import LocalStack, running, until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

MIB = 1 << 20
LARGE = int(os.environ.get("SLACKWATER_LARGE_MIB", "272")) * MIB
CEILING_KIB = 300 * 1024

SLACKWATER = Path(sys.executable).with_name("slackwater")


def write(path: Path, size: int) -> int:
    """Write at least so many bytes of requests with long prompts and short answers; give how many requests."""
    count = 0
    with path.open("wb") as file:
        while file.tell() < size:
            messages = [{"role": "system", "content": "x" * MIB}, {"role": "user", "content": "hi"}]
            body = {"model": "echo", "messages": messages, "max_tokens": 5}
            line = {"custom_id": f"line-{count}", "method": "POST", "url": "/v1/chat/completions", "body": body}
            file.write(json.dumps(line).encode() + b"\n")
            count += 1
    return count


def peak_kib(stack: LocalStack) -> int:
    """Give the most memory that the API's process ever had, in KiB."""
    for pid in stack.processes("functions.api.server"):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        assert found is not None
        return int(found[1])
    raise AssertionError("the API does not run")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack of its own, whose memory these tests alone use."""
    with running(tmp_path_factory.mktemp("large")) as stack:
        yield stack


def test_the_sdk_uploads_a_large_file_over_a_network_that_breaks(large: LocalStack, tmp_path: Path) -> None:
    """Its parts are repeated; the batch waits for the scan, and every line is answered."""
    path = tmp_path / "large.jsonl"
    count = write(path, LARGE)
    with cutting(large.port, [20 * MIB, 90 * MIB, 91 * MIB]) as proxy:
        with OpenAI(base_url=f"http://127.0.0.1:{proxy.port}/v1", api_key="sk-local", max_retries=4) as client:
            upload = client.uploads.upload_file_chunked(
                file=path, mime_type="application/jsonl", purpose="batch", part_size=32 * MIB
            )
        assert 0 == proxy.cuts_left
    path.unlink()
    assert upload.file is not None
    assert "uploaded" == upload.file.status
    with large.client() as client:
        batch = client.batches.create(
            input_file_id=upload.file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        batch = until(client, batch)
        assert "processed" == client.files.retrieve(upload.file.id).status
    assert "completed" == batch.status
    assert batch.request_counts is not None
    assert (count, count) == (batch.request_counts.total, batch.request_counts.completed)
    assert peak_kib(large) < CEILING_KIB


def submit(base_url: str, path: Path) -> subprocess.Popen[str]:
    """Start the command line."""
    return subprocess.Popen(
        [SLACKWATER, "submit", path],
        env={**os.environ, "SLACKWATER_BASE_URL": base_url, "SLACKWATER_API_KEY": "sk-local"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def arrived(path: Path) -> int:
    """Give how many parts the note beside a file tells of."""
    note = path.with_name(f".{path.name}.slackwater-upload")
    return len(json.loads(note.read_bytes())["parts"]) if note.exists() else 0


def test_the_command_line_goes_on_with_an_upload_that_was_killed(large: LocalStack, tmp_path: Path) -> None:
    """Parts that went straight to the store stay there; the same command sends the others."""
    path = tmp_path / "large.jsonl"
    count = write(path, LARGE)
    with cutting(large.port, []) as proxy:
        base_url = f"http://127.0.0.1:{proxy.port}/v1"
        with submit(base_url, path) as killed:
            while arrived(path) < 2:
                assert killed.poll() is None
                time.sleep(0.01)
            killed.kill()
        before = arrived(path)
        with submit(base_url, path) as again:
            out, err = again.communicate()
    assert 0 == again.returncode, err
    assert re.search(rf"going on with large.jsonl: {before} of \d+ parts are there", err)
    assert [path] == list(tmp_path.iterdir())
    path.unlink()
    with large.client() as client:
        batch = until(client, client.batches.retrieve(out.strip()))
    assert batch.request_counts is not None
    assert ("completed", count) == (batch.status, batch.request_counts.completed)
    assert peak_kib(large) < CEILING_KIB


def test_the_command_line_sends_parts_through_the_api_where_no_urls_are_signed(
    large: LocalStack, tmp_path: Path
) -> None:
    """A mount of smaller files: 4 MiB at a time, over a network that breaks, scanned before the answer."""
    path = tmp_path / "middling.jsonl"
    write(path, 66 * MIB)
    with cutting(large.port, [3 * MIB, 30 * MIB, 31 * MIB, 50 * MIB]) as proxy:
        with submit(f"http://127.0.0.1:{proxy.port}/gridline/openai/v1", path) as command:
            out, err = command.communicate()
        assert 0 == proxy.cuts_left
    assert 0 == command.returncode, err
    assert out.startswith("batch_")
    assert peak_kib(large) < CEILING_KIB
