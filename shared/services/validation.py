"""Validate: judge a batch by the scan of its file, which is read once and never the file itself. What is still to be scanned is scanned first."""

from collections.abc import Mapping

import msgspec

from shared.core import lifecycle, paths
from shared.core.contract import Contract
from shared.core.ids import BatchRef
from shared.core.judge import Judge
from shared.core.lifecycle import Event
from shared.core.models import Registry
from shared.core.records import Batch, BatchError, Counts
from shared.core.window import input_until
from shared.ports import BatchStore, Blobs, Clock, Multipart
from shared.services import inputs
from shared.services.acceptance import pinned
from shared.services.object_writer import ObjectWriter
from shared.services.scans import Scans

ERRORS_SHOWN = 10  # in the record, which lists show; the errors object has all of them


class Validation:
    """The Validate state: sets the model, the revision and the total, or rejects the batch with all its line errors."""

    def __init__(
        self,
        *,
        batches: BatchStore,
        blobs: Blobs,
        multipart: Multipart,
        scans: Scans,
        contracts: Mapping[str, Contract],
        registry: Registry,
        clock: Clock,
    ) -> None:
        self._batches = batches
        self._blobs = blobs
        self._multipart = multipart
        self._scans = scans
        self._contracts = contracts
        self._registry = registry
        self._clock = clock

    def validate(self, ref: BatchRef, *, until: float) -> Batch:
        """Judge the batch unless that is done; give it as it then is: terminal when it was rejected, with a revision when it was accepted. Idempotent.

        A batch that has neither waits for the scan of its file, which was worked on until the clock passed `until`, or is worked on elsewhere.
        """
        batch = self._batches.get(ref)
        if _is_judged(batch):
            return batch
        file = self._scans.advance(ref.space, batch.input_file_id, until=until)
        if file.pending is not None:
            return batch
        found = _Errors(ObjectWriter(self._blobs, self._multipart, paths.errors(ref)))
        judge = Judge(batch.endpoint, self._contracts[ref.contract], self._registry, ref.org)
        if file.refusal is not None:
            found.add(file.refusal)
        else:
            for error in judge.errors(inputs.index(batch, self._blobs)):
                found.add(BatchError(code=error.code, message=error.message, param=error.param, line=error.line))
        if found.total:
            found.close()
            gone_at = input_until(batch, int(self._clock()))
            return self._batches.finish(
                ref, lambda batch: self._rejected(batch, judge.total, found), (), input_until=gone_at
            )
        return self._batches.update(ref, lambda batch: self._accepted(batch, judge))

    def _accepted(self, batch: Batch, judge: Judge) -> Batch:
        if judge.model is None:
            raise AssertionError("a scanned file has at least one line")
        if _is_judged(batch):
            return batch
        return msgspec.structs.replace(pinned(batch, judge.model, self._registry), counts=Counts(total=judge.total))

    def _rejected(self, batch: Batch, total: int, found: "_Errors") -> Batch:
        if _is_judged(batch):
            return batch
        batch = msgspec.structs.replace(
            batch, counts=Counts(total=total), errors=tuple(found.shown), errors_total=found.total
        )
        return lifecycle.advance(batch, Event.REJECT, int(self._clock()))


def _is_judged(batch: Batch) -> bool:
    """Whether the batch was judged: then it stays so, even for an invocation that began before and knows other models."""
    return lifecycle.is_terminal(batch) or batch.revision is not None


class _Errors:
    """All errors go to the object; the first ones, as many as a record can hold, are kept to be shown."""

    def __init__(self, writer: ObjectWriter) -> None:
        self._writer = writer
        self.shown: list[BatchError] = []
        self.total = 0

    def add(self, error: BatchError) -> None:
        self._writer.write(msgspec.json.encode(error) + b"\n")
        self.total += 1
        if self.total <= ERRORS_SHOWN:
            self.shown.append(error)

    def close(self) -> None:
        self._writer.close()
