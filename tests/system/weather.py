"""What the calls of a whole world meet: faults (`tests.fakes`) at single calls, by script, or at all of them, by a rule.

A call is named `<port>.<method>`, an invocation of a task state `task.<State>`.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from shared.adapters.errors import Busy
from shared.core.errors import Conflict
from tests.fakes import Call, Fault, Hostile, ok

P = TypeVar("P")


def fair(_name: str) -> Fault:
    """Let every call through."""
    return ok


class Weather:
    """The faults of one world.

    Attributes:
        calls: The names of all calls, in order.
        rule: The fault of each call that the script leaves alone, by its name.

    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.rule: Callable[[str], Fault] = fair
        self._script: defaultdict[str, deque[Fault]] = defaultdict(deque)

    def script(self, name: str, *faults: Fault) -> None:
        """Let the next calls of this name meet these faults, in order."""
        self._script[name].extend(faults)

    @property
    def left(self) -> dict[str, int]:
        """How many faults of each name no call has met yet."""
        return {name: len(faults) for name, faults in self._script.items() if faults}

    def meet(self, name: str, call: Call) -> Any:
        """Make a call, in this weather."""
        self.calls.append(name)
        fault = self._script[name].popleft() if self._script[name] else self.rule(name)
        return fault(call)

    def over(self, name: str, port: P) -> P:
        """Put a port under this weather."""
        return _Under(self, name, port).port


class _Under(Hostile[P]):
    def __init__(self, weather: Weather, name: str, port: P) -> None:
        super().__init__(port, {})
        self._weather = weather
        self._name = name

    def call(self, method: str, *args: Any, **named: Any) -> Any:
        return self._weather.meet(f"{self._name}.{method}", partial(super().call, method, *args, **named))


class Step:
    """A fault at one call, by its number from 0, of those that the next invocation of a task state makes; what the fault calls in turn meets none.

    Attributes:
        reached: Whether the invocation made so many calls.

    """

    def __init__(self, weather: Weather, state: str, number: int, fault: Fault) -> None:
        self.reached = False
        self._weather = weather
        self._left = number
        self._fault = fault
        weather.script(f"task.{state}", self._enter)

    def _enter(self, call: Call) -> Any:
        self._weather.rule = self._next
        try:
            return call()
        finally:
            self._weather.rule = fair

    def _next(self, _name: str) -> Fault:
        self._left -= 1
        if self._left >= 0:
            return ok
        self.reached = True
        self._weather.rule = fair
        return self._fault


def before(race: Callable[[], object]) -> Fault:
    """Let something else happen before the call takes effect: it arrives late."""

    def fault(call: Call) -> Any:
        race()
        return call()

    return fault


class Unknown(Exception):  # noqa: N818 - it is named for what Step Functions says of it
    """The process was killed in the middle of a call; nobody knows more."""


def throttle(_call: Call) -> Any:
    """Turn the call away before it has any effect, as AWS does when there are too many."""
    raise Busy("ThrottlingException")


def killed(_call: Call) -> Any:
    """Kill the caller before the call has any effect."""
    raise Unknown


def killed_after(call: Call) -> Any:
    """Kill the caller after the effect of the call."""
    call()
    raise Unknown


def broken(_call: Call) -> Any:
    """Fail as a mistake in the code does."""
    raise RuntimeError("a mistake")


def crowded(_call: Call) -> Any:
    """Refuse the call, since too many change the same record at once."""
    raise Conflict("too many at once")


def swallow(_call: Call) -> None:
    """Say that it is done, and do nothing."""
