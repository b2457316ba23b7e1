"""New ids and the system's clock: what entry points pass in as `NewId` and `Clock`.

Ids of one process sort strictly in the order in which they were made, within a millisecond and when the clock steps back; ids of several
processes sort as well as their clocks agree.
"""

import time
from threading import Lock

from ulid import ULIDGenerator

_NANOSECONDS = 1_000_000


class Sequence:
    """Makes ids: a prefix and a ULID that is greater than every one made before. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._generator = ULIDGenerator()
        self._latest = 0

    def next(self, prefix: str, milliseconds: int) -> str:
        """Give the next id, at this time or, when that lies back, at the time of the last one."""
        with self._lock:
            # The generator counts up within a millisecond only, and forgets it as soon as it sees another: so time never goes back for it.
            self._latest = max(self._latest, milliseconds)
            return f"{prefix}{self._generator.generate(self._latest)}"


_PROCESS = Sequence()


def new_id(prefix: str) -> str:
    """Give a new id with this prefix."""
    return _PROCESS.next(prefix, time.time_ns() // _NANOSECONDS)


def now() -> float:
    """Give the time, in Unix seconds."""
    return time.time()
