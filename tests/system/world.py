"""The whole service in one process: real services, task states and workers over stores in memory, driven by the deployed state machine.

Only AWS and the GPU are played: executions by a small interpreter of the deployed file, jobs by tasks of the loop, engines by a script.
Every call of a port and every invocation of a task state goes through the world's `weather`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple, Self

import msgspec

from functions.tasks import job_ended, sweep
from functions.tasks.messages import Message
from gpu_job.chunks import Committer
from gpu_job.leasing import Leasing
from gpu_job.worker import Worker
from shared.adapters.memory import Memory
from shared.core.errors import SlackwaterError
from shared.core.ids import BatchRef, Space
from shared.core.lifecycle import is_terminal
from shared.core.models import Model, Registry
from shared.core.records import Batch
from shared.services.roster import Roster
from shared.services.wake import Wake
from shared.settings import WorkerSettings
from tests.dispatching import dispatcher
from tests.system.api import URL, Api, WatchedBlobs
from tests.system.aws import Ended, Executions, Jobs, let_go
from tests.system.engine import Act, ScriptedEngine
from tests.system.tasks import TASKS, services
from tests.system.tide import WHO, Tide
from tests.system.weather import Weather

START = 1_800_000_000.0
REVISION = "echo@1"
IDLE = 40.0
"""Seconds after which a worker without work leaves: more than it needs to see that nobody renews a lease."""
PATIENCE = 7200.0
EVENT_RETRIES = (60.0, 120.0)  # as Lambda does when it is invoked by an event


class Hand(NamedTuple):
    """A worker that has started."""

    job: str
    name: str
    worker: Worker
    engine: ScriptedEngine


class World:
    """Everything. Made in a running `Tide`, used `async with`.

    Args:
        shard_lines: The most lines of a shard.
        max_workers: The most workers of one revision.
        in_flight: How many requests a worker keeps in its engine.
        row_seconds: The longest that one request may take.

    Attributes:
        script: What engines do with prompts, see `tests.system.engine`.
        prompts: The prompts of each batch, by custom_id.
        clocks: How many seconds the clocks of workers are ahead of the time, by their names.
        hands: The workers that have started, in order.
        ended: The batches that were announced as ended, each time.

    """

    def __init__(
        self, *, shard_lines: int = 5, max_workers: int = 2, in_flight: int = 8, row_seconds: float = 600.0
    ) -> None:
        tide = asyncio.get_running_loop()
        assert isinstance(tide, Tide)
        self.tide = tide
        self.weather = Weather()
        self.script: dict[str, Act] = {}
        self.prompts: dict[BatchRef, dict[str, str]] = {}
        self.clocks: defaultdict[str, float] = defaultdict(float)
        self.hands: list[Hand] = []
        self.ended: list[Batch] = []
        self._row_seconds = row_seconds
        self._numbers = count(1)
        self._events: set[asyncio.Task[None]] = set()

        self.memory = Memory()
        self.bucket = self.memory.blobs = WatchedBlobs(self.memory.blobs._lock)
        self.executions = Executions(self.invoke, self._execution_failed)
        self.jobs = Jobs(self._work, self._job_ended)

        over = self.weather.over
        self.batches, self.shards = over("batches", self.memory.batches), over("shards", self.memory.shards)
        self.chunks, self.blobs = over("chunks", self.memory.chunks), over("blobs", self.bucket)
        self.workflow = over("workflow", self.executions)
        self.model = Model(
            id="echo", revision=REVISION, source="", engine="echo", endpoints=(URL,), context=1024, max_output=64,
            max_in_flight=in_flight,
        )  # fmt: skip
        self.registry = Registry((self.model,))
        self.api = Api(self)
        self.roster = Roster(workers=over("workers", self.memory.workers), clock=self.clock)
        self.wake = Wake(batches=self.batches, shards=self.shards, workflow=self.workflow)
        self.services = services(self, shard_lines=shard_lines, max_workers=max_workers)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await let_go(list(self.executions.tasks.values()))
        await let_go(list(self.jobs.tasks.values()))
        await let_go(list(self._events))

    def clock(self) -> float:
        """Give the time."""
        return START + self.tide.now

    def pass_time(self, seconds: float) -> None:
        """Let time pass for a call that sleeps."""
        self.tide.now += seconds

    def new_id(self, prefix: str) -> str:
        """Give the next id."""
        return f"{prefix}{next(self._numbers):026d}"

    def create(
        self,
        prompts: Sequence[str],
        org: str = "acme",
        model: str = "echo",
        window: str = "24h",
        contract: str = "openai",
    ) -> BatchRef:
        """Create a batch of these prompts; prompt n has the custom_id `c<n>`."""
        ref = self.api.create(prompts, Space(org, contract), model, window).ref
        self.prompts[ref] = {f"c{number}": prompt for number, prompt in enumerate(prompts)}
        return ref

    def cancel(self, ref: BatchRef) -> None:
        """Cancel a batch."""
        self.api.batches.cancel(ref)

    def batch(self, ref: BatchRef) -> Batch:
        """Give the record of a batch, whatever the weather."""
        return self.memory.batches.get(ref)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so, looking at every tenth of a second; AssertionError when it does not come."""
        end = self.tide.now + PATIENCE
        while not condition():
            assert self.tide.now < end, "it does not come"
            await asyncio.sleep(0.1)

    async def until_ended(self, *refs: BatchRef) -> None:
        """Wait until the batches have ended and no execution runs any more."""
        await self.until(lambda: all(is_terminal(self.batch(ref)) for ref in refs) and not self.executions.live)

    async def invoke(self, state: str, payload: Any) -> Any:
        """Invoke a task state, as Lambda does."""
        message = msgspec.convert(payload, Message)

        def call() -> Any:
            return msgspec.to_builtins(TASKS[state](self.services, message))

        return await asyncio.to_thread(self.weather.meet, f"task.{state}", call)

    def sweep(self) -> None:
        """Let the scheduled sweep come by."""
        self._happen(lambda: sweep.sweep(self.services, sweep.Event()))

    def _execution_failed(self, text: str) -> None:
        self._happen(lambda: sweep.sweep(self.services, sweep.Event(sweep.Detail(text))))

    def _job_ended(self, ended: Ended) -> None:
        names = {"SLACKWATER_REVISION": ended.revision, "SLACKWATER_WORKER": ended.worker}
        variables = tuple(job_ended.Variable(name, value) for name, value in names.items())
        detail = job_ended.Detail("FAILED" if ended.failed else "SUCCEEDED", job_ended.Container(variables))
        self._happen(lambda: job_ended.job_ended(self.services, job_ended.Event(detail)))

    def _happen(self, call: Callable[[], object]) -> None:
        """Let an event arrive; it is delivered again when its function fails."""

        async def deliver() -> None:
            for pause in (*EVENT_RETRIES, None):
                await asyncio.sleep(1)
                try:
                    await asyncio.to_thread(call)
                except SlackwaterError:
                    if pause is not None:
                        await asyncio.sleep(pause)
                else:
                    return

        task = self.tide.create_task(deliver())
        self._events.add(task)
        task.add_done_callback(self._events.discard)

    async def _work(self, job: str, revision: str, name: str) -> None:
        """Be a worker, as `gpu_job.__main__` is."""
        WHO.set(name)
        engine = ScriptedEngine(self.script)
        worker = self.worker(revision, name, job, engine)
        self.hands.append(Hand(job, name, worker, engine))
        try:
            await worker.run()
        finally:
            await engine.stop()

    def worker(self, revision: str, name: str, job: str, engine: ScriptedEngine) -> Worker:
        """Make a worker of this name, the job's, around an engine."""

        def clock() -> float:
            return self.clock() + self.clocks[name]

        settings = WorkerSettings(
            bucket="", table_prefix="", models_file="", region="", revision=revision, worker=name, job=job,
            state_machine_arn="", state_dir="", row_seconds=self._row_seconds, idle_seconds=IDLE,
        )  # fmt: skip
        return Worker(
            settings,
            self.model,
            dispatcher=dispatcher(
                engine,
                engine,
                max_in_flight=self.model.max_in_flight,
                row_seconds=settings.row_seconds,
                stall_seconds=settings.stall_seconds,
            ),
            committer=Committer(blobs=self.blobs, log=self.chunks, new_id=self.new_id, sleep=self.pass_time),
            leasing=Leasing(
                settings,
                queue=self.shards,
                shards=self.shards,
                batches=self.batches,
                clock=clock,
                timer=self.tide.time,
            ),
            queue=self.shards,
            log=self.chunks,
            blobs=self.blobs,
            roster=self.roster,
            wake=self.wake,
            clock=clock,
        )
