"""The workers of each revision in memory."""

from collections.abc import Callable
from threading import RLock

import msgspec

from shared.adapters.memory.rows import Rows
from shared.core.records import Workers


class MemoryWorkers:
    """`shared.ports.WorkerTable`."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._workers: Rows[str, Workers] = Rows(Workers)

    def get(self, revision: str) -> Workers:
        """Give the record, an empty one when there is none."""
        with self._lock:
            return self._workers.find(revision) or Workers(revision=revision)

    def update(self, revision: str, change: Callable[[Workers], Workers]) -> Workers:
        """Apply a pure change."""
        with self._lock:
            old = self.get(revision)
            new = change(old)
            if new == old:
                return new
            self._workers[revision] = msgspec.structs.replace(new, version=old.version + 1)
            return self.get(revision)
