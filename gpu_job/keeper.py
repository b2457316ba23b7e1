"""An engine that is kept alive: started, watched, ended where it has to be, and started again.

Rules:
- An engine that dies with nothing inside, or does not start, is no row's fault: after three times in a row it is given up.
- One that dies time and again before it has answered anything is given up as well: the host may be broken, and not all rows.
- One that has rows inside and gets nowhere (`gpu_job.watchdog`) is ended.
- One that cannot be ended, as its GPU hangs, is given up at once: nobody waits for it, and no row is blamed.
- Nobody is told that it takes rows between the death of one generation and the start of the next.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from gpu_job.engine import Engine, EngineFailed
from gpu_job.watchdog import Watchdog

STARTS = 3
START_PAUSE = 5.0
"""Seconds before an engine that did not start is started again: the memory of the one before it may not be free yet."""
BARREN = 12
"""Deaths in a row without an answer in between: more than a few rows one after another that kill engines come to."""
LAST_GASP = 2.0
"""Seconds within which a dying vLLM is gone, after it answered 500."""

Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger("slackwater.worker")


class Keeper:
    """Keeps one engine alive.

    Args:
        engine: The engine.
        watchdog: What tells that it gets nowhere.
        answered: Tells how many rows it has answered so far.
        sleep: Waits so many seconds.

    """

    def __init__(
        self, engine: Engine, watchdog: Watchdog, *, answered: Callable[[], int], sleep: Sleep = asyncio.sleep
    ) -> None:
        self._engine = engine
        self._watchdog = watchdog
        self._answered = answered
        self._sleep = sleep
        self._ready = asyncio.Event()
        self._used = False  # whether something was to be sent to this generation
        self._unending: asyncio.Future[EngineFailed] = asyncio.get_running_loop().create_future()

    async def keep_alive(self) -> None:
        """Start the engine, and again whenever it dies. Runs until cancelled; EngineFailed when it cannot be kept alive."""
        blameless = barren = 0
        while True:
            answered = self._answered()
            failure = await self._life()
            blameless = 0 if self._used else blameless + 1
            barren = 0 if self._answered() > answered else barren + 1
            if blameless >= STARTS:
                raise failure or EngineFailed(f"the engine died {STARTS} times in a row with no request inside")
            if barren >= BARREN:
                raise failure or EngineFailed(f"the engine died {BARREN} times in a row before it answered a request")
            if failure is not None:
                _log.warning("the engine is started again: %s", failure)
                await self._sleep(START_PAUSE)

    async def _life(self) -> EngineFailed | None:
        """Start the engine and return when it is dead; the error when it did not start."""
        self._used = False
        try:
            await self._engine.start()
        except EngineFailed as failure:
            return failure
        self._ready.set()
        await self._watched()
        self._ready.clear()
        return None

    async def _watched(self) -> None:
        """Return when the engine is dead, be it that it has to be ended; EngineFailed when it cannot be."""
        exited = asyncio.create_task(self._engine.wait_exit())
        watching = asyncio.create_task(self._end_if_hung())
        either: list[asyncio.Future[Any]] = [exited, self._unending]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not exited.done():
                raise self._unending.result()
        finally:
            exited.cancel()
            watching.cancel()

    async def _end_if_hung(self) -> None:
        await self._watchdog.hung()
        _log.warning("the engine gets nowhere, with requests inside")
        await self.ended(self._engine.generation)  # one that somebody else runs may hang on

    async def ready(self) -> None:
        """Return when the engine takes rows."""
        await self._ready.wait()

    @property
    def generation(self) -> int:
        """Which engine it is, counted from 1."""
        return self._engine.generation

    def use(self) -> None:
        """Say that something is to be sent to the engine."""
        self._used = True

    async def alive(self) -> bool:
        """Whether the engine runs and is well."""
        return await self._engine.alive()

    async def lost(self, generation: int) -> bool:
        """Whether the engine of that generation is dead or dying, or was not well and has been ended: a server may outlive its core."""
        return await self.died(generation) or (not await self._engine.alive() and await self.ended(generation))

    async def ended(self, generation: int) -> bool:
        """End an engine that is not well, and say whether that could be done: one that somebody else runs goes on."""
        # Rows that time out together find the same engine unwell; only that one is killed, never its successor.
        if not self.over(generation):
            self._ready.clear()
            try:
                await self._engine.kill()
            except EngineFailed as failure:
                if not self._unending.done():
                    self._unending.set_result(failure)
                await asyncio.Event().wait()  # until the worker forgets the row
            if not self.over(generation):
                self._ready.set()
        return self.over(generation)

    async def died(self, generation: int) -> bool:
        """Whether the engine of that generation is dead or dying: a dying one still answers, its health check tells."""
        if not self.over(generation) and not await self._engine.alive():
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_GASP):
                    await self._engine.wait_exit()
        over = self.over(generation)
        if over and self._engine.generation == generation:
            self._ready.clear()  # `keep_alive` may not have heard of it yet
        return over

    def over(self, generation: int) -> bool:
        """Whether the engine of that generation has ended."""
        return self._engine.generation != generation or self._engine.exited()
