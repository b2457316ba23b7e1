"""Files over HTTP. An upload streams, whatever its size; downloads are in `functions.api.routes.contents`."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool

from functions.api import bodies, s3_request
from functions.api.auth import Gate
from functions.api.body import is_json, json_object
from functions.api.multipart import boundary
from functions.api.query import ORDER, Limit, newest_first
from functions.api.receive import FORM_BYTES, announced, receive
from functions.api.refusals import LISTED, lines, refusals
from functions.api.upload import Upload
from functions.api.wire import FileDeleted, FileList, FileObject
from shared.core.contract import Contract
from shared.core.errors import Refused
from shared.services.accounts import Caller
from shared.services.files import Files
from shared.services.intake import too_large
from shared.services.s3_files import S3Files

LIMIT = Limit(most=10_000, default=10_000)

_UPLOAD = (
    "invalid_request",
    "missing_required_parameter",
    "unknown_parameter",
    "invalid_file_format",
    "invalid_encoding",
    "empty_file",
    "storage_limit_exceeded",
    "file_too_large",
    "body_too_large",
    "unsupported_media_type",
)


def add(
    routes: APIRouter, contract: Contract, files: Files, s3_files: S3Files, gate: Gate, *, inline_bytes: int | None
) -> None:
    """Add the routes to those of a mount; `inline_bytes` is the largest body of an answer, None: any."""
    reader = Annotated[Caller, Depends(gate.reader)]
    writer = Annotated[Caller, Depends(gate.writer)]

    @routes.post(
        "/files",
        openapi_extra={"requestBody": bodies.upload_file(contract)},
        responses=refusals(*_UPLOAD, *lines(contract)),
    )
    async def upload_file(caller: writer, request: Request) -> FileObject:
        """Upload a file; the answer comes when it is stored and scanned. As JSON, name one that is in S3 already, where that is open."""
        if contract.takes_s3 and is_json(request):
            wanted = s3_request.read(await json_object(request))
            take = partial(s3_files.take, caller.space(contract), contract)
            return FileObject.of(
                await run_in_threadpool(
                    take, uri=wanted.uri, purpose=wanted.purpose, expires_after=wanted.expires_after
                )
            )
        limit = contract.file_bytes + FORM_BYTES
        if announced(request) > limit:
            raise too_large(contract)
        begin = partial(files.begin, caller.space(contract), contract)
        upload = Upload(boundary(request.headers.get("content-type")), begin, contract.form_seconds)
        return FileObject.of(await receive(request, upload, limit))

    def list_files(
        caller: reader,
        after: str | None = None,
        limit: Annotated[str | None, LIMIT.schema] = None,
        order: Annotated[str | None, ORDER] = None,
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
        return FileList.of(page, inline_bytes)

    def no_list(_: reader) -> None:
        """Say that there is no list under this contract."""
        raise Refused("not_found", "There is no list of files here. Save the ids that uploads and batches give.")

    if contract.lists_files:
        routes.get("/files", responses=refusals(*LISTED))(list_files)
    else:
        routes.get("/files", status_code=404, responses=refusals("not_found"))(no_list)

    @routes.get("/files/{file_id}", responses=refusals("not_found"))
    def get_file(caller: reader, file_id: str) -> FileObject:
        """Show one file."""
        return FileObject.of(files.get(caller.space(contract), file_id))

    @routes.delete("/files/{file_id}", responses=refusals("not_found", "file_in_use"))
    def delete_file(caller: writer, file_id: str) -> FileDeleted:
        """Delete a file."""
        files.delete(caller.space(contract), file_id)
        return FileDeleted(id=file_id)
