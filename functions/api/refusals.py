"""Answers in the OpenAPI document. An operation names the codes that it refuses with; `functions.api.errors` knows their statuses."""

from collections import defaultdict
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema

from functions.api.errors import HEADERS, STATUS
from shared.core.contract import Contract

Responses = dict[int | str, dict[str, Any]]

TEXT: dict[str, Any] = {"required": True, "schema": {"type": "string"}}
"""A header that is there."""

ELSEWHERE: dict[str, Any] = {
    "description": "A signed URL has it.",
    "headers": {"location": TEXT, "cache-control": TEXT},
}
"""The redirect of an answer that would be too large."""

EVERYWHERE = ("server_error", "service_unavailable")
GATED = ("invalid_api_key", "insufficient_permissions")
"""What the gate says, see `functions.api.auth`."""

LISTED = ("invalid_request", "integer_below_min_value", "integer_above_max_value")
"""What lists say about their parameters."""

LINES = (
    "invalid_json_line",
    "missing_required_parameter",
    "invalid_request",
    "url_mismatch",
    "duplicate_custom_id",
    "mismatched_model",
    "model_not_found",
    "request_too_large",
    "context_length_exceeded",
    "too_many_requests_in_file",
)
"""What lines of an input file are refused for."""


class LimitObject(BaseModel):
    """The limit that stands in the way."""

    name: str
    limit: int
    current: int


class ErrorObject(BaseModel):
    """What was refused, and why; `code` is for programs."""

    message: str
    type: Literal["invalid_request_error", "server_error"]
    param: str | None
    code: str
    limit: LimitObject | SkipJsonSchema[None] = None


class ErrorAnswer(BaseModel):
    """The envelope of every refusal."""

    error: ErrorObject


def refusals(*codes: str) -> Responses:
    """Give the answers to an operation that may say these codes, by status."""
    by_status: defaultdict[HTTPStatus, list[str]] = defaultdict(list)
    for code in dict.fromkeys(codes):
        by_status[STATUS[code]].append(code)
    return {int(status): _answer(status, found) for status, found in sorted(by_status.items())}


def lines(contract: Contract) -> tuple[str, ...]:
    """Give the codes with which a contract refuses a file for one of its lines."""
    return tuple(contract.refusal(code) for code in LINES)


def _answer(status: HTTPStatus, codes: list[str]) -> dict[str, Any]:
    narrowed = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
    return {
        "description": status.phrase,
        "headers": dict.fromkeys(HEADERS.get(status, {}), TEXT),
        "content": {
            "application/json": {"schema": {"allOf": [{"$ref": f"#/components/schemas/{ENVELOPE}"}, narrowed]}}
        },
    }


ENVELOPE = ErrorAnswer.__name__
