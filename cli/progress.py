"""How fast a batch goes and how long it will take, from what was seen while looking at it."""

from collections import deque
from typing import NamedTuple

from cli.wire import Batch

WINDOW = 60.0  # seconds of looking back: long enough to smooth chunks, short enough to notice a lost worker


class Sample(NamedTuple):
    """What was known at one moment; `tokens` is None where the server did not say."""

    at: float
    rows: int
    tokens: int | None


class Pace:
    """The speed over the last minute of running."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()
        self._running = False
        self._left = 0

    def see(self, batch: Batch, at: float) -> None:
        """Take in a look at the batch at `at` (seconds, of any one clock). Time before it runs does not count."""
        counts = batch.counts
        running = batch.status == "in_progress"
        if not (running and self._running):
            self._samples.clear()
        self._running = running
        tokens = batch.usage.total_tokens if batch.usage else None
        self._samples.append(Sample(at, counts.completed + counts.failed, tokens))
        self._left = counts.total - counts.completed - counts.failed
        while len(self._samples) > 2 and self._samples[1].at <= at - WINDOW:  # noqa: PLR2004 - a speed needs two samples
            self._samples.popleft()

    @property
    def rows_per_second(self) -> float | None:
        """Rows a second, None before two looks."""
        first, last = self._samples[0], self._samples[-1]
        return (last.rows - first.rows) / (last.at - first.at) if last.at > first.at else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second, in and out, None where usage is not known."""
        first, last = self._samples[0], self._samples[-1]
        if first.tokens is None or last.tokens is None or last.at <= first.at:
            return None
        return (last.tokens - first.tokens) / (last.at - first.at)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last row at this speed, None while it cannot be told."""
        rows = self.rows_per_second
        return self._left / rows if rows else None


def describe(batch: Batch, pace: Pace) -> str:
    """Say in one line how the batch stands, e.g. `in_progress  120/1000 rows, 2 failed, 40.0 rows/s, 0:00:22 left`."""
    counts = batch.counts
    status = f"{batch.status} ({batch.reason})" if batch.reason else batch.status
    if not counts.total:
        return status
    words = [f"{counts.completed + counts.failed}/{counts.total} rows"]
    if counts.failed:
        words.append(f"{counts.failed} failed")
    if batch.status == "in_progress":
        if rows := pace.rows_per_second:
            words.append(f"{rows:.1f} rows/s")
        if tokens := pace.tokens_per_second:
            words.append(f"{tokens:.0f} tokens/s")
        if (left := pace.seconds_left) is not None:
            words.append(f"{duration(left)} left")
    return f"{status}  {', '.join(words)}"


def duration(seconds: float) -> str:
    """Write seconds as h:mm:ss, e.g. 0:01:30."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"
