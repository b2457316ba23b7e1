"""A local stack as a person starts it, and what a test does with it: through HTTP with the official SDK, and to its processes with signals."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI
from openai.types import Batch

from local.options import DEFAULT_MOUNT, MOUNTS
from shared.settings import ApiSettings

ENDED = {"completed", "failed", "expired", "cancelled"}
START_SECONDS = 120.0
END_SECONDS = 200.0
CORE = "VLLM::EngineCore"
SERVER = "vllm.entrypoints.openai.api_server"


class LocalStack:
    """A running local stack."""

    def __init__(self, port: int, state: Path, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.state = state
        self.process = process

    def client(self, key: str = "sk-local", contract: str = DEFAULT_MOUNT) -> OpenAI:
        """Give the official SDK, told nothing but the base URL of a contract's mount and the key."""
        return OpenAI(base_url=f"http://127.0.0.1:{self.port}{MOUNTS[contract]}", api_key=key)

    def workers(self) -> list[int]:
        """Give the process ids of the workers."""
        mine = f"SLACKWATER_STATE_DIR={self.state}\0".encode()
        return [pid for pid, args in _processes() if args[1:] == ["-m", "gpu_job"] and mine in _environment(pid)]

    def processes(self, module: str) -> list[int]:
        """Give the process ids of this stack's processes that run a module."""
        return [
            pid
            for pid, args in _processes()
            if f"--port={self.port}" in args or str(self.port) in args
            if module in args and "gpu_job.leash" not in args
        ]

    def engines(self) -> list[int]:
        """Give the process ids of vLLM's servers."""
        mine = f"VLLM_CACHE_ROOT={self.state}/".encode()
        return [
            pid
            for pid, args in _processes()
            if SERVER in args and "gpu_job.leash" not in args and mine in _environment(pid)
        ]

    def engine_cores(self) -> list[int]:
        """Give the process ids of what computes behind vLLM's servers."""
        servers = self.engines()
        return [pid for pid, args in _processes() if CORE in args and _parent(pid) in servers]

    def echo_engines(self) -> list[int]:
        """Give the process ids of the echo engines."""
        mine = f"SLACKWATER_STATE_DIR={self.state}\0".encode()
        return [
            pid
            for pid, args in _processes()
            if "gpu_job.echo_engine" in args and "gpu_job.leash" not in args and mine in _environment(pid)
        ]

    def api_settings(self) -> ApiSettings:
        """Give what the stack's API was told: another one stands on the same stores with it."""
        (pid,) = self.processes("functions.api.server")
        variables = (entry.partition("=") for entry in _environment(pid).decode().split("\0"))
        return ApiSettings.from_env({name: value for name, _, value in variables})

    def signal_worker(self, number: signal.Signals) -> None:
        """Send a signal to a worker that is there, waiting for one where there is none yet."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for pid in self.workers():
                os.kill(pid, number)
                return
            time.sleep(0.05)
        raise AssertionError("no worker came")

    def engine_starts(self) -> int:
        """Give how many workers have ever started an engine."""
        return len(list((self.state / "engines").glob("*.log")))


@contextmanager
def running(state: Path, *options: str) -> Iterator[LocalStack]:
    """Run a stack for the length of a block."""
    port = free_port()
    state.mkdir(parents=True, exist_ok=True)
    with (state / "stack.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "local", f"--port={port}", f"--state={state}", *options],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _until_healthy(process, port, state / "stack.log")
        yield LocalStack(port, state, process)
    finally:
        process.terminate()
        process.wait()


def _until_healthy(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"http://127.0.0.1:{port}/healthz").is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(f"the stack did not start: {log.read_text()}")


def free_port() -> int:
    """Give a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chat(custom_id: str, text: str, model: str = "echo", **fields: Any) -> dict[str, Any]:
    """Give a request line."""
    body = {"model": model, "messages": [{"role": "user", "content": text}], **fields}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


def embedding(custom_id: str, text: str | list[str], model: str = "echo", **fields: Any) -> dict[str, Any]:
    """Give a request line that wants vectors."""
    body = {"model": model, "input": text, **fields}
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/embeddings", "body": body}


def line(custom_id: str, url: str, **body: Any) -> dict[str, Any]:
    """Give a request line of any kind."""
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body}


def jsonl(lines: Sequence[dict[str, Any]]) -> bytes:
    """Write request lines as a file."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def submit(client: OpenAI, lines: Sequence[dict[str, Any]], window: str = "24h") -> Batch:
    """Upload lines and create a batch of them, at the endpoint that the first one names."""
    batch_input = client.files.create(file=("requests.jsonl", jsonl(lines)), purpose="batch")
    return client.batches.create(
        input_file_id=batch_input.id,
        endpoint=lines[0]["url"],
        completion_window="24h",
        extra_body={"completion_window": window},
    )


def until(client: OpenAI, batch: Batch, done: int | None = None) -> Batch:
    """Poll until the batch has ended, or until `done` of its rows are there."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        batch = client.batches.retrieve(batch.id)
        counts = batch.request_counts
        if batch.status in ENDED:
            return batch
        if done is not None and counts is not None and counts.completed + counts.failed >= done:
            return batch
        time.sleep(0.1)
    raise AssertionError(f"the batch did not end: {batch}")


def rows(client: OpenAI, batch: Batch) -> dict[str, dict[str, Any]]:
    """Download both result files; give the rows by custom_id, each of which stands there once."""
    found: dict[str, dict[str, Any]] = {}
    for file_id in (batch.output_file_id, batch.error_file_id):
        if file_id is None:
            continue
        for line in client.files.content(file_id).content.split(b"\n")[:-1]:
            row = json.loads(line)
            assert row["custom_id"] not in found
            found[row["custom_id"]] = row
    return found


def assert_exactly_once(client: OpenAI, batch: Batch, lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check that every line has one row and that the counts say what the files hold; give the rows."""
    found = rows(client, batch)
    assert {line["custom_id"] for line in lines} == found.keys()
    counts = batch.request_counts
    assert counts is not None
    never_ran = sum(
        row["error"] is not None and row["error"]["code"] in {"batch_cancelled", "batch_expired"}
        for row in found.values()
    )
    succeeded = sum(row["response"] is not None and row["response"]["status_code"] == 200 for row in found.values())
    assert len(lines) == counts.total
    assert succeeded == counts.completed
    assert len(lines) - succeeded - never_ran == counts.failed
    return found


def _processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                yield int(folder.name), (folder / "cmdline").read_bytes().decode().split("\0")[:-1]
            except OSError:
                continue


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return int(status.partition("\nPPid:")[2].split()[0])


def processes_of(state: Path) -> list[list[str]]:
    """Give the command lines of all processes that have to do with a state folder."""
    name = str(state).encode()
    return [
        args
        for pid, args in _processes()
        if pid != os.getpid() and (name in _environment(pid) or any(str(state) in arg for arg in args))
    ]
