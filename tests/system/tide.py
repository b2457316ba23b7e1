"""Time that passes only while everybody waits: an event loop whose clock jumps to the next timer, and whose threads are calls in a row.

A day passes in no time, nothing is ever late by chance, and the same story runs the same way each time. What runs in a thread elsewhere
runs here in the loop, as a whole: at once or, where the test gives calls a `latency`, later; its answer comes later by another.
As a thread's would, it runs to its end even when nobody waits for it any more.
"""

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

WHO: ContextVar[str] = ContextVar("WHO", default="")
"""The worker whose call it is, for a `latency` that differs; empty for all others."""

PATIENCE = 5.0
"""Real seconds after which nothing will happen any more, when no timer is set."""
BREATH = 100_000
"""Steps of the loop without any time passing, after which somebody is spinning."""


class Tide(asyncio.SelectorEventLoop):
    """The loop.

    Attributes:
        now: Seconds since the loop was made; a test may turn it forward.
        latency: Gives the seconds that the next call of a thread takes to arrive, or its answer to come back.

    """

    def __init__(self) -> None:
        self.now = 0.0
        self.latency: Callable[[], float] = lambda: 0.0
        super().__init__(_Selector(self))
        self.set_default_executor(_Calls(self))

    def time(self) -> float:
        """Give the loop's own time."""
        return self.now


class _Selector(selectors.PollSelector):
    def __init__(self, tide: Tide) -> None:
        super().__init__()
        self._tide = tide
        self._steps = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            events = super().select(PATIENCE)
            if not events:
                raise RuntimeError("everybody waits, and nothing will ever happen")
            return events
        self._steps = 0 if timeout else self._steps + 1
        if self._steps > BREATH:
            raise RuntimeError("somebody spins, and no time passes")
        events = super().select(0)
        if not events:
            self._tide.now += timeout
        return events


class _Calls(ThreadPoolExecutor):
    """Runs in the loop what `asyncio.to_thread` sends to threads."""

    def __init__(self, tide: Tide) -> None:
        super().__init__(1)
        self._tide = tide

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                answer = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's, as in every executor
                self._later(future.set_exception, error)
            else:
                self._later(future.set_result, answer)

        self._later(run)
        return future

    def _later(self, call: Callable[..., object], *args: object) -> None:
        seconds = self._tide.latency()
        if seconds:
            self._tide.call_later(seconds, call, *args)
        else:
            call(*args)
