"""A form that adds a part to an upload: one field, `data`, whose bytes go straight on."""

from collections.abc import Callable

from functions.api.multipart import FormReader, PartBegan, PartEnded
from shared.core.errors import Refused
from shared.services.part_intake import Part, PartIntake

DATA = "data"


class PartForm:
    """Takes the body of one request. Every method may raise Refused; then, or when the body breaks off, call `abort`."""

    def __init__(self, boundary: bytes, begin: Callable[[], PartIntake]) -> None:
        self._reader = FormReader(boundary)
        self._begin = begin
        self._intake: PartIntake | None = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        for event in self._reader.feed(data):
            if isinstance(event, PartBegan):
                self._start(event.name)
            elif not isinstance(event, PartEnded) and self._intake is not None:
                self._intake.write(event)

    def finish(self) -> Part:
        """Take the end of the body, and give the part that it made."""
        self._reader.finish()
        if self._intake is None:
            raise Refused("missing_required_parameter", f"Missing required field: {DATA!r}.", param=DATA)
        return self._intake.finish()

    def abort(self) -> None:
        """Leave nothing behind of a part that was not finished."""
        if self._intake is not None:
            self._intake.abort()

    def _start(self, name: str) -> None:
        if name != DATA:
            raise Refused("unknown_parameter", f"Unknown field: {name!r}. Leave it out.", param=name)
        if self._intake is not None:
            raise Refused("invalid_request", "The form has two parts. Add one at a time.", param=DATA)
        self._intake = self._begin()
