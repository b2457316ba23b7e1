"""An engine in the test's hand: no process, no socket; what it does with a prompt is written in a script.

An act is what an engine does with one request. Prompts that are not in the script are answered after a moment with their own words.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec

from gpu_job.adapters import LOAD
from gpu_job.engine import EngineFailed
from gpu_job.upstream import EngineTimeout, EngineUnreachable, Reply

STARTING = 5.0
ANSWERING = 0.05
CLINGING = 60.0
TOKENS = 7
"""Of every prompt and, the half of it, of every answer."""

Act = Callable[["ScriptedEngine", str], Coroutine[Any, Any, Reply]]


class ScriptedEngine:
    """`gpu_job.engine.Engine`, and the way in to it.

    Attributes:
        script: Acts by prompt; may be shared by many engines, and changed at any time.
        inside: The prompts that are in it now.
        seen: Every prompt that came in, in order.
        bodies: The bodies that came in with them.
        well: Whether it answers its health check.
        core: Done when its core has died and its server runs on: it fails whatever is or comes in, and is not well.
        stalled: Whether it computes nothing any more, which its health check does not tell.
        away: Whether it takes no connection, for rows or for health checks.
        loading: Waits for as long as it takes to load an adapter.
        clings: Whether it does not end when it is killed.
        broken: How many of the next starts fail.

    """

    base_url = "http://engine"

    def __init__(self, script: dict[str, Act]) -> None:
        self.script = script
        self.generation = 0
        self.inside: list[str] = []
        self.seen: list[str] = []
        self.bodies: list[bytes] = []
        self.well = True
        self.core: asyncio.Future[None] = asyncio.Future()
        self.stalled = False
        self.away = False
        self.loading: Callable[[], Awaitable[object]] = partial(asyncio.sleep, 0)
        self.clings = False
        self.broken = 0
        self._answered = 0
        self._end: asyncio.Future[None] | None = None

    async def start(self) -> None:
        """As `Engine.start`."""
        await asyncio.sleep(STARTING)
        if self.broken:
            self.broken -= 1
            raise EngineFailed("the test wants it so")
        self.generation += 1
        self.well = True
        self.core = asyncio.Future()
        self.stalled = False
        self.away = False
        self._end = asyncio.get_running_loop().create_future()

    async def alive(self) -> bool:
        """As `Engine.alive`."""
        return self.well and not self.core.done() and not self.away and not self.exited()

    def exited(self) -> bool:
        """As `Engine.exited`."""
        return self._end is None or self._end.done()

    async def wait_exit(self) -> None:
        """As `Engine.wait_exit`."""
        if self._end is not None:
            await asyncio.wait([self._end])

    async def stop(self) -> None:
        """As `Engine.stop`."""
        self.die()

    async def kill(self) -> None:
        """As `Engine.kill`."""
        if self.clings and not self.exited():
            await asyncio.sleep(CLINGING)
            raise EngineFailed("the test wants it so")
        self.die()

    def die(self) -> None:
        """End it, with all that is inside."""
        if self._end is not None and not self._end.done():
            self._end.set_result(None)

    async def post(self, url_path: str, body: bytes, *, timeout: float) -> Reply:  # noqa: ASYNC109 - the port's own
        """As `Upstream.post`."""
        await asyncio.sleep(0)
        if self._end is None or self._end.done() or self.away:
            raise EngineUnreachable("nobody is there", sent=False)
        if url_path == LOAD:
            await self.loading()
            return Reply(500 if self.core.done() else 200, b"")
        prompt = _prompt(body)
        assert url_path == "/v1/chat/completions"
        self.seen.append(prompt)
        self.bodies.append(body)
        self.inside.append(prompt)
        work = asyncio.create_task(self.script.get(prompt, echo)(self, prompt))
        core = self.core
        either: list[asyncio.Future[Any]] = [work, self._end, core]
        try:
            async with asyncio.timeout(timeout):
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                while (self.stalled or not self.well) and not self.exited():  # nothing comes out
                    await asyncio.wait([self._end], timeout=1)
        except TimeoutError:
            raise EngineTimeout("not in time") from None
        finally:
            self.inside.remove(prompt)
            work.cancel()
        if core.done() and not self._end.done():
            return Reply(500, b'{"error": {"message": "EngineCore encountered an issue"}}')
        if self._end.done() or not work.done():
            raise EngineUnreachable("it died", sent=True)
        reply = work.result()
        self._answered += reply.status == HTTPStatus.OK  # what is refused is not computed
        return reply

    async def metrics(self) -> dict[str, float]:
        """As `Upstream.metrics`."""
        if self.away or self.exited():
            raise EngineUnreachable("nobody is there", sent=False)
        if not self.well:
            raise EngineTimeout("not in time")
        return {
            "process_cpu_seconds_total": asyncio.get_running_loop().time(),
            "vllm:request_success_total": self._answered,
        }


class RemoteEngine(ScriptedEngine):
    """An engine that somebody else runs: nobody here can end it."""

    def exited(self) -> bool:
        """As `Engine.exited`."""
        return False

    def die(self) -> None:
        """Live on."""


def _prompt(body: bytes) -> str:
    request: Any = msgspec.json.decode(body)
    return str(request["messages"][-1]["content"])


def answer(prompt: str) -> Reply:
    """Give the good answer to a prompt."""
    message = {"role": "assistant", "content": prompt}
    usage = {"prompt_tokens": TOKENS, "completion_tokens": TOKENS // 2, "total_tokens": TOKENS + TOKENS // 2}
    body = {"id": "x", "model": "engine", "choices": [{"index": 0, "message": message}], "usage": usage}
    return Reply(200, msgspec.json.encode(body))


async def echo(_engine: ScriptedEngine, prompt: str) -> Reply:
    """Answer after a moment."""
    await asyncio.sleep(ANSWERING)
    return answer(prompt)


async def slowly(_engine: ScriptedEngine, prompt: str) -> Reply:
    """Answer after a while."""
    await asyncio.sleep(20 * ANSWERING)
    return answer(prompt)


def lingering(seconds: float) -> Act:
    """Answer after so long."""

    async def act(_engine: ScriptedEngine, prompt: str) -> Reply:
        await asyncio.sleep(seconds)
        return answer(prompt)

    return act


async def crash(engine: ScriptedEngine, _prompt: str) -> Reply:
    """Die of it."""
    await asyncio.sleep(ANSWERING / 2)
    engine.die()
    return await _for_ever()


async def hang(engine: ScriptedEngine, _prompt: str) -> Reply:
    """Never answer anything any more, health checks neither."""
    engine.well = False
    return await _for_ever()


async def sicken(engine: ScriptedEngine, _prompt: str) -> Reply:
    """Take its core down, and leave its server behind."""
    if not engine.core.done():
        engine.core.set_result(None)
    return await _for_ever()


async def stall(engine: ScriptedEngine, _prompt: str) -> Reply:
    """Compute nothing any more, of anything, and say that all is well."""
    engine.stalled = True
    return await _for_ever()


async def brood(_engine: ScriptedEngine, _prompt: str) -> Reply:
    """Never answer this one, and be well."""
    return await _for_ever()


async def garbage(_engine: ScriptedEngine, _prompt: str) -> Reply:
    """Answer what is no JSON."""
    return Reply(200, b'{"choices": [{"logprob": NaN}]}')


async def nested(_engine: ScriptedEngine, _prompt: str) -> Reply:
    """Answer what is JSON, but deeper than anybody reads."""
    return Reply(200, b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")


async def refuse(_engine: ScriptedEngine, _prompt: str) -> Reply:
    """Refuse the request as vLLM does."""
    error = {
        "message": "temperature must not be negative",
        "type": "BadRequestError",
        "param": "temperature",
        "code": 400,
    }
    return Reply(400, msgspec.json.encode({"error": error}))


async def overloaded(_engine: ScriptedEngine, _prompt: str) -> Reply:
    """Answer 503."""
    return Reply(503, b'{"error": {"message": "no room", "type": "Overloaded", "param": null, "code": 503}}')


def after(event: asyncio.Event) -> Act:
    """Answer once the event is set."""

    async def act(_engine: ScriptedEngine, prompt: str) -> Reply:
        await event.wait()
        return answer(prompt)

    return act


async def _for_ever() -> Reply:
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    return await answer
