"""What AWS does beside the stores: executions of the state machine, and jobs. Both are tasks of the loop."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

import msgspec

from shared.core import ids
from shared.core.ids import BatchRef
from tests.system.machine import Invoke, Machine, StateError

BOOT = 10.0
"""Seconds from the submission of a job to its start."""


async def let_go(tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Cancel tasks and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Executions:
    """`shared.ports.Workflow`.

    Args:
        invoke: Invokes a task state.
        on_failed: Told the input of an execution that failed, as EventBridge tells it.

    Attributes:
        tasks: The executions by name, in the order in which they were started.
        failed: Those that failed, with the error.
        most: The most that ever ran of one batch at a time.

    """

    def __init__(self, invoke: Invoke, on_failed: Callable[[str], None]) -> None:
        self.machine = Machine(invoke)
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.failed: dict[str, str] = {}
        self.most = 0
        self._on_failed = on_failed

    @property
    def live(self) -> list[str]:
        """The names of the executions that run."""
        return [name for name, task in self.tasks.items() if not task.done()]

    @property
    def visited(self) -> set[str]:
        """The states that any execution has entered."""
        return {state for _, state in self.machine.visited}

    def start(self, ref: BatchRef, generation: int) -> bool:
        """As `Workflow.start`."""
        name = ids.execution(ref.id, generation)
        if name not in self.tasks:
            self.tasks[name] = asyncio.get_running_loop().create_task(self._run(name, str(ref)))
            self.most = max(self.most, sum(live.startswith(f"{ref.id}-") for live in self.live))
        return name in self.live

    def resume(self, token: str) -> None:
        """As `Workflow.resume`."""
        self.machine.send(token)

    async def _run(self, name: str, batch: str) -> None:
        try:
            await self.machine.execute(name, {"batch": batch})
        except StateError as error:
            self.failed[name] = error.name
            self._on_failed(msgspec.json.encode({"batch": batch}).decode())


class Ended(NamedTuple):
    """The end of a job."""

    revision: str
    worker: str
    failed: bool


Work = Callable[[str, str, str], Awaitable[None]]
"""Is a worker: given its job, its revision and its name."""


class Jobs:
    """`shared.ports.Fleet`.

    Args:
        work: What a job does.
        on_ended: Told of each end, as EventBridge tells it.

    Attributes:
        tasks: The jobs, in the order in which they were submitted.
        errors: Why jobs ended badly by themselves.

    """

    def __init__(self, work: Work, on_ended: Callable[[Ended], None]) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.errors: list[Exception] = []
        self._work = work
        self._on_ended = on_ended
        self._numbers = count(1)

    @property
    def live(self) -> list[str]:
        """The jobs that have not ended."""
        return [job for job, task in self.tasks.items() if not task.done()]

    def submit(self, revision: str, worker: str) -> str:
        """As `Fleet.submit`."""
        job = f"job-{next(self._numbers)}"
        self.tasks[job] = asyncio.get_running_loop().create_task(self._run(job, revision, worker))
        return job

    def ended(self, jobs: Sequence[str]) -> set[str]:
        """As `Fleet.ended`."""
        return set(jobs) - set(self.live)

    def kill(self, job: str) -> None:
        """End a job at once, as a lost host does."""
        self.tasks[job].cancel()

    async def _run(self, job: str, revision: str, worker: str) -> None:
        failed = True
        try:
            await asyncio.sleep(BOOT)
            await self._work(job, revision, worker)
            failed = False
        except Exception as error:  # noqa: BLE001 - an entry point: whatever it is ends the process
            self.errors.append(error)
        finally:
            self._on_ended(Ended(revision, worker, failed))
