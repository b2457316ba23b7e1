"""Batches, as callers create, read and cancel them. What happens to a batch in between is the lifecycle's.

A create is its record: once that is kept the batch exists, and an execution that could not be started at once is started by the sweep.
"""

from contextlib import suppress

import msgspec

from shared.core import batch_request, ids, lifecycle, retry
from shared.core.batch_request import BatchRequest
from shared.core.contract import Contract
from shared.core.contracts import CONTRACTS
from shared.core.errors import Conflict, Full, Illegal, NotFound, Refused, Unavailable
from shared.core.ids import BatchRef, Space
from shared.core.lifecycle import Event
from shared.core.records import Batch, Counts, File, Status
from shared.core.window import Timing
from shared.ports import NO_TERMS, BatchStore, Clock, IdempotencyKey, NewId, Terms, Workflow
from shared.services import page
from shared.services.acceptance import Acceptance
from shared.services.files import Files
from shared.services.intake import INPUT
from shared.services.page import Page
from shared.services.progress import Progress

KEY_BYTES = 256
GONE = f"{ids.FILE}{'0' * 26}"
"""An id that no file has."""


class Batches:
    """The batches of every space."""

    def __init__(
        self,
        *,
        store: BatchStore,
        files: Files,
        acceptance: Acceptance,
        progress: Progress,
        workflow: Workflow,
        timing: Timing,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._store = store
        self._files = files
        self._acceptance = acceptance
        self._progress = progress
        self._workflow = workflow
        self._timing = timing
        self._clock = clock
        self._new_id = new_id

    def create(self, space: Space, contract: Contract, body: dict[str, object], key: str | None = None) -> Batch:
        """Create a batch from the decoded body of a request; under a key that is bound already, give the batch that it made.

        NotFound when there is no such input file. Refused when the body, the key or the file breaks a rule of the contract, `limit_exceeded` when the
        organization has as many unfinished batches as it may, and `idempotency_key_reused` when the key made another batch. A create that
        raises has not used its key up.
        """
        request = batch_request.read(body, contract)
        binding = _binding(contract, key, request.fingerprint(contract))
        return self._make(space, contract, request, binding)

    def retry(self, ref: BatchRef, contract: Contract, body: dict[str, object], key: str | None = None) -> Batch:
        """Create a batch of the lines of an ended one that failed or were never answered (`shared.core.retry`). As `create`.

        NotFound when there is no such batch. Refused besides: as `retry.check`, and `input_expired` when one of the files that it takes is gone.
        """
        original = self.record(ref)
        request = retry.request(original, body, contract)
        binding = _binding(contract, key, request.fingerprint(contract, retry_of=original.id))
        try:
            return self._make(ref.space, contract, request, binding, original)
        except NotFound:
            message = (
                "The input file of the batch, or the error file that tells which lines failed, was deleted or has expired. "
                "Upload the lines again and create a new batch."
            )
            raise Refused("input_expired", message) from None

    def draft(self, space: Space, contract: Contract, request: BatchRequest) -> tuple[Batch, File]:
        """Give the batch that a create would make, before any of its lines were looked at, and its input. NotFound; Refused."""
        return self._with_input(self._blank(space, contract, request), request)

    def _make(
        self,
        space: Space,
        contract: Contract,
        request: BatchRequest,
        binding: IdempotencyKey | None,
        original: Batch | None = None,
    ) -> Batch:
        """Create the batch, or give the one that the key made."""
        batch = self._blank(space, contract, request)
        try:
            if original is not None:
                retry.check(original)
            batch, file = self._with_input(batch, request)
            if original is not None:
                batch = self._again(batch, original)
            batch = self._acceptance.check(contract, request, batch, file)
            terms = self._acceptance.terms(contract, batch, file)
        except (NotFound, Refused) as refusal:
            if binding is None:
                raise
            batch = self._made_before(batch, binding, refusal)
        else:
            batch = self._keep(batch, binding, terms)
        if not lifecycle.is_terminal(batch):
            with suppress(Unavailable):
                self._workflow.start(batch.ref, batch.generation)
        return self._progress.of(batch)

    def get(self, ref: BatchRef) -> Batch:
        """Give a batch with all that is shown of it; NotFound."""
        return self._progress.errors(self._progress.of(self.record(ref)))

    def record(self, ref: BatchRef) -> Batch:
        """Give the record of a batch; NotFound."""
        if not ids.could_be(ids.BATCH, ref.id):
            raise NotFound(f"there is no batch {ref.id!r}")
        return self._store.get(ref)

    def page(self, space: Space, *, after: str | None, limit: int) -> Page[Batch]:
        """Give `limit` batches older than the batch `after`, newest first. Refused `invalid_request` when `after` is unknown."""
        if after is not None:
            self._check_cursor(space, after)
        found = page.fill(
            lambda after, limit: self._store.page(space, after=after, limit=limit), after, limit, lambda _: True
        )
        return Page([self._progress.of(batch) for batch in found.items], found.has_more)

    def cancel(self, ref: BatchRef) -> Batch:
        """Let no more of a batch run; what is finished is still delivered. Again, it changes nothing.

        NotFound; Refused `batch_not_cancellable` when the batch has ended otherwise, unless the contract is content with that.
        """
        at = int(self._clock())
        content = lifecycle.TERMINAL if CONTRACTS[ref.contract].cancel_of_ended else {Status.CANCELLED}

        def change(batch: Batch) -> Batch:
            return batch if batch.status in content else lifecycle.advance(batch, Event.CANCEL, at)

        self.record(ref)
        try:
            batch = self._store.update(ref, change)
        except Illegal as illegal:
            raise Refused("batch_not_cancellable", f"The batch cannot be cancelled: {illegal}.") from None
        if batch.token is not None and not lifecycle.is_terminal(batch):
            with suppress(Unavailable):  # whoever waits with the token looks again by himself
                self._workflow.resume(batch.token)
        return self._progress.of(batch)

    def _with_input(self, batch: Batch, request: BatchRequest) -> tuple[Batch, File]:
        file = self._input(batch.space, request.input_file_id)
        return msgspec.structs.replace(batch, input_file_id=file.id, counts=Counts(total=file.requests or 0)), file

    def _again(self, batch: Batch, original: Batch) -> Batch:
        """Give a drafted batch as the retry of another; NotFound when the error file of that one is gone."""
        batch = msgspec.structs.replace(batch, retry_of=original.id)
        if original.error_file_id is None:  # nothing of it ran: all of it is left
            return batch
        lines = self._files.get(original.space, original.error_file_id).id
        return msgspec.structs.replace(batch, lines_file_id=lines, counts=Counts(total=retry.left(original)))

    def _blank(self, space: Space, contract: Contract, request: BatchRequest) -> Batch:
        now = int(self._clock())
        first = contract.first_status
        return Batch(
            id=self._new_id(ids.BATCH),
            org=space.org,
            contract=space.contract,
            endpoint=request.endpoint,
            input_file_id=GONE,
            completion_window=request.completion_window,
            created_at=now,
            expires_at=self._timing.expires_at(contract, request.completion_window, request.metadata, now),
            status=first,
            in_progress_at=now if first is Status.IN_PROGRESS else None,
            metadata=request.metadata,
            execution_preference=request.execution,
            callback_url=request.callback_url,
            output_lifetime=request.output_lifetime,
            output_s3_prefix=request.output_s3_prefix,
        )

    def _input(self, space: Space, file_id: str) -> File:
        file = self._files.get(space, file_id)
        if file.purpose != INPUT:
            message = f"The input file must have the purpose {INPUT!r}; this one has {file.purpose!r}."
            raise Refused("invalid_request", message, param="input_file_id")
        return file

    def _made_before(self, batch: Batch, binding: IdempotencyKey, refusal: NotFound | Refused) -> Batch:
        """Give the batch that the key made while the create was still possible; raise the refusal where there is none."""
        try:
            # Of a file that nobody has the store makes no batch; it can only give back one.
            return self._keep(msgspec.structs.replace(batch, input_file_id=GONE), binding, NO_TERMS)
        except NotFound:
            raise refusal from None

    def _keep(self, batch: Batch, binding: IdempotencyKey | None, terms: Terms) -> Batch:
        try:
            return self._store.create(batch, binding, terms)
        except Full as full:
            raise _too_many(full) from None
        except Conflict:
            message = "This Idempotency-Key made a batch of another request. Use a new key for a new batch."
            raise Refused("idempotency_key_reused", message, param="Idempotency-Key") from None
        except Unavailable as unavailable:
            try:
                return self._store.get(batch.ref)  # the answer may have been lost after the effect
            except NotFound:
                raise unavailable from None

    def _check_cursor(self, space: Space, after: str) -> None:
        try:
            self.record(BatchRef(*space, after))
        except NotFound:
            message = f"'after' names no batch: {after!r}. Begin again without it."
            raise Refused("invalid_request", message, param="after") from None


def _binding(contract: Contract, key: str | None, request_hash: str) -> IdempotencyKey | None:
    if key is not None:
        return IdempotencyKey(_checked(key), request_hash)
    if contract.key_required:
        message = (
            "Missing required header: 'Idempotency-Key'. Send one of your own making, a new one for each new batch."
        )
        raise Refused("missing_required_parameter", message, param="Idempotency-Key")
    return None


def _checked(key: str) -> str:
    if not 1 <= len(key) <= KEY_BYTES:
        message = f"'Idempotency-Key' must have 1 to {KEY_BYTES} bytes."
        raise Refused("invalid_request", message, param="Idempotency-Key")
    return key


def _too_many(full: Full) -> Refused:
    most = full.limit.most if full.limit else "as many as it may"
    message = f"The organization has {most} unfinished batches, which is its limit. Wait until one has ended."
    return Refused("limit_exceeded", message, limit=full.limit)
