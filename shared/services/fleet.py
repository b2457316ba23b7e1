"""The fleet: as many workers of a revision as its queue wants, and leases of lost workers taken back.

Asking for workers goes record first: the worker is entered, conditionally, and only then is the job submitted. Two callers at once therefore ask for
one worker, not two; a submission whose answer was lost leaves an entry without a job, which lapses, and the worker that came of it enters itself.
"""

from collections.abc import Sequence

import msgspec

from shared.core.records import Shard, ShardState, WorkerEntry, Workers
from shared.ports import Clock, Fleet, NewId, ShardQueue, Shards, WorkerTable

WORKER = "worker_"
SUBMIT_GRACE = 120
"""Seconds after which an entry whose job never became known is dropped."""


class FleetService:
    """Workers wanted, workers there, and what to do about the difference."""

    def __init__(
        self,
        *,
        queue: ShardQueue,
        shards: Shards,
        workers: WorkerTable,
        fleet: Fleet,
        max_workers: int,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._queue = queue
        self._shards = shards
        self._workers = workers
        self._fleet = fleet
        self._max_workers = max_workers
        self._clock = clock
        self._new_id = new_id

    def ensure(self, revision: str, known: int = 0) -> None:
        """Ask for the workers that are missing. `known` open shards are there for sure, even if the queue's index lags."""
        wanted = min(self._max_workers, max(known, len(self._queue.open(revision))))
        if not wanted:
            return
        now = int(self._clock())
        ended = self._ended(self._workers.get(revision))
        candidates = [self._new_id(WORKER) for _ in range(wanted)]
        table = self._workers.update(revision, lambda table: _topped_up(table, ended, candidates, wanted, now))
        for worker in candidates:
            if worker in table.workers:
                job = self._fleet.submit(revision, worker)
                self.enter(revision, worker, job)

    def enter(self, revision: str, worker: str, job: str) -> None:
        """Note which job a worker is. A worker that starts says so itself too. Idempotent."""
        asked_at = int(self._clock())

        def change(table: Workers) -> Workers:
            entry = table.workers.get(worker, WorkerEntry(asked_at=asked_at))
            return _with(table, worker, msgspec.structs.replace(entry, job=job))

        self._workers.update(revision, change)

    def close(self, revision: str, worker: str) -> None:
        """Mark a worker as taking no more shards, so that whoever looks for workers asks for another. It then looks at its queue once more."""
        self._mark(revision, worker, closing=True)

    def reopen(self, revision: str, worker: str) -> None:
        """Take the mark back: there was a shard after all."""
        self._mark(revision, worker, closing=False)

    def gone(self, revision: str, worker: str) -> None:
        """Act on a worker's end: forget it, take its leases back and ask for another where work is left. Idempotent."""
        self._workers.update(revision, lambda table: _without(table, {worker}))
        now = self._clock()
        for shard in self._queue.open(revision):
            if shard.owner == worker:
                self._shards.reclaim(shard, now)
        self.ensure(revision)

    def reclaim(self, shards: Sequence[Shard]) -> None:
        """Take back the leases that have run out."""
        now = self._clock()
        for shard in shards:
            if shard.state is ShardState.LEASED and shard.lease_until < now:
                self._shards.reclaim(shard, now)

    def _mark(self, revision: str, worker: str, *, closing: bool) -> None:
        asked_at = int(self._clock())

        def change(table: Workers) -> Workers:
            entry = table.workers.get(worker, WorkerEntry(asked_at=asked_at))
            return _with(table, worker, msgspec.structs.replace(entry, closing=closing))

        self._workers.update(revision, change)

    def _ended(self, table: Workers) -> set[str]:
        jobs = {entry.job: worker for worker, entry in table.workers.items() if entry.job is not None}
        ended = {jobs[job] for job in self._fleet.ended(list(jobs))} if jobs else set()
        lapsed = self._clock() - SUBMIT_GRACE
        return ended | {name for name, entry in table.workers.items() if entry.job is None and entry.asked_at < lapsed}


def _topped_up(table: Workers, ended: set[str], candidates: Sequence[str], wanted: int, now: int) -> Workers:
    table = _without(table, ended)
    here = sum(not entry.closing for entry in table.workers.values())
    missing = candidates[: max(0, wanted - here)]
    fresh = {worker: WorkerEntry(asked_at=now) for worker in missing}
    if not fresh:
        return table
    return msgspec.structs.replace(table, workers={**table.workers, **fresh})


def _with(table: Workers, worker: str, entry: WorkerEntry) -> Workers:
    return msgspec.structs.replace(table, workers={**table.workers, worker: entry})


def _without(table: Workers, names: set[str]) -> Workers:
    if not names & table.workers.keys():
        return table
    left = {worker: entry for worker, entry in table.workers.items() if worker not in names}
    return msgspec.structs.replace(table, workers=left)
