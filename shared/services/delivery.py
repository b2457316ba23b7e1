"""The results of a batch, copied to where its caller wants them in S3, once they are published.

What becomes of the copy is noted on the batch, which it never fails.
"""

import msgspec

from shared.core import paths
from shared.core.errors import NotFound, Unavailable
from shared.core.ids import BatchRef
from shared.core.prefixes import result
from shared.core.records import Batch
from shared.ports import BatchStore, Elsewhere

COPIED = "copied"
FAILED = "failed"
TRIES = 3


class Delivery:
    """Copies results."""

    def __init__(self, *, batches: BatchStore, elsewhere: Elsewhere) -> None:
        self._batches = batches
        self._elsewhere = elsewhere

    def deliver(self, ref: BatchRef) -> Batch:
        """Copy the result files of a batch that has ended, unless that was done or given up; give the batch. Idempotent."""
        batch = self._batches.get(ref)
        if batch.output_s3_prefix is None or batch.output_s3_status is not None:
            return batch
        outcome = self._copy(batch, batch.output_s3_prefix)
        return self._batches.update(ref, lambda batch: msgspec.structs.replace(batch, output_s3_status=outcome))

    def _copy(self, batch: Batch, prefix: str) -> str:
        for file_id, kind in ((batch.output_file_id, "output"), (batch.error_file_id, "errors")):
            if file_id is not None and not self._is_copied(batch, file_id, result(prefix, batch.id, kind)):
                return FAILED
        return COPIED

    def _is_copied(self, batch: Batch, file_id: str, uri: str) -> bool:
        for _ in range(TRIES):
            try:
                self._elsewhere.deliver(paths.file(batch.org, file_id), uri)
            except NotFound:
                return False
            except Unavailable:
                continue
            return True
        return False
