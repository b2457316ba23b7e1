"""Windows and waits, and how fast they pass.

A local stack may let them pass `scale` times faster, to try out expiry: every window and every wait is divided by it, the clock is not touched.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.core import assignment
from shared.core.contract import DAY, Contract
from shared.core.contracts import CONTRACTS
from shared.core.records import Batch

TICK = 300
FORECAST_TICK = 900
"""How long a state that waits sleeps at most where no deadline ends the wait."""

DRAIN = 25


class Timing(msgspec.Struct, frozen=True):
    """The lengths of windows and waits in this deployment."""

    scale: float = 1.0

    def seconds(self, length: float) -> int:
        """Give a window or wait of `length` seconds as whole seconds to use, at least 1."""
        return max(1, round(length / self.scale))

    def tick(self, now: float, batch: Batch) -> int:
        """Give how long a state that waits for a batch sleeps before it looks again by itself: at most to the batch's deadline."""
        if not CONTRACTS[batch.contract].deadline_stops:
            return self.seconds(FORECAST_TICK)
        return max(1, min(self.seconds(TICK), int(batch.expires_at - now) + 1))

    def expires_at(self, contract: Contract, window: str, metadata: Mapping[str, Any] | None, now: int) -> int:
        """Give when a batch of this window expires that is made `now`; an assignment in its metadata can only shorten its time."""
        ends = [now + self.seconds(contract.windows[window])]
        length = assignment.window(metadata or {})
        deadline = assignment.deadline(metadata or {})
        if length is not None:
            ends.append(now + self.seconds(length))
        if deadline is not None:
            ends.append(deadline)
        return min(ends)

    def urgent_at(self, batch: Batch) -> int:
        """Give from when on a batch is urgent: a day before it expires, which is at once where its window is no longer."""
        return batch.expires_at - self.seconds(DAY)


def is_overdue(batch: Batch, now: float) -> bool:
    """Whether the batch's deadline has passed, and is one that stops it."""
    return CONTRACTS[batch.contract].deadline_stops and now >= batch.expires_at


def input_until(batch: Batch, now: int) -> int | None:
    """Give when the input of a batch expires that ends now; None: its time is what it was."""
    return now if CONTRACTS[batch.contract].input_ends_with_batch else None
