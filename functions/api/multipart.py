"""A multipart/form-data body, read as it streams by: nothing of it is kept, whatever its size.

The parts come out as events, in the order of the body. Names of files are read as browsers, curl and SDKs write them: quoted with escapes,
as raw UTF-8, or as RFC 5987 has it (`filename*`), which wins where both stand; a path before the name is dropped.
"""

import re
from email.message import Message
from email.utils import collapse_rfc2231_value
from typing import NamedTuple

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from shared.core.errors import Refused

_CHARSETS = frozenset({"utf-8", "iso-8859-1", "us-ascii"})
_WHATWG_ESCAPES = {"%22": '"', "%0D": "\r", "%0A": "\n"}


class PartBegan(NamedTuple):
    """A part begins. `filename` is None for a plain field."""

    name: str
    filename: str | None


class PartEnded(NamedTuple):
    """The part is whole."""


Event = PartBegan | bytes | PartEnded
"""`bytes` are the next bytes of the part that began last."""


def boundary(content_type: str | None) -> bytes:
    """Read the boundary. Refused `unsupported_media_type` for another type of body, `invalid_request` without a boundary."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        raise Refused("unsupported_media_type", "Send the file as multipart/form-data.")
    found = options.get(b"boundary", b"")
    if not found:
        raise Refused("invalid_request", "The Content-Type header has no boundary.")
    return found


class FormReader:
    """Feed it the body; it gives the events that the bytes complete. Refused `invalid_request` when the body is malformed."""

    def __init__(self, boundary: bytes) -> None:
        self._events: list[Event] = []
        self._header = bytearray()
        self._value = bytearray()
        self._disposition: bytes | None = None
        self._ended = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
            )
        except FormParserError:
            raise _malformed("its boundary is too long") from None

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes of the body."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise _malformed("a boundary or a header of a part is broken") from None
        events, self._events = self._events, []
        return events

    def finish(self) -> None:
        """Take the end of the body."""
        if not self._ended:
            raise _malformed("it ends before its last boundary")

    def _on_part_begin(self) -> None:
        self._disposition = None

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        if self._disposition is None:
            raise _malformed("a part has no Content-Disposition")
        self._events.append(_part(self._disposition))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(data[start:end])

    def _on_part_end(self) -> None:
        self._events.append(PartEnded())

    def _on_end(self) -> None:
        self._ended = True


def _part(disposition: bytes) -> PartBegan:
    try:
        text = disposition.decode()
    except UnicodeDecodeError:
        text = disposition.decode("latin-1")
    message = Message()
    message["content-disposition"] = text
    # The last of a name wins: `filename*` comes after `filename`, whatever their order in the header.
    found = dict(message.get_params([], "content-disposition"))
    if "form-data" not in found or "name" not in found:
        raise _malformed("the Content-Disposition of a part has no name")
    filename = found.get("filename")
    return PartBegan(_text(found["name"]), None if filename is None else _last(_text(filename)))


def _text(value: str | tuple[str | None, str | None, str]) -> str:
    if isinstance(value, tuple):
        # Python would take any codec for a charset; some of them decode no text, others give what cannot be encoded again.
        if (value[0] or "us-ascii").lower() not in _CHARSETS:
            raise _malformed("a name in it has another charset than UTF-8")
        return collapse_rfc2231_value(value, errors="replace")
    return re.sub("%22|%0D|%0A", lambda found: _WHATWG_ESCAPES[found[0]], value)


def _last(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _malformed(why: str) -> Refused:
    return Refused("invalid_request", f"The multipart body is malformed: {why}.")
