"""When a request is repeated: growing waits, inside a patience, never before the server's Retry-After.

A Patience says what may be repeated and for how long; a Backoff is one such effort. The caller loops: try, and on a
CliError `rest(error)`, which sleeps, or raises the error where repeating is not allowed or the patience is at its end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpx

from cli.errors import AnswerError, CliError, NoAnswerError, UnreachableError

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0
SERVER_ERROR = 500
NOTHING_DONE = frozenset({429, 503})  # refused at the door: the request had no effect


@dataclass(frozen=True)
class Patience:
    """How long (seconds, from the first trouble on) and after what a request is repeated.

    `unreachable`: also while nothing takes the connection. `unsure`: also where it may have taken effect before, which
    is right for reads and for requests that do the same thing once however often they come.
    """

    seconds: float
    unreachable: bool
    unsure: bool

    def allows(self, error: CliError) -> bool:
        """Tell whether a request that met `error` may be sent again."""
        match error:
            case UnreachableError():
                return self.unreachable
            case NoAnswerError():
                return self.unsure
            case AnswerError(status=status, final=False):
                return status in NOTHING_DONE or (self.unsure and status >= SERVER_ERROR)
            case _:
                return False


ONCE = Patience(seconds=15, unreachable=False, unsure=True)
UPLOAD = Patience(seconds=15, unreachable=False, unsure=False)
PART = Patience(seconds=60, unreachable=True, unsure=True)
DOWNLOAD = Patience(seconds=60, unreachable=True, unsure=True)
POLL = Patience(seconds=600, unreachable=True, unsure=True)

Trouble = Callable[[CliError, float], None]
"""Told of an error and of the seconds until the next try."""


class Backoff:
    """The waits of one effort: 0.5 s, doubled up to 30 s, or what the server asks for if that is longer."""

    def __init__(
        self,
        patience: Patience,
        *,
        sleep: Callable[[float], None],
        clock: Callable[[], float],
        on_trouble: Trouble | None = None,
    ) -> None:
        self._patience = patience
        self._sleep = sleep
        self._clock = clock
        self._on_trouble = on_trouble
        self._wait = FIRST_WAIT
        self._since: float | None = None

    def rest(self, error: CliError) -> None:
        """Sleep until the request may be sent again, or raise `error` where it may not."""
        now = self._clock()
        if self._since is None:
            self._since = now
        asked = error.retry_after if isinstance(error, AnswerError) else None
        wait = max(self._wait, asked or 0.0)
        if not self._patience.allows(error) or now + wait > self._since + self._patience.seconds:
            raise error
        if self._on_trouble is not None:
            self._on_trouble(error, wait)
        self._sleep(wait)
        self._wait = min(2 * self._wait, LONGEST_WAIT)

    def progressed(self) -> None:
        """Begin anew: something came through since the last trouble."""
        self._wait = FIRST_WAIT
        self._since = None


def retry_after(headers: httpx.Headers) -> float | None:
    """Read Retry-After as seconds; a date counts from the answer's own Date, so that two clocks need not agree."""
    value = headers.get("retry-after", "")
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        until = parsedate_to_datetime(value)
        return max(0.0, (until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (ValueError, TypeError):  # neither form, no Date, or one of the two without a time zone
        return None
