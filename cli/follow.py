"""The rows of a batch as they are finished, each once."""

from collections.abc import Callable

from cli.client import Client
from cli.errors import CliError
from cli.retry import ONCE, POLL
from cli.screen import Screen
from cli.watch import FIRST_INTERVAL, GROWTH, LONGEST_INTERVAL


def follow(client: Client, batch_id: str, screen: Screen, *, sleep: Callable[[float], None], to_the_end: bool) -> str:
    """Write the rows that there are, and with `to_the_end` those that come until the batch has ended; give its status.

    Raises CliError as `watch.watch` does.
    """

    def trouble(error: CliError, wait: float) -> None:
        screen.note(f"{error.what}; asking again in {wait:g} s")

    after: str | None = None
    interval = FIRST_INTERVAL
    while True:
        page = client.results(batch_id, after, patience=POLL if after else ONCE, on_trouble=trouble)
        for row in page.data:
            screen.row(bytes(row))
        if page.next is None or not (page.has_more or to_the_end):
            return page.status
        after = page.next
        if page.data:
            interval = FIRST_INTERVAL
        if not page.has_more:
            sleep(interval)
            interval = min(interval * GROWTH, LONGEST_INTERVAL)
