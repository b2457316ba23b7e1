"""Bodies of requests: one JSON object held in memory, or a stream taken in blocks."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from fastapi import Request

from shared.core.errors import Refused

JSON_BYTES = 1 << 20
BLOCK_BYTES = 1 << 20


def is_json(request: Request) -> bool:
    """Whether a body says that it is JSON."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


async def json_object(request: Request) -> dict[str, Any]:
    """Read a body that must be a JSON object. Refused `body_too_large` or `invalid_request`."""
    return _decoded(await _read(request))


async def json_object_if_any(request: Request) -> dict[str, Any]:
    """Read a body that may be left out, which is an empty object. As `json_object`."""
    body = await _read(request)
    return _decoded(body) if body else {}


async def _read(request: Request) -> bytearray:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > JSON_BYTES:
            raise Refused("body_too_large", f"The body is larger than {JSON_BYTES} bytes.")
    return body


def _decoded(body: bytearray) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused("invalid_request", "The body must be a JSON object.") from None


async def blocks(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Gather the small pieces in which a body arrives: handing one to a thread costs the same for any size."""
    gathered = bytearray()
    async for piece in stream:
        gathered += piece
        if len(gathered) >= BLOCK_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


async def discard(stream: AsyncIterator[bytes], at_most: int) -> None:
    """Read a refused body to its end: many clients look for an answer only when they have sent everything."""
    async for piece in stream:
        at_most -= len(piece)
        if at_most < 0:
            return
