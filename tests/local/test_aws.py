"""The server itself: its life, its connections, its functions by boto3, and its silence."""

import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import pytest

from local.aws import LocalAws
from tests.local.stack import PATIENCE, Stack, is_gone, python_job, session, wait_for

MIB = 1 << 20

EVENTS: "SimpleQueue[Any]" = SimpleQueue()


class Refused(Exception):  # noqa: N818 - a class named as a function's error
    """What a function raises."""


def _refuse(event: dict[str, Any]) -> None:
    raise Refused(f"cannot do {event['prompt']}")


FUNCTIONS = {"double": lambda event: {"twice": 2 * event["n"]}, "refuse": _refuse, "note": EVENTS.put}


def _server(directory: Path, port: int = 0) -> LocalAws:
    return LocalAws(
        port=port, directory=directory, functions={}, job_command=python_job, on_job_ended=lambda _: None, kill_after=10
    )


@pytest.fixture
def functions(stack: Stack) -> Iterator[Any]:
    """Return a client of the functions."""
    client = stack.client("lambda")
    yield client
    client.close()


@pytest.fixture
def connection(stack: Stack) -> Iterator[http.client.HTTPConnection]:
    """Return a plain connection."""
    connection = http.client.HTTPConnection(urlsplit(stack.aws.endpoint).netloc, timeout=PATIENCE)
    yield connection
    connection.close()


def test_a_function_answers_an_invocation(functions: Any) -> None:
    """It is called by name or ARN, with the event and the answer as JSON."""
    for name in ("double", "arn:aws:lambda:us-east-1:123456789012:function:double"):
        answer = functions.invoke(FunctionName=name, Payload=b'{"n": 21}')
        assert {"twice": 42} == json.load(answer["Payload"])
        assert "FunctionError" not in answer


def test_a_function_that_raises_answers_with_its_error(functions: Any) -> None:
    """The payload names class and message, as the Lambda runtime does."""
    answer = functions.invoke(FunctionName="refuse", Payload=b'{"prompt": "this"}')
    error = json.load(answer["Payload"])
    assert ("Unhandled", "Refused", "cannot do this") == (
        answer["FunctionError"],
        error["errorType"],
        error["errorMessage"],
    )


def test_an_event_is_not_waited_for(functions: Any) -> None:
    """An Event invocation is accepted, and the function called all the same."""
    answer = functions.invoke(FunctionName="note", InvocationType="Event", Payload=b'{"n": 1}')
    assert 202 == answer["StatusCode"]
    assert {"n": 1} == EVENTS.get(timeout=PATIENCE)


def test_a_function_that_is_not_there_is_not_found(functions: Any) -> None:
    """An unknown name is a ResourceNotFoundException."""
    with pytest.raises(functions.exceptions.ResourceNotFoundException):
        functions.invoke(FunctionName="missing")


