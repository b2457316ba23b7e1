"""What the simulation is told, and what it writes down. Times are seconds since the beginning."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shared.core.records import Batch


class Work(NamedTuple):
    """A batch to come: so many lines of an organization, after so many seconds."""

    org: str
    lines: int
    window: int
    at: float = 0.0


@dataclass
class Voyage:
    """A batch on its way. `tokens` are by line."""

    batch: Batch
    work: Work
    tokens: Sequence[int]
    ended: float | None = None


@dataclass
class Log:
    """What happened. `serving` and `rows` are steps: at such a second, so many more."""

    serving: list[tuple[float, int]] = field(default_factory=list)
    rows: list[tuple[float, str, int]] = field(default_factory=list)
    lost: list[tuple[float, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
