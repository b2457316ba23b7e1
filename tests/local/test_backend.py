"""The backend as the process that it is: what its handlers say is in its log, and what one of them raises stops nothing."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import msgspec
import pytest

from local.backend import TABLES, Ready
from shared.adapters.dynamodb import batches, tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key
from shared.adapters.dynamodb.record_table import RecordTable
from shared.core.records import Batch, Counts, Status
from tests.local.stack import session, wait_for


class Backend(NamedTuple):
    """A running backend."""

    process: subprocess.Popen[bytes]
    log: Path
    ready: Ready
    session: boto3.Session

    def client(self, service: Any) -> Any:
        """Give a client of its AWS."""
        return self.session.client(service, endpoint_url=self.ready.endpoint_url)

    def keep(self, batch: Batch) -> None:
        """Put the record of a batch."""
        dynamo = Dynamo(self.client("dynamodb"), sleep=time.sleep, random=random.random)
        dynamo.put(RecordTable(dynamo, tables.BATCHES.named(TABLES), batches.KIND).keeping(batch))


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """Start a backend whose sweep comes by all the time."""
    with running(tmp_path, "--sweep-seconds=0.5") as backend:
        yield backend


@contextmanager
def running(state: Path, *options: str) -> Iterator[Backend]:
    """Run a backend for a while."""
    log = state / "backend.log"
    command = [sys.executable, "-P", "-m", "local.backend", f"--state={state}", *options]
    with log.open("wb") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as process:
        assert process.stdout is not None
        ready = msgspec.json.decode(process.stdout.readline(), type=Ready)
        try:
            yield Backend(process, log, ready, session())
        finally:
            process.terminate()
            process.wait()


def batch(id_: str, status: Status) -> Batch:
    """Give a batch's record."""
    return Batch(
        id=id_,
        org="acme",
        contract="openai",
        endpoint="/v1/chat/completions",
        input_file_id="file-1",
        completion_window="24h",
        created_at=1_800_000_000,
        expires_at=4_000_000_000,
        status=status,
        counts=Counts(total=1),
    )


def test_what_handlers_log_is_in_the_log_of_the_backend(backend: Backend) -> None:
    """Not in the pipe that told that it is ready: nobody reads that any more, and a full pipe would stop every batch."""
    backend.keep(batch("batch_1", Status.COMPLETED))
    answer = backend.client("lambda").invoke(
        FunctionName="slackwater-notify", Payload=json.dumps({"batch": "acme/openai/batch_1"})
    )
    assert "FunctionError" not in answer
    backend.process.terminate()
    backend.process.wait()
    assert backend.process.stdout is not None
    assert b"" == backend.process.stdout.read()
    assert "batch ended" in backend.log.read_text()


def test_a_sweep_that_fails_is_followed_by_the_next(backend: Backend) -> None:
    """A batch without an execution is found, though a sweep before it met what it could not read."""
    table = tables.BATCHES.named(TABLES)
    store = backend.client("dynamodb")
    broken = Key("nonsense", "batch_0").encode()
    store.put_item(TableName=table, Item={**broken, tables.OPEN.partition: {"S": "open"}})
    wait_for(lambda: "ValueError" in backend.log.read_text())
    store.delete_item(TableName=table, Key=broken)
    backend.keep(batch("batch_1", Status.VALIDATING))

    machine = backend.ready.state_machine_arn
    started = wait_for(lambda: backend.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"])
    assert "batch_1-1" in [execution["name"] for execution in started]


def test_another_backend_of_the_folder_may_serve_other_models(backend: Backend, tmp_path: Path) -> None:
    """Workers that the first one starts afterwards find its own models, as it was told them."""
    served = Path(backend.ready.models_file)
    before = served.read_bytes()
    (echo,) = (model for model in json.loads(before) if model["id"] == "echo")
    (tmp_path / "mine.json").write_text(json.dumps([echo | {"id": "mine", "revision": "mine@1"}]))
    with running(tmp_path, f"--models={tmp_path / 'mine.json'}") as other:
        assert ["mine"] == [model["id"] for model in json.loads(Path(other.ready.models_file).read_bytes())]
        assert before == served.read_bytes()
