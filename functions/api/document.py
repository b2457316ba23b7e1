"""The OpenAPI document of a mount: what the framework reads from the routes, and what they have in common.

The framework tells of an error of its own, 422, that no caller ever sees, and of parameters that may be null, which nobody can send.
"""

from collections.abc import Sequence
from typing import Any

from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from functions.api import extras
from functions.api.edge import REQUEST_ID
from functions.api.refusals import ENVELOPE, EVERYWHERE, GATED, ErrorAnswer, refusals
from shared.core.contract import Contract
from shared.services.batches import KEY_BYTES

TITLE = "Slackwater"
VERSION = "1"

_SCHEMAS = "#/components/schemas/{model}"
_UNSEEN = ("HTTPValidationError", "ValidationError")
_KEY = {"type": "string", "minLength": 1, "maxLength": KEY_BYTES}
_REQUEST_ID = {"description": "Names the request in the log.", "required": True, "schema": {"type": "string"}}


def document(routes: Sequence[BaseRoute], contract: Contract) -> dict[str, Any]:
    """Describe the routes of a contract's mount."""
    told = get_openapi(title=TITLE, version=VERSION, routes=routes)
    for path in told["paths"].values():
        for method, operation in path.items():
            _complete(method, operation, contract)
    schemas = told["components"]["schemas"]
    for name in _UNSEEN:
        schemas.pop(name, None)
    envelope = ErrorAnswer.model_json_schema(ref_template=_SCHEMAS, mode="serialization")
    schemas |= {**envelope.pop("$defs"), ENVELOPE: envelope}
    for name, schema in extras.schemas(contract).items():
        schemas["BatchObject"]["properties"][name] = schema
    return told


def _complete(method: str, operation: dict[str, Any], contract: Contract) -> None:
    responses = operation["responses"]
    responses.pop("422", None)
    common = refusals(*EVERYWHERE, *(GATED if "security" in operation else ()))
    for status, answer in common.items():
        responses.setdefault(str(status), answer)
    for answer in responses.values():
        answer["headers"] = {**answer.get("headers", {}), REQUEST_ID: _REQUEST_ID}
        if method == "head":
            answer.pop("content", None)
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == "idempotency-key":
            parameter |= {"required": contract.key_required, "schema": _KEY}
        else:
            parameter["schema"] = _said(parameter["schema"])


def _said(schema: dict[str, Any]) -> dict[str, Any]:
    """Give the schema of a parameter that is there."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema
