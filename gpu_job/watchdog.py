"""Whether an engine gets on: one that has rows inside and computes nothing for long hangs, however well it says it is.

What it computes is read from its metrics: every step of vLLM moves some of them, that of a long prompt's next part too. What it refuses moves none, and
counts as well: all rows of a batch may be too long for it. An engine that has no metrics is not watched; there the time that a row may take ends the wait.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gpu_job.upstream import EngineTimeout, EngineUnreachable, Way

LOOKS = 10
"""How often it is looked at within the time that it may stand still."""
WORK = "vllm:"
"""How the names begin of what moves with the work alone."""

Sleep = Callable[[float], Awaitable[None]]


class Watchdog:
    """Watches one engine.

    Args:
        upstream: The way into the engine.
        stall_seconds: How long it may stand still with rows inside.
        inside: Tells how many rows are inside.
        answered: Tells how many rows it has answered or refused so far.
        sleep: Waits so many seconds.

    """

    def __init__(
        self,
        upstream: Way,
        *,
        stall_seconds: float,
        inside: Callable[[], int],
        answered: Callable[[], int],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._upstream = upstream
        self._pause = stall_seconds / LOOKS
        self._inside = inside
        self._answered = answered
        self._sleep = sleep

    async def hung(self) -> None:
        """Return when the engine hangs; until cancelled, where it has no metrics."""
        still, answered, before = 0, self._answered(), await self._work()
        while before != {}:
            await self._sleep(self._pause)
            now = await self._work()
            # A look that gets no answer is no sign of work either.
            stands = now in (None, before) and self._answered() == answered
            still = still + 1 if self._inside() and stands else 0
            if still >= LOOKS:
                return
            answered, before = self._answered(), before if now is None else now
        await asyncio.get_running_loop().create_future()

    async def _work(self) -> dict[str, float] | None:
        """Give what the engine has computed so far; None where it does not say, nothing where it never does."""
        try:
            metrics = await self._upstream.metrics()
        except (EngineTimeout, EngineUnreachable):
            return None
        return {name: value for name, value in metrics.items() if name.startswith(WORK)}
