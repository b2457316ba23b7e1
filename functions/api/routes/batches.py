"""Batches over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header

from functions.api.auth import Gate
from functions.api.body import json_object, json_object_if_any
from functions.api.query import Limit
from functions.api.validation_wire import ValidationObject
from functions.api.wire import BatchList, BatchObject
from shared.core import batch_request
from shared.core.contract import Contract
from shared.core.ids import BatchRef
from shared.services.accounts import Caller
from shared.services.batches import Batches
from shared.services.dry_run import DryRun

LIMIT = Limit(most=100, default=20)


def _key(idempotency_key: Annotated[str | None, Header()] = None) -> str | None:
    # Servers hand headers over as Latin-1; its length is counted in the bytes that were sent.
    return None if idempotency_key is None else idempotency_key.encode("latin-1").decode(errors="backslashreplace")


Key = Annotated[str | None, Depends(_key)]


def add(routes: APIRouter, contract: Contract, batches: Batches, dry_run: DryRun, gate: Gate) -> None:
    """Add the routes to those of a mount."""
    reader = Annotated[Caller, Depends(gate.reader)]
    writer = Annotated[Caller, Depends(gate.writer)]
    creator = Annotated[Caller, Depends(gate.creator)]

    @routes.post("/batches", openapi_extra={"requestBody": _request_body(contract)})
    def create_batch(
        caller: creator,
        body: Annotated[dict[str, Any], Depends(json_object)],
        key: Key,
    ) -> BatchObject:
        """Create a batch from an uploaded file."""
        return BatchObject.of(batches.create(caller.space(contract), contract, body, key), contract)

    @routes.post("/batches/validate", openapi_extra={"requestBody": _request_body(contract)})
    def validate_batch(caller: creator, body: Annotated[dict[str, Any], Depends(json_object)]) -> ValidationObject:
        """Say what would become of a create, every line error and bounds of tokens and cost; nothing is created."""
        return ValidationObject.of(dry_run.run(caller.space(contract), contract, body))

    @routes.get("/batches")
    def list_batches(caller: reader, after: str | None = None, limit: str | None = None) -> BatchList:
        """List batches, newest first."""
        page = batches.page(caller.space(contract), after=after, limit=LIMIT.read(limit))
        return BatchList.of(page, contract)

    @routes.get("/batches/{batch_id}")
    def get_batch(caller: reader, batch_id: str) -> BatchObject:
        """Show one batch."""
        return BatchObject.of(batches.get(BatchRef(*caller.space(contract), batch_id)), contract)

    @routes.post("/batches/{batch_id}/cancel")
    def cancel_batch(caller: writer, batch_id: str) -> BatchObject:
        """Cancel a batch; what is finished is still delivered."""
        return BatchObject.of(batches.cancel(BatchRef(*caller.space(contract), batch_id)), contract)

    @routes.post("/batches/{batch_id}/retry", openapi_extra={"requestBody": _retry_body(contract)})
    def retry_batch(
        caller: creator,
        batch_id: str,
        body: Annotated[dict[str, Any], Depends(json_object_if_any)],
        key: Key,
    ) -> BatchObject:
        """Create a batch of the lines of one that has ended which failed or were never answered."""
        return BatchObject.of(batches.retry(BatchRef(*caller.space(contract), batch_id), contract, body, key), contract)


_OPTIONS: dict[str, dict[str, Any]] = {
    "callback_url": {"type": "string", "format": "uri"},
    "execution": {"type": "string", "enum": list(batch_request.EXECUTIONS)},
    "output_s3_prefix": {"type": "string"},
    "output_expires_after": {
        "type": "object",
        "properties": {"anchor": {"type": "string", "enum": ["created_at"]}, "seconds": {"type": "integer"}},
    },
}


def _changeable(contract: Contract) -> dict[str, Any]:
    return {
        "completion_window": {"type": "string", "enum": list(contract.windows)},
        "metadata": {"type": "object"},
    }


def _retry_body(contract: Contract) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": {"type": "object", "properties": _changeable(contract)}}}}


def _request_body(contract: Contract) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "input_file_id": {"type": "string"},
        "endpoint": {"type": "string", "enum": list(contract.endpoints)},
        **_changeable(contract),
        **{name: _OPTIONS[name] for name in sorted(contract.options)},
    }
    schema = {"type": "object", "required": batch_request.required(contract), "properties": properties}
    return {"required": True, "content": {"application/json": {"schema": schema}}}
