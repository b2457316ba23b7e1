"""A hostile world: any port, made to fail the way networks, stores and schedulers do.

    chunks = Hostile(memory.chunks, {"commit": [ok, lose_answer, duplicate]})
    worker(chunks=chunks.port)

A fault is a function from a call to its answer. The faults listed for a method are used up by its calls in order, whichever thread they come from;
calls after the last fault, and methods without any, go through as they are.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Event, Lock
from typing import Any, Generic, TypeVar, cast

from shared.core.errors import SlackwaterError, Unavailable

P = TypeVar("P")

Call = Callable[[], Any]
Fault = Callable[[Call], Any]

PATIENCE = 30.0  # seconds after which a delayed call gives up: then the test is wrong


def ok(call: Call) -> Any:
    """Let the call through."""
    return call()


def fail(_: Call) -> Any:
    """Raise Unavailable without any effect."""
    raise Unavailable("the call never arrived")


def lose_answer(call: Call) -> Any:
    """Let the call take effect, then raise Unavailable in place of its answer, be that an error."""
    with suppress(SlackwaterError):
        call()
    raise Unavailable("the answer was lost")


def duplicate(call: Call) -> Any:
    """Deliver the call twice; the second answer, or error, is the one that comes back."""
    with suppress(SlackwaterError):
        call()
    return call()


def delay(until: Event) -> Fault:
    """Hold the call back until the event is set: it arrives late, from a zombie."""

    def fault(call: Call) -> Any:
        if not until.wait(PATIENCE):
            raise TimeoutError("nobody set the event that a delayed call waits for")
        return call()

    return fault


def then(race: Callable[[], object]) -> Fault:
    """Let the call take effect, and something else happen before its answer is seen."""

    def fault(call: Call) -> Any:
        answer = call()
        race()
        return answer

    return fault


class Hostile(Generic[P]):
    """A port whose calls meet faults.

    Args:
        port: The port behind.
        script: The faults of each method, in the order of its calls. AttributeError for a method that the port has not.

    Attributes:
        port: The hostile port; to be used wherever one of its type is wanted.
        calls: The names of the methods, in the order in which they were called.

    """

    def __init__(self, port: P, script: Mapping[str, Sequence[Fault]]) -> None:
        for method in script:
            getattr(port, method)
        self.port = cast("P", _Port(self))
        self.calls: list[str] = []
        self._behind = port
        self._faults = {method: deque(faults) for method, faults in script.items()}
        self._lock = Lock()

    @property
    def left(self) -> dict[str, int]:
        """How many faults of each method no call has met yet: empty when the script was played to its end."""
        with self._lock:
            return {method: len(faults) for method, faults in self._faults.items() if faults}

    def call(self, method: str, *args: Any, **named: Any) -> Any:
        """Call a method of the port behind, through its next fault."""
        with self._lock:
            self.calls.append(method)
            faults = self._faults.get(method)
            fault = faults.popleft() if faults else ok
        return fault(partial(getattr(self._behind, method), *args, **named))


class _Port:
    """Stands where the port stood."""

    def __init__(self, hostile: "Hostile[Any]") -> None:
        self._hostile = hostile

    def __getattr__(self, method: str) -> Any:
        return partial(self._hostile.call, method)
