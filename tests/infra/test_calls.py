"""What the code calls is what its role allows: a batch's whole way on moto, with the environment that the stack writes, every call of it noted.

Moto asks nobody for permission. Here each call is held against the policies of the role that would have made it.
"""

import asyncio
import json
import random
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from typing import Any, NamedTuple

import boto3
import botocore.handlers
import pytest
from moto import mock_aws

from functions.api import handler as api
from functions.api.edge import logger
from functions.tasks import wiring
from gpu_job.chunks import Committer
from gpu_job.row import Finished
from infra.access import REACTIONS, STATES
from infra.bundle import MODELS
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.chunks import DynamoChunkLog
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.keys import DynamoKeys
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.tables import TABLES, creation
from shared.adapters.dynamodb.workers import DynamoWorkers
from shared.adapters.ids import new_id, now
from shared.adapters.s3 import S3Blobs
from shared.adapters.stepfunctions import StepFunctionsWorkflow
from shared.core import assembly, ids, paths, plan
from shared.core.assembly import Piece
from shared.core.models import Registry
from shared.core.records import ApiKey, File, Pending, Shard
from shared.services.roster import Roster
from shared.services.wake import Wake
from tests.infra.conftest import ROOT
from tests.infra.policy import MACHINE, NEEDS, Need, allows
from tests.infra.template import BUCKET, REGION, Template

PREFIX = "slackwater"
MODEL = next(iter(Registry.from_json(MODELS.read_bytes()).values()))
PASS = '{"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": true}}}'
FORM = "form-boundary"


class Context:
    """What the Lambda runtime says of an invocation."""

    function_name = "api"
    aws_request_id = "4f2c9d0e-0000-4000-8000-000000000000"


class Notes:
    """Who is at work, and what each has called."""

    def __init__(self) -> None:
        self.taken: dict[str, set[Need]] = {}
        self._who: str | None = None

    @contextmanager
    def as_(self, who: str) -> Iterator[None]:
        """Note what is called from here on as theirs."""
        self._who = who
        try:
            yield
        finally:
            self._who = None

    def note(self, params: dict[str, Any], event_name: str, **_: object) -> None:
        """Take a call, as botocore tells of it."""
        if self._who is not None:
            needs = NEEDS[event_name.removeprefix("provide-client-params.")](params)
            self.taken.setdefault(self._who, set()).update(needs)


class System(NamedTuple):
    """The system on moto."""

    notes: Notes
    session: boto3.Session

    def api(self, method: str, path: str, body: object = None, form: dict[str, object] | None = None) -> Any:
        """Ask the API, as its gateway would; give what it answers."""
        event = json.loads((ROOT / "events" / "api.get-batch.json").read_bytes())
        content, kind = json.dumps(body).encode(), "application/json"
        if form is not None:
            content, kind = _form(form), f"multipart/form-data; boundary={FORM}"
        if body is None and form is None:
            content = b""
        event["rawPath"] = event["requestContext"]["http"]["path"] = path
        event["requestContext"]["http"]["method"] = method
        event["headers"] |= {"content-type": kind, "content-length": str(len(content))}
        event |= {"body": b64encode(content).decode(), "isBase64Encoded": True}
        with self.notes.as_("api"):
            answer = api.handler(event, Context())
        text = b64decode(answer["body"]) if answer["isBase64Encoded"] else answer["body"].encode()
        assert answer["statusCode"] < 400, (method, path, text)
        return json.loads(text) if text and answer["headers"]["content-type"] == "application/json" else text

    def task(self, name: str, event: dict[str, Any]) -> Any:
        """Run a task's Lambda."""
        with self.notes.as_(name):
            return import_module(f"functions.tasks.{name}").handler(event)


