"""Uploads over HTTP: a file in parts, for what does not fit into one request."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from functions.api import bodies, upload_request
from functions.api.auth import Gate
from functions.api.body import json_object
from functions.api.multipart import boundary
from functions.api.part_form import DATA, PartForm
from functions.api.receive import FORM_BYTES, announced, receive
from functions.api.refusals import lines, refusals
from functions.api.upload_wire import PartUrlObject, UploadObject, UploadPart, UploadUrls
from shared.core.contract import Contract
from shared.core.errors import Refused
from shared.services.accounts import Caller
from shared.services.completions import Completions
from shared.services.part_intake import PART_BYTES
from shared.services.uploads import Uploads

Body = Annotated[dict[str, Any], Depends(json_object)]

_BODY = ("invalid_request", "missing_required_parameter", "unknown_parameter", "body_too_large")
_PENDING = ("not_found", "upload_not_pending")


def add(routes: APIRouter, contract: Contract, uploads: Uploads, completions: Completions, gate: Gate) -> None:
    """Add the routes to those of a mount."""
    reader = Annotated[Caller, Depends(gate.reader)]
    writer = Annotated[Caller, Depends(gate.writer)]

    @routes.post(
        "/uploads",
        openapi_extra={"requestBody": bodies.create_upload(contract)},
        responses=refusals(
            *_BODY, "integer_below_min_value", "invalid_file_format", "storage_limit_exceeded", "file_too_large"
        ),
    )
    def create_upload(caller: writer, body: Body) -> UploadObject:
        """Begin an upload; it has to be completed within an hour."""
        return UploadObject.of(uploads.create(caller.space(contract), contract, upload_request.creation(body)))

    @routes.get("/uploads/{upload_id}", responses=refusals("not_found"))
    def get_upload(caller: reader, upload_id: str) -> UploadObject:
        """Show one upload."""
        return UploadObject.of(uploads.get(caller.space(contract), upload_id))

    @routes.post(
        "/uploads/{upload_id}/parts",
        openapi_extra={"requestBody": bodies.add_part()},
        responses=refusals(*_BODY, "unsupported_media_type", *_PENDING),
    )
    async def add_part(caller: writer, upload_id: str, request: Request) -> UploadPart:
        """Add a part. In any order, side by side; through API Gateway a part has at most 4 MiB."""
        limit = PART_BYTES + FORM_BYTES
        if announced(request) > limit:
            message = f"A part has at most {PART_BYTES} bytes. Send smaller parts."
            raise Refused("body_too_large", message, param=DATA)
        begin = partial(uploads.begin_part, caller.space(contract), upload_id)
        form = PartForm(boundary(request.headers.get("content-type")), begin)
        return UploadPart.of(await receive(request, form, limit))

    @routes.post(
        "/uploads/{upload_id}/urls",
        openapi_extra={"requestBody": bodies.sign_parts()},
        responses=refusals(*_BODY, "integer_below_min_value", *_PENDING),
    )
    def sign_parts(caller: writer, upload_id: str, body: Body) -> UploadUrls:
        """Give URLs that take parts straight to the store."""
        numbers = upload_request.part_numbers(body)
        urls = uploads.urls(caller.space(contract), contract, upload_id, numbers)
        return UploadUrls(upload_id=upload_id, data=[PartUrlObject.of(url) for url in urls])

    @routes.post(
        "/uploads/{upload_id}/complete",
        openapi_extra={"requestBody": bodies.complete_upload()},
        responses=refusals(
            *_BODY,
            "integer_below_min_value",
            "invalid_file_format",
            "invalid_encoding",
            "empty_file",
            "storage_limit_exceeded",
            *lines(contract),
            *_PENDING,
        ),
    )
    def complete_upload(caller: writer, upload_id: str, body: Body) -> UploadObject:
        """Make the file. A large one is put together and scanned after the answer."""
        space, wanted = caller.space(contract), upload_request.completion(body)
        if wanted.etags is not None:
            return UploadObject.of(
                completions.of_urls(space, contract, upload_id, etags=wanted.etags, digest=wanted.md5)
            )
        part_ids = wanted.part_ids or []
        return UploadObject.of(completions.of_parts(space, contract, upload_id, part_ids=part_ids, digest=wanted.md5))

    @routes.post("/uploads/{upload_id}/cancel", responses=refusals(*_PENDING))
    def cancel_upload(caller: writer, upload_id: str) -> UploadObject:
        """Give an upload up."""
        return UploadObject.of(uploads.cancel(caller.space(contract), upload_id))
