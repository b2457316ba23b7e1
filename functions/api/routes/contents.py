"""The bytes of files over HTTP. They stream; where an answer must stay small, a large one comes by a redirect to the store.

The store knows ranges as well, and clients repeat their headers to it, but for the key, which stays here.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from functions.api import ranges
from functions.api.auth import Gate
from functions.api.errors import envelope
from functions.api.ranges import ByteRange, Unsatisfiable
from functions.api.refusals import ELSEWHERE, TEXT, Responses, refusals
from shared.core import records
from shared.core.contract import Contract
from shared.core.errors import Refused
from shared.ports import BlobInfo
from shared.services.accounts import Caller
from shared.services.files import Files

CONTENT_TYPE = "application/jsonl"
URL_SECONDS = 900

_WHOLE: dict[str, Any] = {
    "description": "The content.",
    "headers": {"etag": TEXT, "accept-ranges": TEXT, "content-length": TEXT},
    "content": {CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}}},
}
_PART = _WHOLE | {"description": "The range.", "headers": {**_WHOLE["headers"], "content-range": TEXT}}
_REFUSALS = refusals("not_found", "file_not_ready")


def add(routes: APIRouter, contract: Contract, files: Files, gate: Gate, inline_bytes: int | None) -> None:
    """Add the routes to those of a mount; `inline_bytes` is the largest body of an answer, None: any."""
    reader = Annotated[Caller, Depends(gate.reader)]

    @routes.head("/files/{file_id}/content", responses={200: _WHOLE, **_REFUSALS})
    def head_content(caller: reader, file_id: str) -> Response:
        """Say how large the content is."""
        info = _stat(files, files.get(caller.space(contract), file_id))
        return Response(headers=_headers(ranges.etag(info), info.size))

    @routes.get("/files/{file_id}/content", response_class=StreamingResponse, responses=_answers(inline_bytes))
    def get_content(
        caller: reader,
        file_id: str,
        range_header: Annotated[str | None, Header(alias="range")] = None,
        if_range: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Download the content, or one range of it."""
        file = files.get(caller.space(contract), file_id)
        info = _stat(files, file)
        wanted = ranges.wanted(info, range_header, if_range)
        if isinstance(wanted, Unsatisfiable):
            message = f"The file has {info.size} bytes; the range lies outside of it."
            return envelope("range_not_satisfiable", message, headers={"content-range": f"bytes */{info.size}"})
        part = wanted or ByteRange(0, info.size)
        if inline_bytes is not None and part.end - part.start > inline_bytes:
            url = files.url(file, seconds=URL_SECONDS, content_type=CONTENT_TYPE)
            return RedirectResponse(url, 302, {"cache-control": "no-store"})
        headers = _headers(ranges.etag(info), part.end - part.start)
        if wanted:
            headers["content-range"] = f"bytes {part.start}-{part.end - 1}/{info.size}"
        return StreamingResponse(_read(files, file, part), 206 if wanted else 200, headers)


def _answers(inline_bytes: int | None) -> Responses:
    """Tell the answers to a download."""
    outside = refusals("range_not_satisfiable")
    for answer in outside.values():
        answer["headers"]["content-range"] = TEXT
    redirect: Responses = {} if inline_bytes is None else {302: ELSEWHERE}
    return {200: _WHOLE, 206: _PART, **redirect, **_REFUSALS, **outside}


def _stat(files: Files, file: records.File) -> BlobInfo:
    if file.pending is not None and file.pending.pieces:
        message = "The file is still being put together. Try again when its status is 'processed'."
        raise Refused("file_not_ready", message)
    return files.stat(file)


def _read(files: Files, file: records.File, part: ByteRange) -> Iterator[bytes]:
    if part.end > part.start:  # an empty object has no range to ask for
        yield from files.read(file, part.start, part.end)


def _headers(etag: str, length: int) -> dict[str, str]:
    return {"content-type": CONTENT_TYPE, "etag": etag, "accept-ranges": "bytes", "content-length": str(length)}
