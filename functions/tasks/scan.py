"""Scan: a file that was too large for its upload to wait is put together and scanned. The upload asks for it; what is left after one call, the next does.

Should a call be lost, the sweep asks again, and Validate does the work of a file that a batch names.
"""

import msgspec

from functions.tasks.wiring import Services, entry
from shared.core.errors import NotFound
from shared.core.ids import Space

SECONDS = 600.0
"""How long one call works; its Lambda may take 900 s, and the longest single step is far shorter than what is left."""


class Event(msgspec.Struct, frozen=True):
    """Which file: `<org>/<contract>`, and its id."""

    space: str
    file: str


def scan(services: Services, event: Event) -> dict[str, str]:
    """Work on the file."""
    org, contract = event.space.split("/")
    space = Space(org, contract)
    try:
        file = services.scans.advance(space, event.file, until=services.clock() + SECONDS)
    except NotFound:  # it was deleted
        return {"status": "gone"}
    if file.pending is not None and not file.pending.touched:
        services.scan_starter.start(space, event.file)
    return {"status": file.status}


handler = entry(scan, Event)
