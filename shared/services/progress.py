"""How far a batch is: what the API shows of it beyond its record.

While a batch runs its shards know its counts; once it has ended the record does. The record shows the first few line errors; the others
are read from the object that Validate wrote, when somebody asks for one batch.
"""

from itertools import islice

import msgspec

from shared.core import lifecycle, paths, rows
from shared.core.errors import NotFound
from shared.core.ids import BatchRef
from shared.core.records import Batch, BatchError, Counts, Usage
from shared.ports import Blobs, Clock, Shards
from shared.services.recent import Recent

SECONDS = 2.0
"""How old the counts of a running batch may be."""

ERRORS = 1000
"""The most line errors that are shown of a batch."""

_ERROR = msgspec.json.Decoder(BatchError)


class Progress:
    """Fills in what the record of a batch leaves out."""

    def __init__(self, *, shards: Shards, blobs: Blobs, clock: Clock) -> None:
        self._shards = shards
        self._blobs = blobs
        self._recent = Recent[BatchRef, tuple[Counts, Usage]](clock, SECONDS)

    def of(self, batch: Batch) -> Batch:
        """Give the batch with its counts and usage up to `SECONDS` old."""
        if lifecycle.is_terminal(batch) or batch.shards is None:
            return batch
        counts, usage = self._recent.get(batch.ref, lambda: self._sum(batch.ref))
        return msgspec.structs.replace(
            batch, counts=msgspec.structs.replace(counts, total=batch.counts.total), usage=usage
        )

    def errors(self, batch: Batch) -> Batch:
        """Give the batch with its first `ERRORS` line errors; once their object has been swept, with those in the record."""
        if batch.errors_total <= len(batch.errors):
            return batch
        found = islice(rows.split(self._blobs.stream(paths.errors(batch.ref))), ERRORS)
        try:
            return msgspec.structs.replace(batch, errors=tuple(_ERROR.decode(row) for row in found))
        except NotFound:
            return batch

    def _sum(self, ref: BatchRef) -> tuple[Counts, Usage]:
        shards = self._shards.of(ref)
        counts = Counts(
            completed=sum(shard.completed for shard in shards), failed=sum(shard.failed for shard in shards)
        )
        return counts, sum((shard.usage for shard in shards), Usage())
