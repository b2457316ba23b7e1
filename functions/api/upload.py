"""A form that uploads a file: its fields in any order around the file, whose bytes go straight on to the intake."""

from typing import Protocol

from functions.api.multipart import FormReader, PartBegan, PartEnded
from functions.api.query import DIGITS
from shared.core.errors import Refused
from shared.core.records import File
from shared.services.intake import Intake

FILE = "file"
PURPOSE = "purpose"
ANCHOR = "expires_after[anchor]"
SECONDS = "expires_after[seconds]"
FIELDS = frozenset({PURPOSE, ANCHOR, SECONDS})
FIELD_BYTES = 1024


class Begin(Protocol):
    """Begins the intake of a file, once its name is known."""

    def __call__(self, *, filename: str | None, purpose: str | None) -> Intake:
        """Give the intake; Refused when the name or the purpose is."""


class Upload:
    """Takes the body of one request. Every method may raise Refused; then, or when the body breaks off, call `abort`.

    Args: `plain_seconds` is the field, where there is one, that says in plain seconds how long the file is to live.
    """

    def __init__(self, boundary: bytes, begin: Begin, plain_seconds: str | None = None) -> None:
        self._reader = FormReader(boundary)
        self._begin = begin
        self._plain_seconds = plain_seconds
        self._known = FIELDS if plain_seconds is None else FIELDS | {plain_seconds}
        self._intake: Intake | None = None
        self._fields: dict[str, bytearray] = {}
        self._part = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        for event in self._reader.feed(data):
            if isinstance(event, PartBegan):
                self._start(event)
            elif isinstance(event, PartEnded):
                self._part = ""
            else:
                self._take(event)

    def finish(self) -> File:
        """Take the end of the body, and give the file that it made."""
        self._reader.finish()
        if self._intake is None:
            raise Refused("missing_required_parameter", "Missing required field: 'file'.", param=FILE)
        return self._intake.finish(purpose=self._field(PURPOSE), expires_after=self._expires_after())

    def abort(self) -> None:
        """Leave nothing behind of a file that was not finished."""
        if self._intake is not None:
            self._intake.abort()

    def _start(self, part: PartBegan) -> None:
        if part.name == FILE:
            if self._intake is not None:
                raise Refused("invalid_request", "The form has two files. Upload one at a time.", param=FILE)
            self._intake = self._begin(filename=part.filename, purpose=self._field(PURPOSE))
        elif part.name not in self._known:
            raise Refused("unknown_parameter", f"Unknown field: {part.name!r}. Leave it out.", param=part.name)
        elif part.name in self._fields:
            raise Refused("invalid_request", f"The form has two fields {part.name!r}.", param=part.name)
        else:
            self._fields[part.name] = bytearray()
        self._part = part.name

    def _take(self, data: bytes) -> None:
        if self._part == FILE and self._intake is not None:
            self._intake.write(data)
            return
        field = self._fields[self._part]
        field += data
        if len(field) > FIELD_BYTES:
            raise Refused("invalid_request", f"The field {self._part!r} is too long.", param=self._part)

    def _field(self, name: str) -> str | None:
        value = self._fields.get(name)
        return None if value is None else value.decode(errors="replace")

    def _expires_after(self) -> int | None:
        anchor, seconds = self._field(ANCHOR), self._field(SECONDS)
        plain = None if self._plain_seconds is None else self._field(self._plain_seconds)
        if anchor is None and seconds is None:
            return None if plain is None else _integer(plain, self._plain_seconds)
        if plain is not None:
            message = f"Send {self._plain_seconds!r} or 'expires_after', not both."
            raise Refused("invalid_request", message, param=self._plain_seconds)
        if anchor != "created_at":
            raise Refused("invalid_request", f"{ANCHOR!r} must be created_at.", param=ANCHOR)
        return _integer(seconds, SECONDS)


def _integer(value: str | None, name: str | None) -> int:
    if value is None or not value.isascii() or not value.isdecimal() or len(value) > DIGITS:
        raise Refused("invalid_request", f"{name!r} must be an integer.", param=name)
    return int(value)