def test_no_log_holds_what_passes(
    stack: Stack, functions: Any, connection: http.client.HTTPConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither requests, answers, a function's error nor a fault of the server tell the logs what was sent."""
    for client in ("botocore", "urllib3"):
        caplog.set_level(logging.CRITICAL, client)
    caplog.set_level(logging.DEBUG)
    functions.invoke(FunctionName="refuse", Payload=b'{"prompt": "a secret"}')
    functions.invoke(FunctionName="note", Payload=b'{"prompt": "a secret"}')
    store = stack.client("s3")
    store.create_bucket(Bucket="secrets")
    store.put_object(Bucket="secrets", Key="prompt", Body=b"a secret")
    store.close()
    target = {"X-Amz-Target": "DynamoDB_20120810.Fault a secret", "Authorization": _signed("dynamodb")}
    connection.request("POST", "/", b'{"prompt": "a secret"}', target)
    answer = connection.getresponse()
    assert (500, "InternalFailure") == (answer.status, json.load(answer)["__type"])
    assert "Refused" in caplog.text
    assert "a secret" not in caplog.text


def _signed(service: str) -> str:
    return f"AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, SignedHeaders=, Signature="


def test_a_connection_serves_request_after_request(connection: http.client.HTTPConnection) -> None:
    """Answers with and without a body, and a body that nobody read, leave it in order."""
    connection.request("PUT", "/kept-alive", headers={"Authorization": _signed("s3")})
    assert 200 == _drained(connection).status
    used = connection.sock
    for method, path, body, status in (
        ("PUT", "/kept-alive/key", b"x" * 100_000, 200),
        ("HEAD", "/kept-alive/key", None, 200),
        ("GET", "/kept-alive/key", None, 200),
        ("POST", "/kept-alive/key?unknown", b"y" * 1_000_000, 500),
        ("DELETE", "/kept-alive/key", None, 204),
        ("GET", "/kept-alive/key", None, 404),
    ):
        connection.request(method, path, body, {"Authorization": _signed("s3")})
        assert status == _drained(connection).status
        assert used is connection.sock


def _drained(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    answer = connection.getresponse()
    answer.read()
    return answer


def test_a_body_is_invited(stack: Stack) -> None:
    """A client that expects 100-continue gets it before it sends."""
    host = urlsplit(stack.aws.endpoint)
    head = f"PUT /invited HTTP/1.1\r\nHost: {host.netloc}\r\nExpect: 100-continue\r\nContent-Length: 1\r\n"
    with socket.create_connection((host.hostname, host.port), PATIENCE) as client:
        client.sendall(f"{head}Authorization: {_signed('s3')}\r\n\r\n".encode())
        assert b"HTTP/1.1 100 Continue\r\n\r\n" == client.recv(100)


def test_one_server_runs_in_a_process(stack: Stack, tmp_path: Path) -> None:
    """A second is refused and leaves the first alone."""
    with pytest.raises(RuntimeError, match="already runs in this process"):
        _server(tmp_path).start()
    assert stack.aws.endpoint.startswith("http://127.0.0.1:")


def test_a_server_that_is_not_running_has_no_endpoint(tmp_path: Path) -> None:
    """The message says what to do."""
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        _ = _server(tmp_path).endpoint


LIFE = """
import signal, sys, threading
from pathlib import Path
from local.aws import LocalAws, create_batch
from tests.local.stack import python_job

told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told.set())
aws = LocalAws(
    port=int(sys.argv[2]), directory=Path(sys.argv[1]), functions={}, job_command=python_job, on_job_ended=print
)
aws.start()
create_batch(aws.endpoint, queue="workers", definition="worker")
print(aws.endpoint, flush=True)
told.wait()
aws.stop()
"""
"""A process that is nothing but a server."""

WORKER = """
import os, signal, subprocess, sys, urllib.request
def stop(*_):
    request = urllib.request.Request(os.environ["STORE"], b"committed", method="PUT")
    print(urllib.request.urlopen(request).status, flush=True)
    sys.exit(0)
engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
signal.signal(signal.SIGTERM, stop)
print(os.getpid(), engine.pid, flush=True)
engine.wait()
"""
"""A worker that has an engine, and commits to the store when it is told to stop."""


class Process:
    """A server in a process of its own, with one worker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        environment = os.environ | {"PYTHONPATH": os.getcwd()}  # noqa: PTH109 - the repository's root
        self.server = subprocess.Popen(
            [sys.executable, "-c", LIFE, str(directory), "0"], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.server.stdout
        self.endpoint = self.server.stdout.readline().strip()
        self._store()
        self.job_id = self._submit()
        self.log = directory / "jobs" / f"{self.job_id}.log"
        self.pids = [int(pid) for pid in wait_for(self.log.read_text).split()]

    def _store(self) -> None:
        store = session().client("s3", endpoint_url=self.endpoint)
        store.create_bucket(Bucket="store")
        place = {"Bucket": "store", "Key": "chunk"}
        self.url: str = store.generate_presigned_url("put_object", Params=place)
        store.close()

    def _submit(self) -> str:
        pairs = {"SCRIPT": WORKER, "STORE": self.url}
        overrides = {"environment": [{"name": name, "value": value} for name, value in pairs.items()]}
        batch = session().client("batch", endpoint_url=self.endpoint)
        job_id = batch.submit_job(
            jobName="job",
            jobQueue="workers",
            jobDefinition="worker",
            containerOverrides=overrides,  # type: ignore[arg-type]
        )["jobId"]
        batch.close()
        return job_id

    def end(self, number: signal.Signals) -> int:
        """Send the server a signal and return its exit code."""
        self.server.send_signal(number)
        self.server.communicate(timeout=PATIENCE)
        return self.server.returncode


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """Return a running server and end it."""
    process = Process(tmp_path)
    yield process
    if process.server.poll() is None:
        process.end(signal.SIGKILL)


def test_a_server_that_stops_lets_its_workers_commit(process: Process) -> None:
    """SIGTERM reaches the worker while the store still answers; then nothing is left, and no bytes either."""
    assert 0 == process.end(signal.SIGTERM)
    assert process.log.read_text().endswith("\n200\n")
    wait_for(lambda: all(map(is_gone, process.pids)))
    assert not list(process.directory.glob("run-*"))


def test_jobs_do_not_outlive_a_server_that_is_killed(process: Process) -> None:
    """SIGKILL of the server ends worker and engine."""
    assert -signal.SIGKILL == process.end(signal.SIGKILL)
    wait_for(lambda: all(map(is_gone, process.pids)))


def test_servers_of_one_folder_leave_each_other_alone(process: Process) -> None:
    """One that starts and stops takes nothing from one that runs; what a killed one left is cleared away."""
    store = session().client("s3", endpoint_url=process.endpoint)
    store.put_object(Bucket="store", Key="large", Body=b"x" * MIB)
    other = Process(process.directory)
    assert 2 == len(list(process.directory.glob("run-*")))
    other.end(signal.SIGKILL)
    assert 0 == Process(process.directory).end(signal.SIGTERM)

    assert b"x" * MIB == store.get_object(Bucket="store", Key="large")["Body"].read()
    store.put_object(Bucket="store", Key="another", Body=b"y" * MIB)
    assert 1 == len(list(process.directory.glob("run-*")))
    store.close()


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    """The server does not start, and says which address it wanted."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = os.environ | {"PYTHONPATH": os.getcwd()}  # noqa: PTH109 - the repository's root
        command = [sys.executable, "-c", LIFE, str(tmp_path), str(taken.getsockname()[1])]
        end = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert 1 == end.returncode
    assert "OSError: [Errno 98] Address already in use" in end.stderr
