"""Reading ahead: while one thing is worked on, those behind it are on their way, as many as a bounded memory holds."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

READERS = 8
"""How many calls are under way at once: an answer of the store takes some 20 ms to begin, and what answers hold little is many of them."""

HELD_BYTES = 8 << 20


def ahead(begun: Iterable[tuple[T, int]]) -> Iterator[T]:
    """Give what is begun, in order, each when those behind it have begun: up to `READERS` of them, or one that fills the memory.

    `begun` begins a thing when it is asked for it, and says how many bytes it will hold.
    """
    waiting: deque[tuple[T, int]] = deque()
    held = 0
    for item, size in begun:
        waiting.append((item, size))
        held += size
        while len(waiting) > 1 and (held > HELD_BYTES or len(waiting) > READERS):
            first, freed = waiting.popleft()
            held -= freed
            yield first
    while waiting:
        yield waiting.popleft()[0]
