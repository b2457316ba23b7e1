"""Rows into the engine and answers out of it, whatever the engine does meanwhile.

Rules:
- A refusal (4xx) is final: it is the row's answer.
- A failure of a living engine (5xx, a broken connection, garbage) is tried again a few times with growing waits; the last word counts.
- An engine that fails a row and is not well either is ended, and that counts as its death; one that somebody else runs is waited for.
- An engine that has too much to do (429, 503) is tried for about a minute; while it answers others, for as long as a row may take.
- A row that was in the engine when it died runs again, in a small company and then alone (`gpu_job.gate`); after its second death alone it is given up.
- A row over its time is tried once more; if the engine is not well either, the engine is ended, and that counts as its death instead.
- An engine that runs but takes no connection is waited for, since nothing of the row was sent; if it is ours it is ended after a while.

How the engine is kept alive is `gpu_job.keeper`.
"""

import asyncio
from http import HTTPStatus

from gpu_job.adapters import Adapters
from gpu_job.engine import Engine
from gpu_job.gate import Gate
from gpu_job.keeper import Keeper, Sleep
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
WAIT = 5.0
WAITS = 12
"""Seconds between two tries to connect, and how many there are before the engine is ended."""


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
        self._upstream = upstream
        self._media = media
        self._adapters = adapters
        self._structured = structured
        self._row_seconds = row_seconds
        self._sleep = sleep
        self._gate = Gate(max_in_flight)
        self._inside = self._answered = 0
        watchdog = Watchdog(
            upstream,
            stall_seconds=stall_seconds,
            inside=lambda: self._inside,
            answered=lambda: self._answered,
            sleep=sleep,
        )
        self._keeper = Keeper(engine, watchdog, answered=lambda: self._answered, sleep=sleep)

    async def keep_alive(self) -> None:
        """As `Keeper.keep_alive`."""
        await self._keeper.keep_alive()

    async def ready(self) -> None:
        """As `Keeper.ready`."""
        await self._keeper.ready()

    async def answer(self, row: Row) -> Finished:
        """Get a row answered, or given up. Cancelling it tells the engine to forget it."""
        async with self._media.inlined(row) as refused:
            return refused or await self._answer(row)

    async def _answer(self, row: Row) -> Finished:
        while True:
            async with self._gate.inside(row.deaths):
                await self._keeper.ready()
                finished = await self._try(row)
            if finished is not None:
                return finished
            if row.failures:
                await self._sleep(PAUSES[row.failures - 1])

    async def _try(self, row: Row) -> Finished | None:
        """Send the row once; None means: again."""
        generation = self._keeper.generation
        self._keeper.use()
        try:
            refusal = await self._adapters.refusal(row.request.model, generation)
            if refusal is not None:  # of an engine, perhaps, that can load nothing any more
                return self._death(row) if await self._keeper.lost(generation) else finish(row, refusal)
            reply = await self._post(row)
        except EngineUnreachable as error:
            if error.sent:
                return await self._broke(row, None, generation)
            return None if await self._keeper.died(generation) else await self._shut_out(row, generation)
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
        if await self._keeper.alive():
            return self._failed(row, None)
        row.waits += 1
        if row.waits % WAITS or not await self._keeper.ended(generation):
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
        if not self._keeper.over(generation) and await self._keeper.alive():
            return self._failed(row, reply)
        if await self._keeper.lost(generation):
            return self._death(row)
        finished = self._failed(row, reply)
        while finished is None and not await self._keeper.lost(generation) and not await self._keeper.alive():
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
        if await self._keeper.lost(generation):
            return self._death(row)
        row.timeouts += 1
        if row.timeouts >= TIMEOUTS:
            return _give_up(row, f"The request took longer than {self._row_seconds:g} s, {TIMEOUTS} times.")
        return None


def _is_failure(reply: Reply) -> bool:
    return reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR or reply.status == HTTPStatus.TOO_MANY_REQUESTS


def _give_up(row: Row, message: str) -> Finished:
    return give_up(row.batch, row.line, row.position, message)
