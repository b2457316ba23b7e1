"""Batches over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header

from functions.api import bodies
from functions.api.auth import Gate
from functions.api.body import json_object, json_object_if_any
from functions.api.query import Limit
from functions.api.refusals import LISTED, lines, refusals
from functions.api.validation_wire import ValidationObject
from functions.api.wire import BatchList, BatchObject
from shared.core.contract import Contract, Judged
from shared.core.ids import BatchRef
from shared.services.accounts import Caller
from shared.services.batches import Batches
from shared.services.dry_run import DryRun

LIMIT = Limit(most=100, default=20)

_NEW = ("idempotency_key_reused", "limit_exceeded")
_RETRIED = ("batch_not_ended", "batch_not_retryable", "nothing_to_retry", "input_expired")


def _key(idempotency_key: Annotated[str | None, Header()] = None) -> str | None:
    return idempotency_key  # as Latin-1, so that each of its characters is one of the bytes that were sent


Key = Annotated[str | None, Depends(_key)]


def add(
    routes: APIRouter, contract: Contract, batches: Batches, dry_run: DryRun, gate: Gate, *, inline_bytes: int | None
) -> None:
    """Add the routes to those of a mount; `inline_bytes` is the largest body of an answer, None: any."""
    reader = Annotated[Caller, Depends(gate.reader)]
    writer = Annotated[Caller, Depends(gate.writer)]
    creator = Annotated[Caller, Depends(gate.creator)]

    @routes.post(
        "/batches",
        openapi_extra={"requestBody": bodies.create_batch(contract)},
        responses=refusals(*_codes(contract), *_NEW),
    )
    def create_batch(
        caller: creator,
        body: Annotated[dict[str, Any], Depends(json_object)],
        key: Key,
    ) -> BatchObject:
        """Create a batch from an uploaded file."""
        return BatchObject.of(batches.create(caller.space(contract), contract, body, key), contract)

    @routes.post(
        "/batches/validate",
        openapi_extra={"requestBody": bodies.create_batch(contract)},
        responses=refusals(*_codes(contract), "file_not_ready"),
    )
    def validate_batch(caller: creator, body: Annotated[dict[str, Any], Depends(json_object)]) -> ValidationObject:
        """Say what would become of a create, every line error and bounds of tokens and cost; nothing is created."""
        return ValidationObject.of(dry_run.run(caller.space(contract), contract, body))

    @routes.get("/batches", responses=refusals(*LISTED))
    def list_batches(
        caller: reader, after: str | None = None, limit: Annotated[str | None, LIMIT.schema] = None
    ) -> BatchList:
        """List batches, newest first."""
        page = batches.page(caller.space(contract), after=after, limit=LIMIT.read(limit))
        return BatchList.of(page, contract, inline_bytes)

    @routes.get("/batches/{batch_id}", responses=refusals("not_found"))
    def get_batch(caller: reader, batch_id: str) -> BatchObject:
        """Show one batch."""
        return BatchObject.of(batches.get(BatchRef(*caller.space(contract), batch_id)), contract)

    @routes.post("/batches/{batch_id}/cancel", responses=refusals("not_found", "batch_not_cancellable"))
    def cancel_batch(caller: writer, batch_id: str) -> BatchObject:
        """Cancel a batch; what is finished is still delivered."""
        return BatchObject.of(batches.cancel(BatchRef(*caller.space(contract), batch_id)), contract)

    @routes.post(
        "/batches/{batch_id}/retry",
        openapi_extra={"requestBody": bodies.retry_batch(contract)},
        responses=refusals(*_codes(contract), *_NEW, *_RETRIED),
    )
    def retry_batch(
        caller: creator,
        batch_id: str,
        body: Annotated[dict[str, Any], Depends(json_object_if_any)],
        key: Key,
    ) -> BatchObject:
        """Create a batch of the lines of one that has ended which failed or were never answered."""
        return BatchObject.of(batches.retry(BatchRef(*caller.space(contract), batch_id), contract, body, key), contract)


def _codes(contract: Contract) -> list[str]:
    """Give the codes of a create that is refused, be it for real or not."""
    codes = ["invalid_request", "missing_required_parameter", "unknown_parameter", "not_found", "body_too_large"]
    codes += ["invalid_api_key", contract.no_key]
    if "execution" in contract.options:
        codes.append("batch_routing_unavailable")
    if contract.judged is not Judged.IN_VALIDATION:
        codes += lines(contract)
    if contract.result_bytes is not None:
        codes.append("output_too_large")
    return codes
