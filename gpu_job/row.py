"""A row on its way through the engine: the request that goes in, and the finished row that comes out."""

import struct
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from math import isfinite
from typing import Any

import msgspec

from gpu_job.upstream import Reply
from shared.core import result_line
from shared.core.contract import Contract
from shared.core.models import ADAPTER, EMBEDDINGS, Model
from shared.core.plan import PlanLine, ShardPlan
from shared.core.records import Usage
from shared.core.request_line import RequestLine

SERVED_NAME = "engine"
"""What every engine calls its model, whatever callers call it; adapters keep their names."""

CAPS = {"/v1/chat/completions": "max_tokens"}
"""The field that caps an answer, where a contract's default goes."""


@dataclass
class Row:
    """A line that is being answered, under the rules of its contract.

    `deaths` counts the engines that died with it inside; the others, failures of a living one.
    """

    batch: str
    line: PlanLine
    position: int
    request: RequestLine
    body: bytes
    rules: Contract
    deaths: int = 0
    failures: int = 0
    timeouts: int = 0
    waits: int = 0


@dataclass(frozen=True)
class Finished:
    """A row of a result file: its bytes, whether it belongs to the output file, and what it used."""

    position: int
    ok: bool
    data: bytes
    usage: Usage = result_line.NO_USAGE


class Garbage(Exception):  # noqa: N818 - it is named for what the engine said
    """The engine's answer is not the JSON it should be: NaN, half an answer, not JSON at all."""


def prepare(plan: ShardPlan, position: int, request: RequestLine, model: Model) -> Row:
    """Make the request that goes to the engine: allowed fields only, its own name for the model, a cache of the organization's own."""
    name = request.model if request.model.startswith(ADAPTER) else SERVED_NAME
    body: dict[str, Any] = {**request.body, "model": name}
    if plan.rules.cap_default is not None and not request.cap and request.url in CAPS:
        body[CAPS[request.url]] = plan.rules.cap_default
    if model.engine == "vllm" and request.url != EMBEDDINGS:
        # Prefixes are shared between the batches of one organization; whether another has sent the same must not be measurable.
        body["cache_salt"] = sha256(plan.org.encode()).hexdigest()
    return Row(plan.batch, plan.lines[position], position, request, msgspec.json.encode(body), plan.rules)


def finish(row: Row, reply: Reply) -> Finished:
    """Make the finished row of the engine's final word. Garbage when a good answer cannot be read."""
    line = row.line
    if reply.status != HTTPStatus.OK:
        data = result_line.failed(
            row.batch, line.line, line.custom_id, contract=row.rules, status=reply.status, error=_error(reply)
        )
        return Finished(row.position, ok=False, data=data)
    body = _object(reply.body)
    if body is None:
        raise Garbage("the engine's answer is not an object of JSON, or deeper than anybody reads")
    if row.request.url == EMBEDDINGS:
        _insist_on_numbers(body.get("data"))
    body["model"] = row.request.model
    try:
        data = result_line.answered(row.batch, line.line, line.custom_id, body)
    except RecursionError as error:
        raise Garbage("the engine's answer is deeper than a row may be") from error
    return Finished(row.position, ok=True, data=data, usage=result_line.usage(body))


def give_up(batch: str, line: PlanLine, position: int, message: str) -> Finished:
    """Make the finished row of a request that could not be answered."""
    data = result_line.given_up(batch, line.line, line.custom_id, "server_error", message)
    return Finished(position, ok=False, data=data)


def _object(data: bytes) -> dict[str, Any] | None:
    """Read an object of JSON; None for whatever else the engine said."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _insist_on_numbers(data: object) -> None:
    """Look into vectors that came in base64, where JSON does not: little-endian floats of 32 bits. Garbage."""
    for item in data if isinstance(data, list) else ():
        vector = item.get("embedding") if isinstance(item, dict) else None
        if isinstance(vector, str) and not all(map(isfinite, _floats(vector))):
            raise Garbage("the engine's vector has NaN or an infinity in it")


def _floats(vector: str) -> tuple[float, ...]:
    try:
        data = b64decode(vector, validate=True)
        return struct.unpack(f"<{len(data) // 4}f", data)
    except (ValueError, struct.error) as error:
        raise Garbage("the engine's vector is not base64 of floats") from error


def _error(reply: Reply) -> dict[str, Any]:
    """Give the engine's error in the API's shape, whichever of its shapes it chose."""
    body = _object(reply.body) or {}
    said = body.get("error", body)
    said = said if isinstance(said, dict) else {}
    message, param = said.get("message", said.get("detail")), said.get("param")
    refused = reply.status < HTTPStatus.INTERNAL_SERVER_ERROR and reply.status != HTTPStatus.TOO_MANY_REQUESTS
    code = "invalid_request" if refused else "server_error"
    return {
        "message": message if isinstance(message, str) else f"the engine answered {reply.status}",
        "type": "invalid_request_error" if refused else "server_error",
        "param": param if isinstance(param, str) else None,
        "code": "context_length_exceeded" if param == "input_tokens" else code,
    }
