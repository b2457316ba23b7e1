"""The meter: how long this worker's GPUs have served each batch.

Each moment is shared out evenly among the batches that the worker has shards of then: what they are charged together is the union of the times in which it
served any, and no moment is charged twice. What a batch has come to since its last commit is taken by its next one and rides in that transaction,
so that it counts exactly once, like the rows. Time that no commit follows is charged to nobody: it brought nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable

from shared.core.ids import BatchRef


class Meter:
    """Belongs to the worker's event loop.

    Args:
        clock: Gives seconds.
        gpus: How many GPUs the worker has.

    """

    def __init__(self, clock: Callable[[], float], gpus: int) -> None:
        self._clock = clock
        self._gpus = gpus
        self._at = clock()
        self._serving: Counter[BatchRef] = Counter()
        self._spent: defaultdict[BatchRef, float] = defaultdict(float)

    def begin(self, ref: BatchRef) -> None:
        """Start to serve a shard of a batch."""
        self._pass()
        self._serving[ref] += 1

    def end(self, ref: BatchRef) -> None:
        """Have served one of its shards; what is not taken when it was the last one is forgotten."""
        self._pass()
        self._serving[ref] -= 1
        if not self._serving[ref]:
            del self._serving[ref]
            self._spent.pop(ref, None)

    def take(self, ref: BatchRef) -> int:
        """Give the milliseconds of GPU that the batch has come to since the last call, for a commit; they are given once."""
        self._pass()
        whole = int(self._spent[ref])
        self._spent[ref] -= whole
        return whole

    def _pass(self) -> None:
        before, self._at = self._at, self._clock()
        for ref in self._serving:
            self._spent[ref] += max(0.0, self._at - before) * 1000 * self._gpus / len(self._serving)
