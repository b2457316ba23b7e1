"""Files over HTTP: uploads and downloads stream, whatever their size."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

from anyio import CancelScope
from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from functions.api import ranges
from functions.api.auth import Gate
from functions.api.body import blocks, discard
from functions.api.errors import envelope
from functions.api.multipart import boundary
from functions.api.query import Limit, newest_first
from functions.api.ranges import ByteRange, Unsatisfiable
from functions.api.upload import ANCHOR, FILE, PURPOSE, SECONDS, Upload
from functions.api.wire import FileDeleted, FileList, FileObject
from shared.core import records
from shared.core.contract import Contract
from shared.core.errors import Refused, Unavailable
from shared.services.accounts import Caller
from shared.services.files import Files
from shared.services.intake import too_large

LIMIT = Limit(most=10_000, default=10_000)
FORM_BYTES = 1 << 20
"""More than a form needs around its file."""

CONTENT_TYPE = "application/jsonl"


def add(routes: APIRouter, contract: Contract, files: Files, gate: Gate) -> None:
    """Add the routes to those of a mount."""
    reader = Annotated[Caller, Depends(gate.reader)]
    writer = Annotated[Caller, Depends(gate.writer)]

    @routes.post("/files", openapi_extra={"requestBody": _FORM})
    async def upload_file(caller: writer, request: Request) -> FileObject:
        """Upload a file; the answer comes when it is stored and scanned."""
        limit = contract.file_bytes + FORM_BYTES
        if _announced(request) > limit:
            raise too_large(contract)
        begin = partial(files.begin, caller.space(contract), contract)
        upload = Upload(boundary(request.headers.get("content-type")), begin)
        return FileObject.of(await _receive(request, upload, limit))

    @routes.get("/files")
    def list_files(
        caller: reader,
        after: str | None = None,
        limit: str | None = None,
        order: str | None = None,
        purpose: str | None = None,
    ) -> FileList:
        """List files."""
        page = files.page(
            caller.space(contract),
            after=after,
            limit=LIMIT.read(limit),
            newest_first=newest_first(order),
            purpose=purpose,
        )
        return FileList.of(page)

    @routes.get("/files/{file_id}")
    def get_file(caller: reader, file_id: str) -> FileObject:
        """Show one file."""
        return FileObject.of(files.get(caller.space(contract), file_id))

    @routes.delete("/files/{file_id}")
    def delete_file(caller: writer, file_id: str) -> FileDeleted:
        """Delete a file."""
        files.delete(caller.space(contract), file_id)
        return FileDeleted(id=file_id)

    @routes.head("/files/{file_id}/content", include_in_schema=False)
    def head_content(caller: reader, file_id: str) -> Response:
        """Say how large the content is."""
        info = files.stat(files.get(caller.space(contract), file_id))
        return Response(headers=_content_headers(ranges.etag(info), info.size))

    @routes.get("/files/{file_id}/content", response_class=StreamingResponse)
    def get_content(
        caller: reader,
        file_id: str,
        range_header: Annotated[str | None, Header(alias="range")] = None,
        if_range: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Download the content, or one range of it."""
        file = files.get(caller.space(contract), file_id)
        info = files.stat(file)
        wanted = ranges.wanted(info, range_header, if_range)
        if isinstance(wanted, Unsatisfiable):
            message = f"The file has {info.size} bytes; the range lies outside of it."
            return envelope("range_not_satisfiable", message, headers={"content-range": f"bytes */{info.size}"})
        part = wanted or ByteRange(0, info.size)
        headers = _content_headers(ranges.etag(info), part.end - part.start)
        if wanted:
            headers["content-range"] = f"bytes {part.start}-{part.end - 1}/{info.size}"
        return StreamingResponse(_read(files, file, part), 206 if wanted else 200, headers)


async def _receive(request: Request, upload: Upload, limit: int) -> records.File:
    stream = request.stream()
    try:
        async for block in blocks(stream):
            await run_in_threadpool(upload.feed, block)
        return await run_in_threadpool(upload.finish)
    except Refused as refused:
        if refused.code != "file_too_large":
            await discard(stream, limit)
        raise
    finally:
        with CancelScope(shield=True), suppress(Unavailable):  # the bucket's lifecycle removes what is left then
            await run_in_threadpool(upload.abort)


def _read(files: Files, file: records.File, part: ByteRange) -> Iterator[bytes]:
    if part.end > part.start:  # an empty object has no range to ask for
        yield from files.read(file, part.start, part.end)


def _announced(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdecimal() else 0


def _content_headers(etag: str, length: int) -> dict[str, str]:
    return {"content-type": CONTENT_TYPE, "etag": etag, "accept-ranges": "bytes", "content-length": str(length)}


_FORM: dict[str, Any] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": [FILE, PURPOSE],
                "properties": {
                    FILE: {"type": "string", "format": "binary"},
                    PURPOSE: {"type": "string", "enum": ["batch"]},
                    ANCHOR: {"type": "string", "enum": ["created_at"]},
                    SECONDS: {"type": "integer"},
                },
            }
        }
    },
}
