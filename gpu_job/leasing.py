"""Taking shards: whose turn it is, of what the queue shows now, and what is not to be begun any more.

A batch is looked at before a shard of it is leased: the queue does not know that it was cancelled, or that its time is over, before its execution has
come to drain it. Should it be ended in that very moment, the shard is drained in the worker's hands.

A lease that has run out by this worker's clock is taken back only once it was watched for a while and nobody has renewed it: hosts have clocks of their
own, and a holder whose clock is behind renews a lease that others take for dead.
"""

from collections.abc import Sequence
from itertools import count

from shared.core import turn
from shared.core.errors import Conflict, NotFound, Unavailable
from shared.core.ids import BatchRef
from shared.core.records import Shard
from shared.core.window import is_overdue
from shared.ports import BatchStore, Clock, ShardQueue, Shards
from shared.services.leases import take_back
from shared.settings import WorkerSettings

HEADS = 50
"""How many ready shards of an organization a worker looks at: more than its fellows take in the same moment."""
LEASES = 1000
"""How many leased shards it looks at, to see who has how much at work and which leases ran out."""
BEATS = 2
"""How many heartbeats a lease that has run out is watched, before it is taken back."""
LEAST_SECONDS = 5.0
"""The least time before its deadline in which a shard is begun: less is over before its first rows are committed."""


class Leasing:
    """The leases of one worker. Blocking: the worker calls it in threads, one call at a time.

    Args:
        settings: The worker's.
        queue: The shards of its revision.
        shards: The same shards, to take leases back.
        batches: Their batches.
        clock: The time, by which leases and deadlines are written; it may jump.
        timer: Seconds that only pass, from wherever.

    """

    def __init__(
        self,
        settings: WorkerSettings,
        *,
        queue: ShardQueue,
        shards: Shards,
        batches: BatchStore,
        clock: Clock,
        timer: Clock,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._shards = shards
        self._batches = batches
        self._clock = clock
        self._timer = timer
        self._watched: dict[tuple[BatchRef, int, int, float], float] = {}
        self._numbers = count(1)
        self._served: dict[str, int] = {}

    def take(self, *, busy: bool) -> Shard | None:
        """Lease the shard whose turn it is; leases of others that have run out are taken back first. Conflict, Unavailable.

        One that has stalled is worked at alone: nothing else is to go down with it, nor to count what takes it down against it. A `busy`
        worker whose turn it is for such a one takes nothing, until all that it has is at its end.
        """
        now = self._clock()
        leased = self._queue.leased(self._settings.revision, LEASES)
        take_back(self._shards, self._silent(leased), now)
        ended: dict[BatchRef, bool] = {}
        for shard in turn.order(self._queue.ready(self._settings.revision, HEADS), leased, self._served, now):
            if shard.ref not in ended:
                ended[shard.ref] = self._is_ended(shard.ref, now)
            if ended[shard.ref]:
                continue
            if shard.bite is not None and busy:
                return None
            if (mine := self._lease(shard)) is not None:
                self._served[shard.org] = next(self._numbers)
                return mine
        return None

    def _silent(self, leased: Sequence[Shard]) -> list[Shard]:
        """Give the leases that nobody has renewed while this worker watched."""
        at = self._timer()
        leases = {(shard.ref, shard.index, shard.epoch, shard.lease_until): shard for shard in leased}
        self._watched = {lease: self._watched.get(lease, at) for lease in leases}
        before = at - BEATS * self._settings.heartbeat_seconds
        return [shard for lease, shard in leases.items() if self._watched[lease] <= before]

    def _is_ended(self, ref: BatchRef, now: float) -> bool:
        try:
            batch = self._batches.get(ref)
        except NotFound:
            return True
        return batch.ending is not None or is_overdue(batch, now + LEAST_SECONDS)

    def _lease(self, shard: Shard) -> Shard | None:
        until = self._clock() + self._settings.lease_seconds
        try:
            try:
                return self._queue.lease(shard, self._settings.worker, until)
            except Unavailable:  # if it is ours already, it is given again
                return self._queue.lease(shard, self._settings.worker, until)
        except Conflict:
            return None  # another worker was faster
