"""A row on its way through the engine: the request that goes in, and the finished row that comes out."""

import struct
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from math import isfinite
from typing import Any

import msgspec

from gpu_job.structured import Format, wanted
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

    `deaths` counts the engines that died with it inside; the others, failures of a living one. `turned_away_at` is when a busy one first had no place for
    it, by the loop's time, and `answered`, how many others it had answered when it last had none.
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
    turned_away_at: float | None = None
    answered: int = 0

    @property
    def format(self) -> Format | None:
        """The JSON that it wants for an answer, if it does."""
        return wanted(self.request)


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
    if model.engine == "vllm":
        # Prefixes are shared between the batches of one organization; whether another has sent the same must not be measurable.
        body["cache_salt"] = sha256(plan.org.encode()).hexdigest()
    return Row(plan.batch, plan.lines[position], position, request, msgspec.json.encode(body), plan.rules)


def finish(row: Row, reply: Reply) -> Finished:
    """Make the finished row of the engine's final word. Garbage when a good answer cannot be read."""
    if reply.status != HTTPStatus.OK:
        return _failed(row, reply.status, _error(reply))
    line, body = row.line, read(reply)
    if row.request.url == EMBEDDINGS:
        _insist_on_numbers(body.get("data"))
    body["model"] = row.request.model
    try:
        data = result_line.answered(row.batch, line.line, line.custom_id, body)
    except RecursionError as error:
        raise Garbage("the engine's answer is deeper than a row may be") from error
    return Finished(row.position, ok=True, data=data, usage=result_line.usage(body))


def give_up(batch: str, line: PlanLine, position: int, message: str, code: str = "server_error") -> Finished:
    """Make the finished row of a request that could not be answered."""
    data = result_line.given_up(batch, line.line, line.custom_id, code, message)
    return Finished(position, ok=False, data=data)


def refuse(row: Row, message: str, param: str | None = None) -> Finished:
    """Make the finished row of a request that we refuse as the engine would have."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": "invalid_request"}
    return _failed(row, HTTPStatus.BAD_REQUEST, error)


def read(reply: Reply) -> dict[str, Any]:
    """Read the engine's good answer; Garbage when it cannot be read."""
    body = _object(reply.body)
    if body is None:
        raise Garbage("the engine's answer is not an object of JSON, or deeper than anybody reads")
    return body


def _failed(row: Row, status: int, error: dict[str, Any]) -> Finished:
    line = row.line
    data = result_line.failed(row.batch, line.line, line.custom_id, contract=row.rules, status=status, error=error)
    return Finished(row.position, ok=False, data=data)


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
    if reply.status == HTTPStatus.NOT_FOUND and param == "model":
        code = "model_not_found"
    return {
        "message": message if isinstance(message, str) else f"the engine answered {reply.status}",
        "type": "invalid_request_error" if refused else "server_error",
        "param": param if isinstance(param, str) else None,
        "code": "context_length_exceeded" if param == "input_tokens" else code,
    }
