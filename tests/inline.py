"""Threads that are none: what is submitted is done at once, so that every run makes the same calls in the same order."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class Inline(Executor):
    """An executor without threads. What is no `Exception` is not kept for the result: whoever is killed does not go on."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call it."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever asks for the result is told
            future.set_exception(error)
        return future