def _form(fields: dict[str, object]) -> bytes:
    parts = []
    for name, value in fields.items():
        named = '; filename="in.jsonl"' if isinstance(value, bytes) else ""
        data = value if isinstance(value, bytes) else str(value).encode()
        parts.append(
            f'--{FORM}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode() + data + b"\r\n"
        )
    return b"".join(parts) + f"--{FORM}--\r\n".encode()


def lines(count: int) -> bytes:
    """Give request lines for the model that is deployed first."""
    body = {"model": MODEL.id, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    line = {"method": "POST", "url": "/v1/chat/completions", "body": body}
    return b"".join(json.dumps({"custom_id": f"row-{number}", **line}).encode() + b"\n" for number in range(count))


@pytest.fixture(scope="module")
def system(template: Template) -> Iterator[System]:
    """Deploy the stack to moto, as far as the code calls it, with the environment of the template."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield from _running(template, monkeypatch)


def _running(template: Template, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    notes = Notes()
    hooks = [*botocore.handlers.BUILTIN_HANDLERS, ("provide-client-params.*.*", notes.note)]
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", hooks)
    for module in ("functions.api.handler", "functions.tasks.run"):
        for name, value in template.function(module)["Environment"]["Variables"].items():
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("SLACKWATER_MODELS_FILE", str(MODELS))
    for name in ("handlers", "level", "propagate"):
        monkeypatch.setattr(logger, name, getattr(logger, name))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    config: Any = {
        "batch": {"use_docker": False},
        "lambda": {"use_docker": False},
        "stepfunctions": {"execute_state_machine": False},
    }
    with mock_aws(config=config):
        session = boto3.Session("testing", "testing", region_name=REGION)
        _deploy(session)
        api.application.cache_clear()
        wiring._services.cache_clear()
        yield System(notes, session)
    api.application.cache_clear()
    wiring._services.cache_clear()
    asyncio.set_event_loop(None)
    loop.close()


def _deploy(session: boto3.Session) -> None:
    session.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    client = session.client("dynamodb")
    for table in TABLES:
        client.create_table(**creation(table, PREFIX))
    role = session.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    session.client("stepfunctions").create_state_machine(name=PREFIX, definition=PASS, roleArn=role)
    fleet = session.client("batch")
    place = fleet.create_compute_environment(computeEnvironmentName="here", type="UNMANAGED", serviceRole=role)
    order: Any = [{"order": 1, "computeEnvironment": place["computeEnvironmentArn"]}]
    fleet.create_job_queue(jobQueueName=PREFIX, state="ENABLED", priority=1, computeEnvironmentOrder=order)
    container: Any = {"image": "worker", "vcpus": 1, "memory": 128}
    fleet.register_job_definition(jobDefinitionName=f"{PREFIX}-vllm", type="container", containerProperties=container)
    digest = sha256(b"sk-local").hexdigest()
    DynamoKeys(_dynamo(session), PREFIX).put(ApiKey(org="acme", hash=digest, scopes=("batch:write",)))


def _dynamo(session: boto3.Session) -> Dynamo:
    return Dynamo(session.client("dynamodb"), sleep=time.sleep, random=random.random)


class Worker:
    """A worker, by what it calls: leases, inputs, chunks, the roster and the wake-up."""

    def __init__(self, session: boto3.Session, name: str) -> None:
        dynamo = _dynamo(session)
        workflow = StepFunctionsWorkflow(session.client("stepfunctions"), MACHINE)
        self._name = name
        self._store = S3Blobs(session.client("s3"), BUCKET)
        self._shards = DynamoShards(dynamo, PREFIX)
        self._roster = Roster(workers=DynamoWorkers(dynamo, PREFIX), clock=now)
        self._wake = Wake(batches=DynamoBatches(dynamo, PREFIX), shards=self._shards, workflow=workflow)
        self._committer = Committer(blobs=self._store, log=DynamoChunkLog(dynamo, PREFIX), new_id=new_id)

    def lease(self) -> list[Shard]:
        """Lease all shards of the model."""
        self._roster.enter(MODEL.revision, self._name, "job-1")
        return [self._shards.lease(shard, self._name, now() + 60) for shard in self._shards.ready(MODEL.revision, 9)]

    def answer(self, leased: Shard, most: int = 1000, data: bytes = b"{}\n") -> None:
        """Answer so many lines of a shard."""
        held = self._shards.renew(leased, now() + 90)
        wanted = plan.decode(self._store.get(paths.plan(held.ref, held.index)))
        assert self._store.get(wanted.input_key, 0, 1)
        rows = [Finished(position=line, ok=True, data=data) for line in range(min(most, held.lines))]
        self._committer.commit(held, 0, rows)
        self._wake.shard_done(held.ref)

    def leave(self) -> None:
        """Go."""
        self._roster.leave(MODEL.revision, self._name)


@pytest.fixture(scope="module")
def taken(system: System) -> dict[str, set[Need]]:
    """Go all ways: give what each entry point has called."""
    file = system.api("POST", "/v1/files", form={"purpose": "batch", "file": lines(3)})["id"]
    wanted = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    done, cancelled, failed = (system.api("POST", "/v1/batches", wanted)["id"] for _ in range(3))
    _complete(system, done)
    _cancel(system, cancelled)
    system.task("fail", {"batch": f"acme/openai/{failed}"})
    _reject(system)
    _upload(system)
    _scan(system)
    _sweep(system, cancelled)
    return system.notes.taken


def _complete(system: System, batch: str) -> None:
    message = {"batch": f"acme/openai/{batch}", "token": "a-token", "execution": f"{batch}-1"}
    for state in ("validate", "admit", "plan", "run", "reconcile"):
        system.task(state, message)
    with system.notes.as_("worker"):
        Worker(system.session, "worker_1").lease()
    variables = [
        {"name": "SLACKWATER_REVISION", "value": MODEL.revision},
        {"name": "SLACKWATER_WORKER", "value": "worker_1"},
    ]
    system.task("job_ended", {"detail": {"status": "FAILED", "container": {"environment": variables}}})
    with system.notes.as_("worker"):
        worker = Worker(system.session, "worker_2")
        for shard in worker.lease():
            worker.answer(shard)
        worker.leave()
    for state in ("run", "reconcile", "drain", "close", "finalize", "notify"):
        system.task(state, message)
    result = system.api("GET", f"/v1/batches/{batch}")
    assert "completed" == result["status"]
    system.api("GET", "/v1/batches")
    system.api("GET", "/v1/files")
    system.api("GET", f"/v1/files/{result['output_file_id']}/content")
    assert 3 == len(system.api("GET", f"/v1/batches/{batch}/results")["data"])
    system.api("DELETE", f"/v1/files/{result['output_file_id']}")


def _cancel(system: System, batch: str) -> None:
    message = {"batch": f"acme/openai/{batch}", "token": "a-token", "execution": f"{batch}-1"}
    for state in ("validate", "admit", "plan", "run"):
        system.task(state, message)
    assert 3 == system.api("GET", f"/v1/batches/{batch}")["request_counts"]["total"]
    with system.notes.as_("worker"):
        worker = Worker(system.session, "worker_3")
        for shard in worker.lease():
            worker.answer(shard, 1, b'{"text": "%s"}\n' % (b"x" * (api.INLINE_BYTES + 1)))
        worker.leave()
    assert b"" == system.api("GET", f"/v1/batches/{batch}/results")
    assert "cancelling" == system.api("POST", f"/v1/batches/{batch}/cancel")["status"]
    for state in ("reconcile", "drain", "close", "finalize", "notify"):
        system.task(state, message)
    assert "cancelled" == system.api("GET", f"/v1/batches/{batch}")["status"]
    again = system.api("POST", f"/v1/batches/{batch}/retry")["id"]
    for state in ("validate", "admit", "plan"):
        system.task(state, {"batch": f"acme/openai/{again}"})
    assert 2 == system.api("GET", f"/v1/batches/{again}")["request_counts"]["total"]


def _reject(system: System) -> None:
    data = lines(20).replace(MODEL.id.encode(), b"another")
    file = system.api("POST", "/v1/files", form={"purpose": "batch", "file": data})["id"]
    wanted = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    batch = system.api("POST", "/v1/batches", wanted)["id"]
    system.task("validate", {"batch": f"acme/openai/{batch}"})
    assert 20 == len(system.api("GET", f"/v1/batches/{batch}")["errors"]["data"])


def _upload(system: System) -> None:
    data = lines(2)
    wanted = {"filename": "in.jsonl", "purpose": "batch", "bytes": len(data), "mime_type": "application/jsonl"}
    upload = system.api("POST", "/v1/uploads", wanted)["id"]
    part = system.api("POST", f"/v1/uploads/{upload}/parts", form={"data": data})["id"]
    assert "completed" == system.api("POST", f"/v1/uploads/{upload}/complete", {"part_ids": [part]})["status"]
    given_up = system.api("POST", "/v1/uploads", wanted)["id"]
    system.api("POST", f"/v1/uploads/{given_up}/urls", {"part_numbers": [1]})
    system.api("POST", f"/v1/uploads/{given_up}/cancel")


def _scan(system: System) -> None:
    store, data = S3Blobs(system.session.client("s3"), BUCKET), lines(2)
    file = File(
        id=new_id(ids.FILE),
        org="acme",
        contract="openai",
        bytes=len(data),
        filename="in.jsonl",
        purpose="batch",
        created_at=int(now()),
        status="uploaded",
        pending=Pending(pieces=True),
        upload=new_id(ids.UPLOAD),
    )
    source = paths.upload_part(file.org, file.upload or "", "part_1")
    piece = Piece(source, store.put(source, data), 0, len(data))
    store.put(paths.pieces(file.org, file.id), assembly.encode([piece]))
    DynamoFiles(_dynamo(system.session), PREFIX).put(file)
    assert {"status": "processed"} == system.task("scan", {"space": str(file.space), "file": file.id})


def _sweep(system: System, batch: str) -> None:
    expired = File(
        id=new_id(ids.FILE),
        org="acme",
        contract="openai",
        bytes=1,
        filename="in.jsonl",
        purpose="batch",
        created_at=1,
        expires_at=2,
    )
    S3Blobs(system.session.client("s3"), BUCKET).put(paths.file(expired.org, expired.id), b"x")
    DynamoFiles(_dynamo(system.session), PREFIX).put(expired)
    system.task("sweep", {"detail": {}})
    system.task("sweep", {"detail": {"input": json.dumps({"batch": f"acme/openai/{batch}"})}})


def test_every_call_is_allowed_to_the_role_that_makes_it(template: Template, taken: dict[str, set[Need]]) -> None:
    """Where a task learns to call something new, its line in `infra.access` must learn it too."""
    refused = {
        (who, need) for who, needs in taken.items() for need in needs if not allows(_statements(template, who), need)
    }
    assert set() == refused


def test_every_entry_point_was_seen_at_work(taken: dict[str, set[Need]]) -> None:
    """Else the test before would be true of nothing."""
    assert {"api", "worker", "scan", *STATES, *REACTIONS} == set(taken)


def test_a_role_without_its_line_would_be_refused(template: Template, taken: dict[str, set[Need]]) -> None:
    """What the worker does is not allowed to the state that only reads."""
    notify = _statements(template, "notify")
    assert [] != [need for need in taken["worker"] if not allows(notify, need)]


def _statements(template: Template, who: str) -> list[dict[str, Any]]:
    if who == "worker":
        return template.statements(template.only("AWS::Batch::JobDefinition")["ContainerProperties"]["JobRoleArn"])
    module = "functions.api.handler" if who == "api" else f"functions.tasks.{who}"
    return template.statements(template.function(module)["Role"])
