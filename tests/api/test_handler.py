"""The Lambda handler, on AWS as moto has it: every event in `events/` gets its answer."""

import asyncio
import json
import os
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from moto import mock_aws

from functions.api import handler
from functions.api.edge import logger
from shared.core import paths
from shared.settings import ApiSettings
from tests.api.stage import ARN, BATCH, DONE, FILE, LARGE, REGION, ROOT, UPLOAD, deploy
from tests.api.world import lines

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
    "get-model": (200, '"id":"echo"'),
    "create-upload": (200, '"status":"pending"'),
    "get-upload": (200, UPLOAD),
    "add-part": (200, '"object":"upload.part"'),
    "sign-parts": (200, '"part_number":2'),
    "complete-upload": (200, '"status":"processed"'),
    "cancel-upload": (200, '"status":"cancelled"'),
    "head-content": (200, ""),
    "download-large": (302, ""),
    "mount-health": (200, "ok"),
    "openapi": (200, '"openapi":"3.1.0"'),
    "unknown-key": (401, "invalid_api_key"),
    "bad-json": (400, "invalid_request"),
}


ANSWER_BYTES = 6 << 20
"""What a Lambda may take or give, as JSON."""


class Context:
    """What the Lambda runtime says of an invocation."""

    function_name = "api"
    aws_request_id = "4f2c9d0e-0000-4000-8000-000000000000"


def event(name: str) -> dict[str, Any]:
    """Read an event."""
    told: dict[str, Any] = json.loads((ROOT / "events" / f"api.{name}.json").read_bytes())
    return told


def run(told: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    """Run an event; give status, headers and body."""
    result = handler.handler(told, Context())
    body = result.get("body", "")
    assert len(json.dumps(result).encode()) < ANSWER_BYTES
    return (
        result["statusCode"],
        result["headers"],
        b64decode(body) if result["isBase64Encoded"] else body.encode(),
    )


def answer(name: str) -> tuple[int, dict[str, str], bytes]:
    """Run a recorded event."""
    return run(event(name))


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
def test_every_route_has_its_event() -> None:
    """Each method of each path of a mount, and the health of the whole."""
    routes: Any = handler.application().app.state.routes  # type: ignore[attr-defined]
    asked = [event(name)["requestContext"]["http"] for name in ANSWERS]
    without = [
        f"{method} {route.path}"
        for route in routes
        for method in sorted(route.methods)
        if not any(method == http["method"] and route.path_regex.match(http["path"]) for http in asked)
    ]
    assert [] == without


@pytest.mark.usefixtures("deployed")
def test_a_large_content_is_a_redirect_to_the_bucket() -> None:
    """Signed, for a GET without our key."""
    status, headers, body = answer("download-large")
    target = urlsplit(headers["location"])
    assert (302, b"") == (status, body)
    assert target.hostname is not None
    assert "slackwater-api" in target.hostname
    assert target.path.endswith(LARGE)
    assert "X-Amz-Signature" in target.query


@pytest.mark.usefixtures("deployed")
def test_the_largest_upload_of_a_lambda_is_taken() -> None:
    """The event is as large as Lambda takes it: 4.4 MB of file, in base64."""
    told = event("upload-file")
    recorded = b64decode(told["body"])
    begin, end = recorded.index(b"{"), recorded.rindex(b"}\n") + 2
    content = lines(4_400_000 // len(lines(1)) - 1)
    told["body"] = b64encode(recorded[:begin] + content + recorded[end:]).decode()
    told["headers"]["content-length"] = str(len(content) + len(recorded) - (end - begin))
    assert 5_500_000 < len(json.dumps(told)) < ANSWER_BYTES
    status, _, body = run(told)
    assert (200, len(content)) == (status, json.loads(body)["bytes"])


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(("extra", "status"), [(0, 200), (1, 302)])
def test_the_largest_content_of_an_answer_fits_into_it(extra: int, status: int) -> None:
    """Even one that JSON writes with two characters for each of its own; a byte more is a redirect."""
    key = paths.file("org-local", LARGE)
    content = b'"' * (handler.INLINE_BYTES + extra)
    boto3.client("s3", region_name=REGION).put_object(Bucket="slackwater-api", Key=key, Body=content)
    found, _, body = answer("download-large")
    assert (status, b"" if extra else content) == (found, body)


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
