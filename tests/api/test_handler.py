"""The Lambda handler, on AWS as moto has it: every event in `events/` gets its answer."""

import asyncio
import json
import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from moto import mock_aws
from msgspec.structs import replace

from functions.api import handler
from functions.api.edge import logger
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.keys import DynamoKeys
from shared.adapters.dynamodb.tables import TABLES, creation
from shared.core import paths, result_line
from shared.core.records import ApiKey, Batch, Counts, File, Status
from shared.core.request_line import Limits
from shared.core.scan import Scanner
from shared.settings import ApiSettings
from tests.api.world import lines

ROOT = Path(__file__).parents[2]
REGION: Final = "eu-west-1"
FILE = "file-01KAP9JW00000000000000000F"
SPARE = "file-01KAP9JW00000000000000000G"
BATCH = "batch_01KAP9JW00000000000000000B"
DONE = "batch_01KAP9JW00000000000000000D"
ARN = f"arn:aws:states:{REGION}:123456789012:stateMachine:lifecycle"
PASS = '{"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": true}}}'

ANSWERS: dict[str, tuple[int, str]] = {
    "health": (200, "ok"),
    "upload-file": (200, '"filename":"requests.jsonl"'),
    "list-files": (200, FILE),
    "get-file": (200, FILE),
    "download-range": (206, '{"custom_id": '),
    "delete-file": (200, '"deleted":true'),
    "create-batch": (200, '"status":"validating"'),
    "get-batch": (200, BATCH),
    "list-batches": (200, BATCH),
    "cancel-batch": (200, '"status":"cancelling"'),
    "validate-batch": (200, '"valid":true'),
    "retry-batch": (200, f'"retry_of":"{DONE}"'),
    "batch-results": (200, '"has_more":false,"next":null,"status":"completed"}'),
    "list-models": (200, '"id":"echo"'),
    "unknown-key": (401, "invalid_api_key"),
    "bad-json": (400, "invalid_request"),
}


class Context:
    """What the Lambda runtime says of an invocation."""

    function_name = "api"
    aws_request_id = "4f2c9d0e-0000-4000-8000-000000000000"


def answer(name: str) -> tuple[int, dict[str, str], bytes]:
    """Run an event; give status, headers and body."""
    event = json.loads((ROOT / "events" / f"api.{name}.json").read_bytes())
    result = handler.handler(event, Context())
    body = result.get("body", "")
    return (
        result["statusCode"],
        result["headers"],
        b64decode(body) if result["isBase64Encoded"] else body.encode(),
    )


@pytest.fixture
def loop() -> Iterator[None]:
    """Give the thread an event loop, as Python does in a Lambda, and close it."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the log back afterwards, which a Lambda's root takes over."""
    for name in ("handlers", "level", "propagate"):
        monkeypatch.setattr(logger, name, getattr(logger, name))


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch, loop: None, log: None) -> Iterator[None]:  # noqa: ARG001 - both are stage
    """Deploy: tables, bucket, state machine, a key, two files and a batch."""
    settings = ApiSettings(
        bucket="slackwater-api",
        table_prefix="api",
        models_file=str(ROOT / "local" / "models.json"),
        region=REGION,
        state_machine_arn=ARN,
        scan_function="slackwater-scan",
    )
    config: Any = {"stepfunctions": {"execute_state_machine": False}}
    with mock_aws(config=config):
        for name, value in settings.to_env().items():
            monkeypatch.setenv(name, value)
        handler.application.cache_clear()
        deploy(settings)
        yield
    handler.application.cache_clear()


