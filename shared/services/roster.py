"""The roster: which workers a revision has. Every change is one conditional write, so that nobody counts a worker twice or asks for one too many."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from shared.core.records import WorkerEntry, Workers
from shared.ports import Clock, WorkerTable

FREE_FAILURES = 2
REST = 15
LONGEST_REST = 600
"""Seconds before another worker is asked for, once that many have failed in a row: from `REST`, doubling."""


class Roster:
    """The workers of each revision."""

    def __init__(self, *, workers: WorkerTable, clock: Clock) -> None:
        self._workers = workers
        self._clock = clock

    def get(self, revision: str) -> Workers:
        """Give the workers of a revision."""
        return self._workers.get(revision)

    def enter(self, revision: str, worker: str, job: str) -> None:
        """Note which job a worker is: who asked for it does, and so does the worker when it starts, be it once more on another host. Idempotent."""
        self._change(
            revision, worker, lambda entry: msgspec.structs.replace(entry, job=job, closing=False, served=False)
        )

    def close(self, revision: str, worker: str) -> None:
        """Mark a worker as taking no more shards, so that whoever counts asks for another. It then looks at its queue once more."""
        self._change(revision, worker, lambda entry: msgspec.structs.replace(entry, closing=True))

    def reopen(self, revision: str, worker: str) -> None:
        """Take the mark back: there was a shard after all."""
        self._change(revision, worker, lambda entry: msgspec.structs.replace(entry, closing=False))

    def serving(self, revision: str, worker: str) -> None:
        """Note that a worker has its engine running: the failures before are over, and its own end will be none."""
        self._change(revision, worker, lambda entry: msgspec.structs.replace(entry, served=True), failures=0)

    def leave(self, revision: str, worker: str, *, failed: bool = False) -> None:
        """Forget a worker. Idempotent; its failure is counted once, unless it has served: then its host was lost, not its engine broken."""
        now = int(self._clock())

        def change(table: Workers) -> Workers:
            if failed and worker in table.workers and not table.workers[worker].served:
                table = msgspec.structs.replace(table, failures=table.failures + 1, failed_at=now)
            return _without(table, {worker})

        self._workers.update(revision, change)

    def top_up(self, revision: str, wanted: int, gone: AbstractSet[str], candidates: Sequence[str]) -> list[str]:
        """Forget those that are gone and enter as many of the candidates as are missing; give those, to be asked for.

        A revision whose workers fail one after the other, before they serve, is given growing rests.
        """
        now = int(self._clock())

        def change(table: Workers) -> Workers:
            table = _without(table, gone)
            if now < table.failed_at + _rest(table.failures):
                return table
            here = sum(not entry.closing for entry in table.workers.values())
            fresh = {worker: WorkerEntry(asked_at=now) for worker in candidates[: max(0, wanted - here)]}
            return msgspec.structs.replace(table, workers={**table.workers, **fresh}) if fresh else table

        table = self._workers.update(revision, change)
        return [worker for worker in candidates if worker in table.workers]

    def _change(self, revision: str, worker: str, change: Callable[[WorkerEntry], WorkerEntry], **fields: int) -> None:
        now = int(self._clock())

        def entered(table: Workers) -> Workers:
            entry = change(table.workers.get(worker, WorkerEntry(asked_at=now)))
            return msgspec.structs.replace(table, workers={**table.workers, worker: entry}, **fields)

        self._workers.update(revision, entered)


def _rest(failures: int) -> int:
    return min(LONGEST_REST, REST * 2 ** (failures - FREE_FAILURES)) if failures >= FREE_FAILURES else 0


def _without(table: Workers, names: AbstractSet[str]) -> Workers:
    if not names & table.workers.keys():
        return table
    left = {worker: entry for worker, entry in table.workers.items() if worker not in names}
    return msgspec.structs.replace(table, workers=left)
