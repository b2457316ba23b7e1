"""One leased shard in a worker: its lines are read, its finished rows gathered and committed, its lease kept.

The lease is the law. Once it is lost, nothing more is committed and the lines in the engine are forgotten; once the shard is draining, no more lines
are sent, what is finished is committed, and the lease is given back.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec

from gpu_job import reading
from gpu_job.chunks import Committer
from gpu_job.meter import Meter
from gpu_job.reading import Line
from gpu_job.row import Finished
from shared.core import merge, paths, plan
from shared.core.errors import Fenced, Unavailable
from shared.core.plan import ShardPlan
from shared.core.records import Shard, ShardState
from shared.ports import Blobs, ChunkLog, ShardQueue

CHUNK_BYTES = 8 << 20
CHUNK_ROWS = 1000
ENDING_SECONDS = 2.0


class ShardRun:
    """A shard while this worker leases it. All methods belong to the worker's event loop."""

    def __init__(
        self,
        shard: Shard,
        *,
        queue: ShardQueue,
        blobs: Blobs,
        log: ChunkLog,
        committer: Committer,
        meter: Meter,
        chunk_seconds: float,
    ) -> None:
        self.shard = shard
        self._queue = queue
        self._blobs = blobs
        self._log = log
        self._committer = committer
        self._meter = meter
        self._chunk_seconds = chunk_seconds
        self._time = asyncio.get_running_loop().time
        self._changed = asyncio.Event()  # set and replaced at every change: who waits holds the one it has seen
        self._rows: list[Finished] = []
        self._bytes = 0
        self._oldest = 0.0
        self._seq = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._committing = False
        self._awaited = False  # whether somebody waits for the commit
        self.plan: ShardPlan
        self.todo: tuple[int, ...] = ()
        self._fed = False
        self.stopping = False
        self.lost = False

    async def load(self) -> None:
        """Read the plan and what is answered already."""
        self.plan = await asyncio.to_thread(self._read_plan)
        self.todo = await asyncio.to_thread(self._missing)

    async def lines(self, positions: Sequence[int]) -> AsyncIterator[Line]:
        """Give the lines at these positions, in order, in few reads of the input."""
        wanted = [(position, self.plan.lines[position]) for position in positions]
        async for line in reading.lines(self._blobs, self.plan.input_key, wanted):
            if self.stopping:
                return
            yield line

    def start(self, task: asyncio.Task[None]) -> None:
        """Keep a task that answers one line, until it is through."""
        self._tasks.add(task)
        task.add_done_callback(self._through)

    def add(self, row: Finished) -> None:
        """Take a finished row."""
        if not self._rows:
            self._oldest = self._time()
        self._rows.append(row)
        self._bytes += len(row.data)
        self._notify()

    def bites(self) -> list[tuple[int, ...]]:
        """Give the positions still to be answered, in the bites that the shard's past allows: normally one."""
        size = self.shard.bite or len(self.todo)
        return [self.todo[start : start + size] for start in range(0, len(self.todo), size)] if self.todo else []

    def unbite(self) -> None:
        """Say that the line that held the shard up has its row; the commit of that row says so to the store."""
        self.shard = msgspec.structs.replace(self.shard, bite=None)

    def end_of_lines(self) -> None:
        """Say that every line was sent."""
        self._fed = True
        self._notify()

    async def until_committed(self) -> None:
        """Return when every line that was sent has its row committed, or the run is stopping. Rows wait for no more of them meanwhile."""
        self._awaited = True
        self._notify()
        while (self._tasks or self._rows or self._committing) and not self.stopping:
            await self._changed.wait()
        self._awaited = False

    async def stop(self, grace: float) -> None:
        """Send no more lines; leave those in the engine `grace` seconds to finish, then forget them."""
        self.stopping = True
        self._notify()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        self._forget()

    def lose(self) -> None:
        """Act on the loss of the lease: nothing more counts, and the engine forgets what it has. At once, since `settle` ends with it."""
        self.lost = self.stopping = True
        self._notify()
        self._forget()

    async def settle(self) -> bool:
        """Commit chunks as they fall due until the run is through; whether the shard is then done. Gives the lease back otherwise."""
        while not self.lost:
            await self._due()
            if self._rows and not self.lost:
                await self._commit()
            if self._is_through() and not self._rows:
                break
        if not self.lost and self.shard.state is not ShardState.DONE:
            await asyncio.to_thread(self._queue.release, self.shard)
        return self.shard.state is ShardState.DONE

    def _forget(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _through(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._notify()

    def _is_through(self) -> bool:
        return not self._tasks and (self._fed or self.stopping)

    async def _due(self) -> None:
        while not self.lost and not self._is_due():
            wait = self._oldest + self._patience() - self._time() if self._rows else None
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _is_due(self) -> bool:
        full = len(self._rows) >= CHUNK_ROWS or self._bytes >= CHUNK_BYTES
        old = bool(self._rows) and self._time() >= self._oldest + self._patience()
        awaited = bool(self._rows) and self._awaited and not self._tasks
        return full or old or awaited or self._is_through()

    def _patience(self) -> float:
        return min(ENDING_SECONDS, self._chunk_seconds) if self._fed or self.stopping else self._chunk_seconds

    async def _commit(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        self._committing = True
        gpu_ms = self._meter.take(self.shard.ref)
        try:
            self.shard = await asyncio.to_thread(self._committer.commit, self.shard, self._seq, rows, gpu_ms)
        except (Fenced, Unavailable):
            # Unavailable for that long: whether the chunk counts will be seen by whoever leases the shard next.
            self.lose()
        else:
            self._seq += 1
        finally:
            self._committing = False
            self._notify()

    def _read_plan(self) -> ShardPlan:
        return plan.decode(self._blobs.get(paths.plan(self.shard.ref, self.shard.index)))

    def _missing(self) -> tuple[int, ...]:
        return merge.missing(self.shard.lines, list(self._log.of(self.shard.ref, self.shard.index)))
