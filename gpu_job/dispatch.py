"""Rows into the engine and answers out of it, whatever the engine does meanwhile.

Rules:
- A refusal (4xx) is final: it is the row's answer.
- A failure of a living engine (5xx, a broken connection, garbage) is tried again a few times with growing waits; the last word counts.
- An engine that fails a row and is not well either is ended, and that counts as its death; one that somebody else runs is waited for.
- An engine that has too much to do (429, 503) is tried for about a minute; while it answers others, for as long as a row may take.
- A row that was in the engine when it died runs again, in a small company and then alone (`gpu_job.gate`); after its second death alone it is given up.
- A row over its time is tried once more; if the engine is not well either, the engine is ended, and that counts as its death instead.
- An engine that has rows inside and gets nowhere (`gpu_job.watchdog`) is ended.
- An engine that dies with nothing inside, or does not start, is no row's fault: after three times in a row the worker gives up.
- An engine that cannot be ended, as its GPU hangs, is given up with its worker: nobody waits for it, and no row is blamed.
- An engine that runs but takes no connection is waited for, since nothing of the row was sent; if it is ours it is ended after a while.
- No row is sent between the death of an engine and the start of the next one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from gpu_job.adapters import Adapters
from gpu_job.engine import Engine, EngineFailed
from gpu_job.gate import Gate
from gpu_job.media import Media
from gpu_job.row import Finished, Garbage, Row, finish, give_up, read, refuse
from gpu_job.structured import INVALID, StructuredOutputs
from gpu_job.upstream import EngineTimeout, EngineUnreachable, Reply, Way
from gpu_job.watchdog import Watchdog

DEATHS = 4
"""With all, in a company, and twice alone: once might be an engine that died by itself."""
FAILURES = 3
BUSY = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
PAUSES = (0.25, 1.0, 4.0, 16.0, 30.0)
"""Seconds between the tries of a row that failed; only a busy engine is tried so often."""
TIMEOUTS = 2
STARTS = 3
START_PAUSE = 5.0
"""Seconds before an engine that did not start is started again: the memory of the one before it may not be free yet."""
WAIT = 5.0
WAITS = 12
"""Seconds between two tries to connect, and how many there are before the engine is ended."""
LAST_GASP = 2.0
"""Seconds within which a dying vLLM is gone, after it answered 500."""

Sleep = Callable[[float], Awaitable[None]]

_log = logging.getLogger("slackwater.worker")


class Dispatcher:
    """One engine, kept alive, and the rows sent to it.

    Args:
        engine: The engine.
        upstream: The way into it.
        media: What fetches the media of rows.
        adapters: What loads the adapters of rows.
        structured: What checks structured outputs.
        max_in_flight: The most rows at once.
        row_seconds: The longest that one row may take.
        stall_seconds: The longest that the engine may get nowhere with rows inside.
        sleep: Waits so many seconds.

    """

    def __init__(
        self,
        engine: Engine,
        upstream: Way,
        *,
        media: Media,
        adapters: Adapters,
        structured: StructuredOutputs,
        max_in_flight: int,
        row_seconds: float,
        stall_seconds: float,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._engine = engine
        self._upstream = upstream
        self._media = media
        self._adapters = adapters
        self._structured = structured
        self._row_seconds = row_seconds
        self._sleep = sleep
        self._gate = Gate(max_in_flight)
        self._inside = self._answered = 0
        self._watchdog = Watchdog(
            upstream,
            stall_seconds=stall_seconds,
            inside=lambda: self._inside,
            answered=lambda: self._answered,
            sleep=sleep,
        )
        self._ready = asyncio.Event()
        self._used = False  # whether this generation was sent a row
        self._unending: asyncio.Future[EngineFailed] = asyncio.get_running_loop().create_future()

    async def keep_alive(self) -> None:
        """Start the engine, and again whenever it dies. Runs until cancelled; EngineFailed when it cannot be kept alive."""
        blameless = 0
        while True:
            failure = await self._life()
            blameless = 0 if self._used else blameless + 1
            if blameless >= STARTS:
                raise failure or EngineFailed(f"the engine died {STARTS} times in a row with no request inside")
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
        _log.warning("the engine gets nowhere, with %d requests inside", self._inside)
        await self._ended(self._engine.generation)  # one that somebody else runs may hang on

    async def ready(self) -> None:
        """Return when the engine takes rows."""
        await self._ready.wait()

    async def answer(self, row: Row) -> Finished:
        """Get a row answered, or given up. Cancelling it tells the engine to forget it."""
        async with self._media.inlined(row) as refused:
            return refused or await self._answer(row)

    async def _answer(self, row: Row) -> Finished:
        while True:
            async with self._gate.inside(row.deaths):
                await self._ready.wait()
                finished = await self._try(row)
            if finished is not None:
                return finished
            if row.failures:
                await self._sleep(PAUSES[row.failures - 1])

    async def _try(self, row: Row) -> Finished | None:
        """Send the row once; None means: again."""
        generation = self._engine.generation
        self._used = True
        try:
            refusal = await self._adapters.refusal(row.request.model, generation)
            if refusal is not None:  # of an engine, perhaps, that can load nothing any more
                return self._death(row) if await self._lost(generation) else finish(row, refusal)
            reply = await self._post(row)
        except EngineUnreachable as error:
            if error.sent:
                return await self._broke(row, None, generation)
            return None if await self._died(generation) else await self._shut_out(row, generation)
        except EngineTimeout:
            return await self._timed_out(row, generation)
        return await self._judge(row, reply, generation)

    async def _post(self, row: Row) -> Reply:
        self._inside += 1
        try:
            reply = await self._upstream.post(row.request.url, row.body, timeout=self._row_seconds)
        finally:
            self._inside -= 1
        self._answered += not _is_failure(reply)
        return reply

    async def _shut_out(self, row: Row, generation: int) -> Finished | None:
        """Wait for an engine that takes no connection; one that is well all the same has failed the row."""
        if await self._engine.alive():
            return self._failed(row, None)
        row.waits += 1
        if row.waits % WAITS or not await self._ended(generation):
            await self._sleep(WAIT)
        return None

    async def _judge(self, row: Row, reply: Reply, generation: int) -> Finished | None:
        if _is_failure(reply):
            return await self._broke(row, reply, generation)
        try:
            return await self._flawed(row, reply) or finish(row, reply)
        except Garbage:
            return self._failed(row, None)

    async def _broke(self, row: Row, reply: Reply | None, generation: int) -> Finished | None:
        """Act on what is the row's fault only if the engine is well: it may have died, or be about to fail whatever comes."""
        if not self._over(generation) and await self._engine.alive():
            return self._failed(row, reply)
        if await self._lost(generation):
            return self._death(row)
        finished = self._failed(row, reply)
        while finished is None and not await self._lost(generation) and not await self._engine.alive():
            await self._sleep(WAIT)  # somebody else runs it
        return finished

    async def _flawed(self, row: Row, reply: Reply) -> Finished | None:
        """Give the row of an answer that is not the JSON that was asked for; Garbage when it cannot be read."""
        if reply.status != HTTPStatus.OK or (wanted := row.format) is None:
            return None
        flaw = await self._structured.flaw(row.request.url, wanted, read(reply))
        if flaw is None:
            return None
        if flaw.code == INVALID:
            return give_up(row.batch, row.line, row.position, flaw.message, flaw.code)
        return refuse(row, flaw.message, flaw.param)

    def _death(self, row: Row) -> Finished | None:
        row.deaths += 1
        if row.deaths >= DEATHS:
            return _give_up(row, f"The engine died {DEATHS} times while it ran this request; it was given up.")
        return None

    def _failed(self, row: Row, reply: Reply | None) -> Finished | None:
        row.failures += 1
        busy = reply is not None and reply.status in BUSY
        if busy and self._gets_on(row):
            row.failures = min(row.failures, FAILURES)
            return None
        if row.failures < FAILURES or (busy and row.failures <= len(PAUSES)):
            return None
        if reply is not None:
            return finish(row, reply)
        return _give_up(row, f"The engine gave no readable answer in {FAILURES} attempts.")

    def _gets_on(self, row: Row) -> bool:
        """Whether an engine that turns the row away has answered others since it last did: it will have room, if it ever has for this one."""
        now = asyncio.get_running_loop().time()
        since = row.turned_away_at = now if row.turned_away_at is None else row.turned_away_at
        before, row.answered = row.answered, self._answered
        return before != self._answered and now - since < self._row_seconds

    async def _timed_out(self, row: Row, generation: int) -> Finished | None:
        if await self._lost(generation):
            return self._death(row)
        row.timeouts += 1
        if row.timeouts >= TIMEOUTS:
            return _give_up(row, f"The request took longer than {self._row_seconds:g} s, {TIMEOUTS} times.")
        return None

    async def _lost(self, generation: int) -> bool:
        """Whether the engine of that generation is dead or dying, or was not well and has been ended: a server may outlive its core."""
        return await self._died(generation) or (not await self._engine.alive() and await self._ended(generation))

    async def _ended(self, generation: int) -> bool:
        """End an engine that is not well, and say whether that could be done: one that somebody else runs goes on."""
        # Rows that time out together find the same engine unwell; only that one is killed, never its successor.
        if not self._over(generation):
            self._ready.clear()
            try:
                await self._engine.kill()
            except EngineFailed as failure:
                if not self._unending.done():
                    self._unending.set_result(failure)
                await asyncio.Event().wait()  # until the worker forgets the row
            if not self._over(generation):
                self._ready.set()
        return self._over(generation)

    async def _died(self, generation: int) -> bool:
        """Whether the engine of that generation is dead or dying: a dying one still answers, its health check tells."""
        if not self._over(generation) and not await self._engine.alive():
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_GASP):
                    await self._engine.wait_exit()
        over = self._over(generation)
        if over and self._engine.generation == generation:
            self._ready.clear()  # `keep_alive` may not have heard of it yet
        return over

    def _over(self, generation: int) -> bool:
        return self._engine.generation != generation or self._engine.exited()


def _is_failure(reply: Reply) -> bool:
    return reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status == HTTPStatus.TOO_MANY_REQUESTS


def _give_up(row: Row, message: str) -> Finished:
    return give_up(row.batch, row.line, row.position, message)