def deploy(settings: ApiSettings) -> None:
    """Make what the events expect."""
    session = boto3.Session("testing", "testing", region_name=REGION)
    s3, client = session.client("s3"), session.client("dynamodb")
    s3.create_bucket(Bucket=settings.bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    role = "arn:aws:iam::123456789012:role/lifecycle"
    session.client("stepfunctions").create_state_machine(name="lifecycle", definition=PASS, roleArn=role)
    for table in TABLES:
        client.create_table(**creation(table, settings.table_prefix))
    dynamo = Dynamo(client, sleep=lambda _: None, random=lambda: 0.0)
    digest = sha256(b"sk-local").hexdigest()
    DynamoKeys(dynamo, settings.table_prefix).put(ApiKey(org="org-local", hash=digest, scopes=("batch:write",)))
    for file_id in (FILE, SPARE):
        s3.put_object(Bucket=settings.bucket, Key=paths.file("org-local", file_id), Body=lines(2))
        file = File(
            id=file_id,
            org="org-local",
            contract="openai",
            bytes=len(lines(2)),
            filename="requests.jsonl",
            purpose="batch",
            created_at=1_700_000_000,
            requests=2,
        )
        DynamoFiles(dynamo, settings.table_prefix).put(file)
    scanner = Scanner(Limits())
    index = b"".join([*scanner.feed(lines(2)), *scanner.finish()])
    s3.put_object(Bucket=settings.bucket, Key=paths.scan("org-local", FILE), Body=index)
    batches = DynamoBatches(dynamo, settings.table_prefix)
    batch = Batch(
        id=BATCH,
        org="org-local",
        contract="openai",
        endpoint="/v1/chat/completions",
        input_file_id=FILE,
        completion_window="24h",
        created_at=1_700_000_000,
        expires_at=1_700_086_400,
        status=Status.VALIDATING,
    )
    batches.create(batch, None)
    done = replace(batch, id=DONE)
    batches.create(done, None)
    rows = {
        "file-output": result_line.answered(DONE, 1, "0", {}),
        "file-error": result_line.given_up(DONE, 2, "1", "server_error", "The engine died."),
    }
    files = [
        File(
            id=name,
            org="org-local",
            contract="openai",
            bytes=len(row),
            filename=f"{name}.jsonl",
            purpose="batch_output",
            created_at=1_700_000_000,
        )
        for name, row in rows.items()
    ]
    for name, row in rows.items():
        s3.put_object(Bucket=settings.bucket, Key=paths.file("org-local", name), Body=row)
    ended = {"status": Status.COMPLETED, "output_file_id": "file-output", "error_file_id": "file-error"}
    batches.finish(
        done.ref, lambda batch: replace(batch, counts=Counts(total=2, completed=1, failed=1), **ended), files
    )


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("name", ANSWERS)
def test_the_event_gets_its_answer(name: str) -> None:
    """Status, a mark of the body, and an id."""
    status, headers, body = answer(name)

    expected, mark = ANSWERS[name]
    assert expected == status
    assert mark.encode() in body
    assert headers["x-request-id"].startswith("req_")


def test_every_event_has_its_test() -> None:
    """No sample without a test, no test without a sample."""
    assert set(ANSWERS) == {path.name.split(".")[1] for path in (ROOT / "events").glob("api.*.json")}


@pytest.mark.usefixtures("deployed")
def test_a_file_that_was_uploaded_through_the_gateway_is_whole() -> None:
    """The body came in base64."""
    uploaded = json.loads(answer("upload-file")[2])

    assert ("batch", "processed") == (uploaded["purpose"], uploaded["status"])
    assert uploaded["bytes"] > 0
    assert uploaded["id"] in answer("list-files")[2].decode()


@pytest.mark.parametrize(("kind", "built"), [("on-demand", 0), ("snap-start", 1)])
def test_a_snapshot_holds_the_application(kind: str, built: int) -> None:
    """With SnapStart what the first request would wait for is made before the snapshot is."""
    settings = ApiSettings(
        bucket="b",
        table_prefix="t",
        models_file=str(ROOT / "local" / "models.json"),
        region=REGION,
        state_machine_arn=ARN,
        scan_function="scan",
    )
    program = "from functions.api import handler; print(handler.application.cache_info().currsize)"
    env = {**os.environ, **settings.to_env(), "AWS_LAMBDA_INITIALIZATION_TYPE": kind}
    found = subprocess.run([sys.executable, "-c", program], env=env, cwd=ROOT, check=True, capture_output=True)

    assert built == int(found.stdout)
