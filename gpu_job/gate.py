"""A gate through which rows reach the engine: the more of its deaths a row was inside of, the fewer others are with it.

A row that was in the engine when it died is suspected. Were each of them run alone, the engine would be nearly empty for as long as hundreds of rows take
one after the other. So they go again in small companies first, and only who was inside of two deaths runs alone: another is then known to be its own.
The most suspected go first, and rows of different suspicion are never inside together.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isqrt


class Gate:
    """Lets rows in.

    Args:
        most: The most rows that are ever inside. The square root of it is a company: there are as many of them then as rows in one.

    """

    def __init__(self, most: int) -> None:
        self._rooms = (most, isqrt(most), 1)
        self._inside: Counter[int] = Counter()
        self._waiting: Counter[int] = Counter()
        self._changed = asyncio.Event()  # set and replaced at every change

    @asynccontextmanager
    async def inside(self, deaths: int) -> AsyncIterator[None]:
        """Be inside, as a row that was inside of so many deaths; waits for those inside, and for more suspected ones that wait."""
        rank = min(deaths, len(self._rooms) - 1)
        self._waiting[rank] += 1
        try:
            while not self._may_enter(rank):
                await self._changed.wait()
        finally:
            self._waiting[rank] -= 1
            self._notify()
        self._inside[rank] += 1
        try:
            yield
        finally:
            self._inside[rank] -= 1
            self._notify()

    def _may_enter(self, rank: int) -> bool:
        if any(self._waiting[higher] for higher in range(rank + 1, len(self._rooms))):
            return False
        return self._inside[rank] < self._rooms[rank] and self._inside[rank] == self._inside.total()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
