"""The objects of the API, exactly as they are sent. Every key is always there; null where there is nothing."""

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict

from functions.api import extras
from shared.core import records
from shared.core.contract import Contract
from shared.core.models import Model
from shared.services.page import Page


class FileObject(BaseModel):
    """A file."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: str
    status_details: str | None = None

    @classmethod
    def of(cls, file: records.File) -> Self:
        """Show a record."""
        return cls(
            id=file.id,
            bytes=file.bytes,
            created_at=file.created_at,
            expires_at=file.expires_at,
            filename=file.filename,
            purpose=file.purpose,
            status=file.status,
            status_details=None if file.refusal is None else file.refusal.message,
        )


class FileDeleted(BaseModel):
    """The answer to a delete."""

    id: str
    object: Literal["file"] = "file"
    deleted: bool = True


class FileList(BaseModel):
    """A page of files."""

    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def of(cls, page: Page[records.File], most: int | None) -> Self:
        """Show a page of records, as far as it fits into so many bytes; None: all of it."""
        data = _fitting([FileObject.of(file) for file in page.items], most)
        first, last = _ends(data)
        return cls(data=data, first_id=first, last_id=last, has_more=page.has_more or len(data) < len(page.items))


class LineErrorObject(BaseModel):
    """Why a line of the input is refused."""

    code: str
    message: str
    param: str | None
    line: int | None


class Errors(BaseModel):
    """The first errors of a batch; `total` says how many there are."""

    object: Literal["list"] = "list"
    data: list[LineErrorObject]
    total: int

    @classmethod
    def of(cls, errors: Sequence[records.BatchError], total: int) -> Self | None:
        """Show errors, of so many; None where there are none."""
        if not errors:
            return None
        shown = [
            LineErrorObject(code=error.code, message=error.message, param=error.param, line=error.line)
            for error in errors
        ]
        return cls(data=shown, total=max(total, len(shown)))


class RequestCounts(BaseModel):
    """Rows; those that never ran are in `total` only."""

    total: int
    completed: int
    failed: int


class InputTokensDetails(BaseModel):
    """A part of the input tokens."""

    cached_tokens: int


class OutputTokensDetails(BaseModel):
    """A part of the output tokens."""

    reasoning_tokens: int


class UsageObject(BaseModel):
    """Tokens."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int

    @classmethod
    def of(cls, usage: records.Usage) -> Self:
        """Show a record's usage."""
        return cls(
            input_tokens=usage.input_tokens,
            input_tokens_details=InputTokensDetails(cached_tokens=usage.cached_tokens),
            output_tokens=usage.output_tokens,
            output_tokens_details=OutputTokensDetails(reasoning_tokens=usage.reasoning_tokens),
            total_tokens=usage.input_tokens + usage.output_tokens,
        )


class BatchObject(BaseModel):
    """A batch; besides these fields it has those that the contract wants."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    model: str | None
    errors: Errors | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: UsageObject
    metadata: dict[str, Any] | None

    @classmethod
    def of(cls, batch: records.Batch, contract: Contract) -> Self:
        """Show a record under its contract."""
        return cls(
            id=batch.id,
            endpoint=batch.endpoint,
            model=batch.model,
            errors=Errors.of(batch.errors, batch.errors_total),
            input_file_id=batch.input_file_id,
            completion_window=batch.completion_window,
            status=batch.status,
            output_file_id=batch.output_file_id,
            error_file_id=batch.error_file_id,
            created_at=batch.created_at,
            in_progress_at=batch.in_progress_at,
            expires_at=batch.expires_at,
            finalizing_at=batch.finalizing_at,
            completed_at=batch.completed_at,
            failed_at=batch.failed_at,
            expired_at=batch.expired_at,
            cancelling_at=batch.cancelling_at,
            cancelled_at=batch.cancelled_at,
            request_counts=RequestCounts(
                total=batch.counts.total, completed=batch.counts.completed, failed=batch.counts.failed
            ),
            usage=UsageObject.of(batch.usage),
            metadata=batch.metadata,
            **extras.of(batch, contract),
        )


class BatchList(BaseModel):
    """A page of batches."""

    object: Literal["list"] = "list"
    data: list[BatchObject]
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def of(cls, page: Page[records.Batch], contract: Contract, most: int | None) -> Self:
        """Show a page of records, as far as it fits into so many bytes; None: all of it."""
        data = _fitting([BatchObject.of(batch, contract) for batch in page.items], most)
        first, last = _ends(data)
        return cls(data=data, first_id=first, last_id=last, has_more=page.has_more or len(data) < len(page.items))


class Pricing(BaseModel):
    """Prices of tokens: integers, as decimal strings."""

    unit: str
    input: str
    cached_input: str
    output: str


class BatchTerms(BaseModel):
    """What a model takes in batches under this mount; `pricing` is null where GPU time is paid for."""

    completion_windows: list[str]
    max_requests: int
    max_file_bytes: int
    max_output_tokens: int
    pricing: Pricing | None


class ModelObject(BaseModel):
    """A model, and the endpoints and terms of its batches."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    endpoints: list[str]
    context: int
    revision: str
    batch: BatchTerms

    @classmethod
    def of(cls, model: Model, base: Model, contract: Contract) -> Self:
        """Show a model, served by the workers of `base`, under a contract."""
        private = contract.private_requests if model.private else None
        return cls(
            id=model.id,
            created=model.created,
            owned_by=model.owned_by,
            endpoints=[endpoint for endpoint in base.endpoints if endpoint in contract.endpoints],
            context=base.context,
            revision=model.revision,
            batch=BatchTerms(
                completion_windows=list(contract.windows),
                max_requests=private or contract.file_requests,
                max_file_bytes=contract.file_bytes,
                max_output_tokens=min(base.max_output, contract.cap_most or base.max_output),
                pricing=None if model.private else Pricing(**extras.pricing(base.prices)),
            ),
        )


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"] = "ok"


def _ends(data: Sequence[FileObject | BatchObject]) -> tuple[str | None, str | None]:
    return (data[0].id, data[-1].id) if data else (None, None)


Shown = TypeVar("Shown", FileObject, BatchObject)


def _fitting(data: list[Shown], most: int | None) -> list[Shown]:
    """Give the first objects of a page, at least one: what does not fit into the answer is for the next page."""
    if most is None:
        return data
    left = most
    for count, one in enumerate(data):
        left -= len(one.model_dump_json().encode()) + 1
        if left < 0 and count:
            return data[:count]
    return data
