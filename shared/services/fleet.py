"""The fleet: as many workers of a revision as its queue wants, and the leases of lost workers taken back.

Asking for workers goes record first: the worker is entered, conditionally, and only then is the job submitted. Two callers at once therefore ask for
one worker, not two; a submission whose answer was lost leaves an entry without a job, which lapses, and the worker that came of it enters itself.
"""

from collections.abc import Sequence

from shared.core.errors import Conflict, Unavailable
from shared.core.records import Shard, ShardState, Workers
from shared.ports import Clock, Fleet, NewId, ShardQueue, Shards
from shared.services.roster import Roster

WORKER = "worker_"
LEASES = 1000
"""How many leased shards it looks at, to see who is at work."""
SUBMIT_GRACE = 120
"""Seconds after which an entry whose job never became known is dropped."""


class FleetService:
    """Workers wanted, workers there, and what to do about the difference."""

    def __init__(
        self,
        *,
        queue: ShardQueue,
        shards: Shards,
        roster: Roster,
        fleet: Fleet,
        max_workers: int,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._queue = queue
        self._shards = shards
        self._roster = roster
        self._fleet = fleet
        self._max_workers = max_workers
        self._clock = clock
        self._new_id = new_id

    def ensure(self, revision: str, known: Sequence[Shard] = ()) -> None:
        """Ask for the workers that are missing. The `known` shards are open for sure, even if the queue's index lags.

        Conflict or Unavailable after all were asked for, when one of them may not be on its way: its entry lapses.
        """
        queued = self._queue.ready(revision, self._max_workers) + self._queue.leased(revision, LEASES)
        wanted = min(self._max_workers, max(_needed(known), _needed(queued)))
        if not wanted:
            return
        gone = self._ended(self._roster.get(revision))
        candidates = [self._new_id(WORKER) for _ in range(wanted)]
        failure = None
        for worker in self._roster.top_up(revision, wanted, gone, candidates):
            try:
                self._roster.enter(revision, worker, self._fleet.submit(revision, worker))
            except (Conflict, Unavailable) as error:  # the others are entered, and nobody else would ask for them
                failure = error
        if failure is not None:
            raise failure

    def gone(self, revision: str, worker: str, *, failed: bool) -> None:
        """Act on a worker's end: forget it, take its leases back and ask for another where work is left. Idempotent."""
        self._roster.leave(revision, worker, failed=failed)
        now = self._clock()
        for shard in self._queue.leased(revision):
            if shard.owner == worker:
                self._shards.reclaim(shard, now)
        self.ensure(revision)

    def _ended(self, table: Workers) -> set[str]:
        jobs = {entry.job: worker for worker, entry in table.workers.items() if entry.job is not None}
        ended = {jobs[job] for job in self._fleet.ended(list(jobs))} if jobs else set()
        lapsed = self._clock() - SUBMIT_GRACE
        return ended | {name for name, entry in table.workers.items() if entry.job is None and entry.asked_at < lapsed}


def _needed(shards: Sequence[Shard]) -> int:
    """Give how many workers have something to do: one for each shard that is ready, and those that are at work.

    A worker may lease many shards; who came for a leased one would only wait, leave, and be replaced.
    """
    ready = sum(shard.state is ShardState.READY for shard in shards)
    return ready + len({shard.owner for shard in shards if shard.state is ShardState.LEASED})
