"""Looking at a batch until it ends: often at first, then every 5 s; trouble on the way is told and waited out.

Stopping to look changes nothing about the batch, and whoever stops is told so.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from cli.client import Client
from cli.errors import CliError
from cli.progress import Pace, describe
from cli.retry import ONCE, POLL
from cli.screen import Screen, printable
from cli.wire import Batch

FIRST_INTERVAL = 0.5
LONGEST_INTERVAL = 5.0
GROWTH = 1.5


class Display(Protocol):
    """Something that shows how a batch stands."""

    def show(self, batch: Batch, pace: Pace) -> None:
        """Show the present state."""

    def trouble(self, error: CliError, wait: float) -> None:
        """Show that the last look failed and that the next is `wait` seconds away."""


def watch(
    client: Client, batch_id: str, screen: Screen, *, sleep: Callable[[float], None], clock: Callable[[], float]
) -> Batch:
    """Return the batch once it has ended.

    Raises CliError when the first look fails, or when no later one succeeds for ten minutes; KeyboardInterrupt passes.
    """
    pace = Pace()
    interval = FIRST_INTERVAL
    seen = False
    try:
        with _display(screen) as display:
            while True:
                # A server that was never there is a mistake to tell at once; one that was there comes back.
                batch = client.batch(batch_id, patience=POLL if seen else ONCE, on_trouble=display.trouble)
                seen = True
                pace.see(batch, clock())
                display.show(batch, pace)
                if batch.ended:
                    return batch
                sleep(interval)
                interval = min(interval * GROWTH, LONGEST_INTERVAL)
    except (CliError, KeyboardInterrupt) as stop:
        if seen or isinstance(stop, KeyboardInterrupt):
            screen.note(f"batch {batch_id} goes on without this command; look again with: slackwater wait {batch_id}")
        raise


@contextmanager
def _display(screen: Screen) -> Iterator[Display]:
    if not screen.live:
        yield Lines(screen)
        return
    columns = (
        SpinnerColumn(),
        # Where the terminal is narrow, the words wrap; rich would shrink the bar and the time to nothing instead.
        TextColumn("{task.description}", markup=False, table_column=Column()),
        BarColumn(bar_width=20, table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=screen.err) as progress:
        yield Bar(progress, screen.err.encoding)


class Lines:
    """A line when the status, its reason or the whole percentage changed: at most some hundred lines a batch."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._shown: tuple[str, str | None, int] | None = None

    def show(self, batch: Batch, pace: Pace) -> None:
        """Write a line if there is news."""
        counts = batch.counts
        percent = 100 * (counts.completed + counts.failed) // counts.total if counts.total else 0
        news = (batch.status, batch.reason, percent)
        if news != self._shown:
            self._shown = news
            self._screen.note(describe(batch, pace))

    def trouble(self, error: CliError, wait: float) -> None:
        """Write a line each time: silence would look like waiting for the batch."""
        self._screen.note(_trouble(error, wait))


class Bar:
    """A bar that moves in place."""

    def __init__(self, progress: Progress, encoding: str) -> None:
        self._progress = progress
        self._encoding = encoding
        self._task = progress.add_task("", total=None)

    def show(self, batch: Batch, pace: Pace) -> None:
        """Move the bar; without a known total it only shows that something is alive."""
        counts = batch.counts
        self._progress.update(
            self._task,
            description=printable(describe(batch, pace), self._encoding),
            completed=counts.completed + counts.failed,
            total=counts.total or None,
        )

    def trouble(self, error: CliError, wait: float) -> None:
        """Say it in the bar's place until the next look."""
        self._progress.update(self._task, description=printable(_trouble(error, wait), self._encoding))


def _trouble(error: CliError, wait: float) -> str:
    return f"{error.what}; looking again in {wait:g} s"
