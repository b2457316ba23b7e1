"""Windows and waits, and how fast they pass.

A local stack may let them pass `scale` times faster, to try out expiry: every window and every wait is divided by it, the clock is not touched.
"""

import msgspec

TICK = 300
DRAIN = 25


class Timing(msgspec.Struct, frozen=True):
    """The lengths of windows and waits in this deployment."""

    scale: float = 1.0

    def seconds(self, length: float) -> int:
        """Give a window or wait of `length` seconds as whole seconds to use, at least 1."""
        return max(1, round(length / self.scale))

    def tick(self, now: float, deadline: float) -> int:
        """Give how long a state that waits sleeps before it looks again by itself: at most to the deadline."""
        return max(1, min(self.seconds(TICK), int(deadline - now) + 1))
