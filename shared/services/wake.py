"""The last commit wakes the batch: whoever makes the last shard done tells the waiting Run.

Run stores its token and then looks at the shards; a worker commits and then looks for a token. Whichever order these four steps take, at least one of
the two sees the other; should the wake-up itself be lost, the next tick finds the run over.
"""

from shared.core.ids import BatchRef
from shared.core.records import Shard
from shared.ports import BatchStore, Shards, Workflow


def unanswered(shards: Shards, ref: BatchRef) -> list[Shard]:
    """Give the shards of a batch that still have lines without a row, as last written."""
    return [shard for shard in shards.of(ref) if shard.answered < shard.lines]


class Wake:
    """Wakes the Run of a batch that has become answered in full."""

    def __init__(self, *, batches: BatchStore, shards: Shards, workflow: Workflow) -> None:
        self._batches = batches
        self._shards = shards
        self._workflow = workflow

    def shard_done(self, ref: BatchRef) -> None:
        """Look after a shard was done; wake the batch when it was the last. Idempotent."""
        if unanswered(self._shards, ref):
            return
        token = self._batches.get(ref).token
        if token is not None:
            self._workflow.resume(token)
