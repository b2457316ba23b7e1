"""Rows into the engine and answers out of it, whatever the engine does meanwhile.

Rules:
- A refusal (4xx) is final: it is the row's answer.
- A failure of a living engine (5xx, 429, a broken connection, garbage) is tried again a few times with growing waits; the last word counts.
- A row that was in the engine when it died runs again alone; after its third death it is given up.
- A row over its time is tried once more; if the engine is not well either, the engine is restarted, and that counts as its death.
- An engine that dies with nothing inside, or does not start, is no row's fault: after three times in a row the worker gives up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus

from gpu_job.engine import Engine, EngineFailed
from gpu_job.gate import Gate
from gpu_job.row import Finished, Garbage, Row, finish, give_up
from gpu_job.upstream import EngineTimeout, EngineUnreachable, Reply, Upstream

DEATHS = 3
FAILURES = 3
TIMEOUTS = 2
STARTS = 3
LAST_GASP = 2.0
"""Seconds within which a dying vLLM is gone, after it answered 500."""

Sleep = Callable[[float], Awaitable[None]]


class Dispatcher:
    """One engine, kept alive, and the rows sent to it."""

    def __init__(self, engine: Engine, upstream: Upstream, *, row_seconds: float, sleep: Sleep = asyncio.sleep) -> None:
        self._engine = engine
        self._upstream = upstream
        self._row_seconds = row_seconds
        self._sleep = sleep
        self._gate = Gate()
        self._ready = asyncio.Event()
        self._used = False  # whether this generation was sent a row

    async def keep_alive(self) -> None:
        """Start the engine, and again whenever it dies. Runs until cancelled; EngineFailed when it cannot be kept alive."""
        idle_deaths = 0
        while True:
            await self._engine.start()
            self._used = False
            self._ready.set()
            await self._engine.wait_exit()
            self._ready.clear()
            idle_deaths = 0 if self._used else idle_deaths + 1
            if idle_deaths >= STARTS:
                raise EngineFailed(f"the engine died {STARTS} times in a row with no request inside")

    async def ready(self) -> None:
        """Return when the engine takes rows."""
        await self._ready.wait()

    async def answer(self, row: Row) -> Finished:
        """Get a row answered, or given up. Cancelling it tells the engine to forget it."""
        while True:
            async with self._place(row):
                await self._ready.wait()
                finished = await self._try(row)
            if finished is not None:
                return finished
            if row.failures:
                await self._sleep(0.25 * 4 ** (row.failures - 1))

    def _place(self, row: Row) -> AbstractAsyncContextManager[None]:
        return self._gate.alone() if row.deaths else self._gate.together()

    async def _try(self, row: Row) -> Finished | None:
        """Send the row once; None means: again."""
        generation = self._engine.generation
        self._used = True
        try:
            reply = await self._upstream.post(row.request.url, row.body, timeout=self._row_seconds)
        except EngineUnreachable as error:
            if not await self._died(generation):
                return self._failed(row, None)
            return self._death(row) if error.sent else None
        except EngineTimeout:
            return await self._timed_out(row, generation)
        return await self._judge(row, reply, generation)

    async def _judge(self, row: Row, reply: Reply, generation: int) -> Finished | None:
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status == HTTPStatus.TOO_MANY_REQUESTS:
            return self._death(row) if await self._died(generation) else self._failed(row, reply)
        try:
            return finish(row, reply)
        except Garbage:
            return self._failed(row, None)

    def _death(self, row: Row) -> Finished | None:
        row.deaths += 1
        if row.deaths >= DEATHS:
            return _give_up(row, f"The engine died {DEATHS} times while it ran this request; it was given up.")
        return None

    def _failed(self, row: Row, reply: Reply | None) -> Finished | None:
        row.failures += 1
        if row.failures < FAILURES:
            return None
        if reply is not None:
            return finish(row, reply)
        return _give_up(row, f"The engine gave no readable answer in {FAILURES} attempts.")

    async def _timed_out(self, row: Row, generation: int) -> Finished | None:
        row.timeouts += 1
        # Rows that time out together find the same engine unwell; only that one is killed, never its successor.
        if not await self._engine.alive() and self._engine.generation == generation:
            self._ready.clear()
            await self._engine.kill()
        if row.timeouts >= TIMEOUTS:
            return _give_up(row, f"The request took longer than {self._row_seconds:g} s, {TIMEOUTS} times.")
        return None

    async def _died(self, generation: int) -> bool:
        """Whether the engine of that generation is dead or dying: a dying one still answers, its health check tells."""
        if self._engine.generation != generation or self._engine.exited():
            return True
        if await self._engine.alive():
            return False
        try:
            async with asyncio.timeout(LAST_GASP):
                await self._engine.wait_exit()
        except TimeoutError:
            return False
        return True


def _give_up(row: Row, message: str) -> Finished:
    return give_up(row.batch, row.line, row.position, message)
