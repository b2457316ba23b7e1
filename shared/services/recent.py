"""What was looked up a moment ago: an answer may be this old, and no older."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from shared.ports import Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CAPACITY = 10_000


class Recent(Generic[K, V]):
    """Keeps answers for `seconds`. Several threads may use it: at worst two of them look the same thing up."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._kept: dict[K, tuple[float, V]] = {}

    def get(self, key: K, look_up: Callable[[], V]) -> V:
        """Give the answer to `key`, looked up anew when it is too old. What `look_up` raises is not kept."""
        now = self._clock()
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < self._seconds:
            return kept[1]
        value = look_up()
        if len(self._kept) >= CAPACITY:
            self._kept = {}
        self._kept[key] = (now, value)
        return value
