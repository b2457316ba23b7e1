"""The worker: one model revision, one engine, and shard after shard from the queue, whichever batch they belong to.

The engine is kept full across shard borders: as soon as the last line of a shard is sent, the next shard is leased and its first lines follow, while the
former one's answers still come in. What stops a worker is the end of the work (idle), SIGTERM, or an engine that cannot be kept alive: what is finished is
committed then, and the leases are given back. How long something takes is told by the loop's time; only leases and deadlines go by the clock, which may jump.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable

from gpu_job.chunks import Committer
from gpu_job.dispatch import Dispatcher
from gpu_job.engine import EngineFailed
from gpu_job.leasing import Leasing
from gpu_job.meter import Meter
from gpu_job.reading import Line
from gpu_job.row import Finished, Row, give_up, prepare
from gpu_job.shard_run import ShardRun
from shared.core import plan
from shared.core.errors import Conflict, Fenced, NotFound, Unavailable
from shared.core.models import Model
from shared.core.plan import ShardPlan
from shared.core.records import Shard
from shared.core.request_line import LineError
from shared.ports import Blobs, ChunkLog, Clock, ShardQueue
from shared.services.roster import Roster
from shared.services.wake import Wake
from shared.settings import WorkerSettings

NOT_NOW = (Conflict, Unavailable)
"""A store that is away, or a record that too many change at once: what was to be done can wait, or somebody else does it."""
AWAY_SECONDS = 5.0
"""How long a worker waits for a store that is away, before it takes another shard or goes."""
STOP_GRACE = 5.0
"""Seconds that lines in the engine are given to finish when their shard must be given back."""
SECOND_LOOK = 1.0
"""Seconds after which a closing worker looks at the queue once more: its index may lag that long."""

_log = logging.getLogger("slackwater.worker")


class Worker:
    """Leases shards of its revision and answers their lines until there is nothing left to do."""

    def __init__(
        self,
        settings: WorkerSettings,
        model: Model,
        *,
        dispatcher: Dispatcher,
        committer: Committer,
        leasing: Leasing,
        queue: ShardQueue,
        log: ChunkLog,
        blobs: Blobs,
        roster: Roster,
        wake: Wake,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._model = model
        self._dispatcher = dispatcher
        self._committer = committer
        self._leasing = leasing
        self._queue = queue
        self._chunk_log = log
        self._blobs = blobs
        self._roster = roster
        self._wake = wake
        self._clock = clock
        self._sleep = sleep
        self._slots = asyncio.Semaphore(model.max_in_flight)
        self._runs: list[ShardRun] = []
        self._time = asyncio.get_running_loop().time
        self._meter = Meter(self._time, settings.gpus)
        self._stopping = asyncio.Event()
        self._failure: EngineFailed | None = None

    async def run(self) -> None:
        """Work until idle or stopped, in the roster meanwhile. EngineFailed when the engine cannot be kept alive."""
        me = self._settings
        await self._tell(self._roster.enter, me.revision, me.worker, me.job)
        async with asyncio.TaskGroup() as group:
            keeper = group.create_task(self._keep_engine())
            if await self._before_stop(self._dispatcher.ready()):
                await self._tell(self._roster.serving, me.revision, me.worker)
                await self._serve(group)
            if self._failure is None:
                keeper.cancel()
        if self._failure is not None:
            raise self._failure
        # A worker that fails does not get here: the end of its job tells the roster, and that it failed.
        await self._tell(self._roster.leave, me.revision, me.worker)

    async def stop(self) -> None:
        """Take no more shards, commit what is finished, give the leases back; `run` returns then."""
        self._stopping.set()
        await asyncio.gather(*(run.stop(STOP_GRACE) for run in self._runs))

    async def _keep_engine(self) -> None:
        try:
            await self._dispatcher.keep_alive()
        except EngineFailed as failure:
            self._failure = failure
            self._stopping.set()
            await asyncio.gather(*(run.stop(0) for run in self._runs))  # nobody will answer any more

    async def _before_stop(self, wanted: Awaitable[None]) -> bool:
        """Wait for something, or for the order to stop; whether it came first."""
        tasks = [asyncio.ensure_future(wanted), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return not self._stopping.is_set()

    async def _tell(self, what: Callable[..., None], *names: str) -> None:
        """Tell the roster. No worker ends of its being away: who asked for this one, the next one, or the end of its job says the same."""
        try:
            await asyncio.to_thread(what, *names)
        except NOT_NOW as error:
            _log.warning("the roster does not answer: %s", error)

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        busy_at = self._time()
        while not self._stopping.is_set():
            try:
                shard = await asyncio.to_thread(self._leasing.take, busy=bool(self._runs))
            except NOT_NOW as error:
                await self._wait_for_stores(f"the queue does not answer: {error}")
                continue
            if shard is not None and self._stopping.is_set():  # the order came between the lease and the work
                await self._give_back(shard)
            elif shard is not None:
                await self._work(shard, group)
                busy_at = self._time()
            elif self._runs:
                busy_at = self._time()
                await self._before_stop(self._sleep(self._settings.poll_seconds))
            elif self._time() - busy_at > self._settings.idle_seconds and await self._may_leave():
                return
            else:
                await self._before_stop(self._sleep(self._settings.poll_seconds))

    async def _wait_for_stores(self, message: str) -> None:
        _log.warning("%s", message)
        await self._before_stop(self._sleep(AWAY_SECONDS))

    async def _give_back(self, shard: Shard) -> None:
        try:
            await asyncio.to_thread(self._queue.release, shard)
        except NOT_NOW as error:
            _log.warning("%s shard %d is left to lapse: %s", shard.ref, shard.index, error)

    async def _work(self, shard: Shard, group: asyncio.TaskGroup) -> None:
        """Send the lines of a shard; its rows are gathered and committed by tasks of their own, beyond this call."""
        run = ShardRun(
            shard,
            queue=self._queue,
            blobs=self._blobs,
            log=self._chunk_log,
            committer=self._committer,
            meter=self._meter,
            chunk_seconds=self._settings.chunk_seconds,
        )
        self._runs.append(run)
        self._meter.begin(shard.ref)
        keeper = group.create_task(self._keep(run))
        settling = group.create_task(self._settle(run))
        settling.add_done_callback(lambda _: keeper.cancel())
        settling.add_done_callback(lambda _: self._runs.remove(run))
        settling.add_done_callback(lambda _: self._meter.end(shard.ref))
        try:
            await run.load()
            await self._feed(run, group)
        except NotFound as error:
            _log.warning("%s shard %d is given up: %s", shard.ref, shard.index, error)
            run.lose()  # the batch was ended and swept under our hands
        except Unavailable as error:
            await run.stop(STOP_GRACE)
            await self._wait_for_stores(f"{shard.ref} shard {shard.index} is given back: {error}")

    async def _feed(self, run: ShardRun, group: asyncio.TaskGroup) -> None:
        if plan.hopeless(run.shard) and run.todo:
            self._give_up_first(run)
            await run.until_committed()  # before a line behind it can take the worker down as well
        for bite in run.bites():
            if run.stopping:
                return
            async for line in run.lines(bite):
                row = self._row(run.plan, line)
                if isinstance(row, Finished):
                    run.add(row)
                    continue
                await self._slots.acquire()
                if run.stopping:
                    self._slots.release()
                    return
                answering = group.create_task(self._answer(run, row))
                # Also of one that is cancelled before its first step.
                answering.add_done_callback(lambda _: self._slots.release())
                run.start(answering)
            if run.shard.bite is not None:
                await run.until_committed()
        run.end_of_lines()

    def _row(self, shard: ShardPlan, line: Line) -> Row | Finished:
        planned = shard.lines[line.position]
        request = line.request(planned.line)
        if isinstance(request, LineError):  # accepted by an earlier release of the service, refused by this one
            return give_up(shard.batch, planned, line.position, request.message)
        return prepare(shard, line.position, request, self._model)

    def _give_up_first(self, run: ShardRun) -> None:
        """Answer the line that took worker after worker down, so that those behind it get through."""
        position, run.todo = run.todo[0], run.todo[1:]
        line = run.plan.lines[position]
        run.unbite()
        run.add(
            give_up(run.plan.batch, line, position, "The request took down every worker that ran it; it was given up.")
        )

    async def _answer(self, run: ShardRun, row: Row) -> None:
        try:
            finished = await self._dispatcher.answer(row)
        except Exception as error:  # noqa: BLE001 - a mistake of ours that one line has found costs that line, and not all others here
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.error(
                "line %d of %s: %s\n%s", row.line.line, run.shard.ref, type(error).__name__, frames
            )  # its text may quote the row
            finished = give_up(
                row.batch, row.line, row.position, "The request met an error of the service; it was given up."
            )
        run.add(finished)

    async def _settle(self, run: ShardRun) -> None:
        try:
            if await run.settle():
                await asyncio.to_thread(self._wake.shard_done, run.shard.ref)
        except NOT_NOW as error:
            _log.warning("%s shard %d: %s", run.shard.ref, run.shard.index, error)  # a lease lapses, a tick looks
            run.lose()  # nobody commits its rows any more: no line is to be sent, nor waited for

    async def _keep(self, run: ShardRun) -> None:
        """Renew the lease until the run is through; stop it when it is to be drained or the lease is lost."""
        while not run.lost:
            await self._sleep(self._settings.heartbeat_seconds)
            until = self._clock() + self._settings.lease_seconds
            try:
                shard = await asyncio.to_thread(self._queue.renew, run.shard, until)
            except Fenced:
                run.lose()
            except NOT_NOW as error:
                _log.warning("%s shard %d was not renewed: %s", run.shard.ref, run.shard.index, error)
            else:
                if shard.draining and not run.stopping:
                    await run.stop(STOP_GRACE)

    async def _may_leave(self) -> bool:
        """Close, then look once more: a shard that came just now was put by somebody who still counted us."""
        revision, worker = self._settings.revision, self._settings.worker
        try:
            await asyncio.to_thread(self._roster.close, revision, worker)
            await self._before_stop(self._sleep(SECOND_LOOK))
            if not await asyncio.to_thread(self._queue.ready, revision, 1):
                return True
            await asyncio.to_thread(self._roster.reopen, revision, worker)
        except NOT_NOW as error:
            # Should the mark stay, one worker too many is asked for; leaving unseen work behind would be worse.
            await self._wait_for_stores(f"not leaving, since it is not known whether there is work: {error}")
        return False
