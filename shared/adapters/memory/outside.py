"""What goes on outside of the stores, in memory: executions and workers that start and do nothing until a test ends them."""

from collections.abc import Sequence
from itertools import count
from threading import RLock
from typing import NamedTuple

from shared.core.ids import BatchRef, Space


class Execution(NamedTuple):
    """One execution of the lifecycle."""

    ref: BatchRef
    generation: int


class Worker(NamedTuple):
    """A worker that was asked for."""

    job: str
    revision: str
    worker: str


class MemoryWorkflow:
    """`shared.ports.Workflow`.

    Attributes:
        started: The executions, in the order in which they were started, each once.
        resumed: The tokens that were sent, in order.

    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._running: set[Execution] = set()
        self.started: list[Execution] = []
        self.resumed: list[str] = []

    def start(self, ref: BatchRef, generation: int) -> bool:
        """Start the execution; nothing happens when it was started before. False when it has ended already."""
        execution = Execution(ref, generation)
        with self._lock:
            if execution not in self.started:
                self.started.append(execution)
                self._running.add(execution)
            return execution in self._running

    def resume(self, token: str) -> None:
        """Note the token."""
        with self._lock:
            self.resumed.append(token)

    def running(self, ref: BatchRef, generation: int) -> bool:
        """Whether an execution runs. For tests."""
        with self._lock:
            return Execution(ref, generation) in self._running

    def end(self, ref: BatchRef, generation: int) -> None:
        """End an execution, well or badly: nobody can tell the difference through the port. For tests."""
        with self._lock:
            self._running.remove(Execution(ref, generation))


class MemoryScans:
    """`shared.ports.ScanStarter`.

    Attributes:
        started: The files that it was asked for, in order.

    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self.started: list[tuple[Space, str]] = []

    def start(self, space: Space, file_id: str) -> None:
        """Note the file."""
        with self._lock:
            self.started.append((space, file_id))


class MemoryFleet:
    """`shared.ports.Fleet`.

    Attributes:
        submitted: The workers that were asked for, in order.

    """

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._numbers = count(1)
        self._live: set[str] = set()
        self.submitted: list[Worker] = []

    def submit(self, revision: str, worker: str) -> str:
        """Note the worker and give a job's id."""
        with self._lock:
            job = f"job-{next(self._numbers)}"
            self._live.add(job)
            self.submitted.append(Worker(job, revision, worker))
            return job

    def ended(self, jobs: Sequence[str]) -> set[str]:
        """Give those of the jobs that were ended, or never submitted."""
        with self._lock:
            return set(jobs) - self._live

    def end(self, job: str) -> None:
        """End a worker. For tests."""
        with self._lock:
            self._live.remove(job)
