"""A part of an upload while it comes in: its bytes go to the store in flat memory, and nothing is there before the part is whole."""

from typing import NamedTuple

from shared.core.errors import Refused
from shared.services.object_writer import ObjectWriter

PART_BYTES = 64 << 20
"""Of one part; what carries the requests may take less."""


class Part(NamedTuple):
    """A part that was added."""

    id: str
    upload_id: str
    created_at: int


class PartIntake:
    """One part on its way in; ends with `finish` or `abort`."""

    def __init__(self, part: Part, content: ObjectWriter) -> None:
        self._part = part
        self._content = content
        self._finished = False

    def write(self, data: bytes) -> None:
        """Take the next bytes. Refused `body_too_large`."""
        if self._content.size + len(data) > PART_BYTES:
            raise Refused("body_too_large", f"A part has at most {PART_BYTES} bytes. Send smaller parts.", param="data")
        self._content.write(data)

    def finish(self) -> Part:
        """Make the part be there, and give it."""
        self._finished = True
        self._content.close()
        return self._part

    def abort(self) -> None:
        """Leave nothing behind of a part that was not finished."""
        if not self._finished:
            self._content.abort()
