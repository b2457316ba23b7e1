"""The OpenAPI document is complete and true: requests that are made up from it, good and bad ones, get the answers that it tells of.

Schemathesis makes them up, in every way that it knows: the edges of each schema, examples found at random, and sequences in which one request goes
on with what another has answered. `SLACKWATER_EXAMPLES` says how many of each operation; the more, the longer. Other ones come with another
`SLACKWATER_SEED`.
"""

import json
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import StopReason, events, from_schema

from shared.core.lifecycle import Event
from tests.api import dialects
from tests.api.world import KEY, PREFIXES, World

EXAMPLES = int(os.environ.get("SLACKWATER_EXAMPLES", "10"))
SEED = int(os.environ.get("SLACKWATER_SEED", "1"))

BEYOND = {
    "after": "whether there is such an object",
    "input_file_id": "what the lines of a file are like",
    "file": "what its name and its lines are like",
    "data": "how large the parts are together",
    "filename": "what it ends with",
    "part_ids": "which parts there are, and whether each stands once",
    "etags": "whether URLs were asked for",
    "s3_uri": "which prefixes the deployment lists, and what is there",
    "output_s3_prefix": "which prefixes the deployment lists",
    "callback_url": "whether a host is public",
    "metadata": "how large it is, and its integers",
}
"""What no schema can tell of a field, by the field that such a refusal of well-formed data names."""

BEYOND_FIELDS = {
    "/uploads/{upload_id}/urls": "whether URLs are signed under this mount",
    "/uploads/{upload_id}/parts": "whether the parts of this upload go to signed URLs",
    "/files/{file_id}/content": "how large the file is, and so whether a range lies outside of it",
}
"""Likewise where no field is at fault, by the end of the path."""

CONFIG: dict[str, Any] = {
    "seed": SEED,
    "continue-on-failure": True,
    "headers": {"Authorization": f"Bearer {KEY}"},
    "generation": {"max-examples": EXAMPLES, "deterministic": True, "database": "none"},
    "checks": {"negative_data_rejection": {"expected-statuses": [400, 401, 404, 405, 409, 413, 415, 429]}},
}


def broken(app: Any, document: str) -> Iterator[str]:
    """Make requests up from a document of the app; give what is wrong with the answers."""
    schema = schemathesis.openapi.from_asgi(document, app, config=SchemathesisConfig.from_dict(CONFIG))
    asked = {operation.ok().label for operation in schema.get_all_operations()}
    assert asked
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            asked -= {case.value.operation.label for case in event.recorder.cases.values()}
            yield from _failures(event.recorder)
        elif isinstance(event, events.NonFatalError | events.FatalError):
            yield str(event)
        elif isinstance(event, events.EngineFinished) and event.stop_reason is not StopReason.COMPLETED:
            yield f"it ended early: {event.stop_reason}"
    yield from (f"{operation} was never asked" for operation in sorted(asked))


def _failures(recorder: Any) -> Iterator[str]:
    for case, checks in recorder.checks.items():
        for check in checks:
            if check.failure_info is None:
                continue
            answer = recorder.interactions[case].response
            failure, request = check.failure_info.failure, check.failure_info.code_sample
            if check.name == "positive_data_acceptance" and _is_beyond(failure.operation, answer):
                continue
            yield f"{check.name}: {failure.operation}: {failure.message}\n{request}\n{answer.content[:500]!r}"


def _is_beyond(operation: str, answer: Any) -> bool:
    """Whether a refusal of well-formed data is for something that no schema can tell."""
    field = json.loads(answer.content)["error"]["param"] if answer.content else None
    if field is None:
        return operation.endswith(tuple(BEYOND_FIELDS))
    return field.partition(".")[0] in BEYOND


def seeded(contract: str) -> World:
    """Give a world in which there is something of everything."""
    world = dialects.world(account_batches=1_000_000)
    content = dialects.jsonl(dialects.chat())
    dialects.upload(world, contract, content)
    ended, _ = (dialects.create(world, contract, content, key=key).json() for key in "ab")
    dialects.end(world, contract, ended["id"], Event.CANCEL, Event.PUBLISH_CANCELLED)
    http = world.http(contract=contract)
    begun = {"filename": "a.jsonl", "purpose": "batch", "bytes": len(content), "mime_type": "application/jsonl"}
    upload_id = http.post("uploads", json=begun).json()["id"]
    assert 200 == http.post(f"uploads/{upload_id}/parts", files={"data": content}).status_code
    return world


@pytest.mark.parametrize("contract", PREFIXES)
@pytest.mark.timeout(0 if EXAMPLES > 10 else 300)
def test_the_answers_are_those_of_the_document(contract: str) -> None:
    """Statuses, codes, headers and bodies; what it does not allow is refused, and nothing is a 5xx."""
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # as the server does
    world = seeded(contract)
    failures = list(dict.fromkeys(broken(world.app, f"{PREFIXES[contract]}/openapi.json")))
    assert not failures, f"{len(failures)} in all\n" + "\n\n".join(failures[:20])
