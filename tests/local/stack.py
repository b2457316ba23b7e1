"""A running local AWS as the tests see it."""

import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from local.aws import REGION, JobEnded, LocalAws

if TYPE_CHECKING:
    from queue import SimpleQueue

PATIENCE = 30.0
"""Seconds after which a test gives up on something that should have happened at once."""


class Stack:
    """A running local AWS, its clients, and the ends of its jobs."""

    def __init__(self, aws: LocalAws, directory: Path, ended: "SimpleQueue[JobEnded]") -> None:
        self.aws = aws
        self.directory = directory
        self.ended = ended
        self.session = session()

    def client(self, service: Any) -> Any:
        """Return a boto3 client of the running server."""
        retries = {"total_max_attempts": 1}
        config = Config(retries=retries, max_pool_connections=50)  # type: ignore[arg-type]
        return self.session.client(service, endpoint_url=self.aws.endpoint, config=config)


def session() -> boto3.Session:
    """Return credentials that any local AWS takes."""
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)


def at_once(endpoint: str, service: str, requests: list[tuple[str, dict[str, str], bytes]]) -> list[tuple[int, bytes]]:
    """Send requests (method and path, headers, body) so that all arrive complete at one moment; return their answers.

    All but the last byte of each body is sent first: the server's threads then stand at the same line.
    """
    host = urlsplit(endpoint)
    credential = (
        f"AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/{service}/aws4_request, SignedHeaders=, Signature="
    )
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.create_connection((host.hostname, host.port))) for _ in requests]
        for connection, (line, headers, body) in zip(sockets, requests, strict=True):
            fields = {"Host": host.netloc, "Authorization": credential, "Content-Length": str(len(body))} | headers
            head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
            connection.sendall(f"{line} HTTP/1.1\r\n{head}\r\n".encode() + body[:-1])
        time.sleep(0.2)
        for connection, (_, _, body) in zip(sockets, requests, strict=True):
            connection.sendall(body[-1:])
        answers = []
        for connection in sockets:
            answer = HTTPResponse(connection)
            answer.begin()
            answers.append((answer.status, answer.read()))
        return answers


def python_job(definition: str, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Run the Python script that the job's environment calls SCRIPT, or the program that it calls PROGRAM."""
    assert definition == "worker"
    return [environment.get("PROGRAM", sys.executable), "-I", "-c", environment["SCRIPT"]], dict(environment)


def wait_for(look: Callable[[], Any]) -> Any:
    """Return what `look` sees once it sees something; a file that is not there yet is nothing."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):
            if seen := look():
                return seen
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def is_gone(pid: int) -> bool:
    """Tell whether a process is dead, be it still to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return True
