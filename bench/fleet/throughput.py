"""An engine as a model of throughput: with n rows inside it writes each at the same speed, its own best over n, but no faster than one stream goes."""

from heapq import heappop, heappush
from typing import Generic, TypeVar

R = TypeVar("R")

ENGINE = 2500.0
"""Tokens a second that an engine writes at its best."""
STREAM = 30.0
"""Tokens a second of one row, at the most."""


class Engine(Generic[R]):
    """The model: every row inside has been served as much as any other, since it came in."""

    def __init__(self) -> None:
        self.inside: list[tuple[float, int, R, int]] = []
        self._served = 0.0
        self._at = 0.0
        self._number = 0

    def add(self, now: float, tokens: int, run: R, position: int) -> None:
        """Take a row in."""
        self._advance(now)
        self._number += 1
        heappush(self.inside, (self._served + tokens, self._number, run, position))

    def finished(self, now: float) -> list[tuple[R, int]]:
        """Let the rows out that are finished."""
        self._advance(now)
        out = []
        while self.inside and self.inside[0][0] <= self._served + 1e-6:
            _, _, run, position = heappop(self.inside)
            out.append((run, position))
        return out

    def next(self) -> float:
        """Give when the next row will be finished."""
        return self._at + (self.inside[0][0] - self._served) / self._speed() if self.inside else float("inf")

    def _speed(self) -> float:
        return min(STREAM, ENGINE / len(self.inside))

    def _advance(self, now: float) -> None:
        if self.inside:
            self._served += (now - self._at) * self._speed()
        self._at = now
