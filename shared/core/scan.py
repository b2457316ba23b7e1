r"""The scan of an input file: one pass over its bytes as they stream by.

A scan knows bytes and lines, not the batch. It yields an index of the file: for each line where it is and what Validate and Plan need to
know of it, or the error that stands on its own. What depends on the batch (endpoint, model, limits of the contract) is judged from the index, so
that the file is never read again for it.

Rules of lines: split on `\n` only; a trailing `\r` and a UTF-8 byte order mark at the start are dropped; blank lines are skipped; line numbers are
physical, from 1. Bytes that are not UTF-8 refuse the file, since they mean a wrong encoding rather than a bad line.

The index is a sequence of frames, each a 4-byte big-endian length and that many bytes of MessagePack: a list of `Entry` and `LineError`.
"""

from collections.abc import Iterable, Iterator
from zlib import crc32

import msgspec

from shared.core.errors import Refused
from shared.core.request_line import Limits, LineError, RequestLine, parse
from shared.core.seen import SeenIds

FRAME_LINES = 512
HEADER_BYTES = 4
PREFIX_BYTES = (256, 1024, 4096)
_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\v\f"


class Entry(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """A line that can run.

    Attributes:
        line: Its physical number, from 1.
        offset: Where it begins in the file, in bytes.
        length: Its length without the newline.
        custom_id: The caller's name for it.
        url: The endpoint it names.
        model: The model it names.
        cap: The most output tokens it asks for; 0 where it names none.
        n: How many answers it asks for.
        prefixes: Hashes of the first bytes of its content, at `PREFIX_BYTES`; equal hashes mean a shared prompt prefix.

    """

    line: int
    offset: int
    length: int
    custom_id: str
    url: str
    model: str
    cap: int
    n: int
    prefixes: tuple[int, ...]


class Summary(msgspec.Struct, frozen=True):
    """What a finished scan found: bytes, lines that can run, lines that cannot."""

    bytes: int
    requests: int
    errors: int


class Scanner:
    """Feed it the file's bytes as they come; it yields frames of the index. Memory: one line, one frame, 16 bytes a line."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pending = bytearray()  # the beginning of a line whose newline has not come yet
        self._skipped = 0  # bytes of an over-long line that were not kept
        self._offset = 0  # of the pending line
        self._line = 0
        self._requests = 0
        self._errors = 0
        self._seen = SeenIds()
        self._frame: list[Entry | LineError] = []
        self._encoder = msgspec.msgpack.Encoder()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes; yield the frames that they complete. Refused `invalid_encoding` when they are not UTF-8."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            if self._pending or self._skipped:
                self._keep(data[start:end])
                self._take(bytes(self._pending))
                self._pending.clear()
            else:
                self._take(data[start:end])
            start = end + 1
            if len(self._frame) >= FRAME_LINES:
                yield self._flush()
        self._keep(data[start:])

    def finish(self) -> Iterator[bytes]:
        """Take the end of the file; yield the last frame. Refused `empty_file` when there was no line in it."""
        if self._pending or self._skipped:
            self._take(bytes(self._pending))
            self._offset -= 1  # there was no newline
            self._pending.clear()
        if not self._requests + self._errors:
            raise Refused("empty_file", "the file has no request lines", param="file")
        if self._frame:
            yield self._flush()

    @property
    def summary(self) -> Summary:
        """What was found; true once `finish` has run."""
        return Summary(self._offset, self._requests, self._errors)

    def _keep(self, data: bytes) -> None:
        # An over-long line is refused by its length alone, so no more of it is kept than shows that it is too long.
        room = self._limits.line_bytes + 2 - len(self._pending)
        self._pending += data[:room]
        self._skipped += max(0, len(data) - room)

    def _take(self, raw: bytes) -> None:
        self._line += 1
        offset, length = self._offset, len(raw) + self._skipped
        self._offset += length + 1
        self._skipped = 0
        if self._line == 1 and raw.startswith(_BOM):
            raw, offset, length = raw[3:], offset + 3, length - 3
        if raw.endswith(b"\r"):
            raw, length = raw[:-1], length - 1
        if not raw.strip(_BLANK):
            return
        if length > self._limits.line_bytes:
            self._add(
                LineError(self._line, "request_too_large", f"the line is longer than {self._limits.line_bytes} bytes")
            )
            return
        found = parse(raw, self._line, self._limits)
        if isinstance(found, LineError) and found.code == "invalid_json_line":
            _check_encoding(raw, self._line)
        self._add(self._duplicate(found) or self._entry(found, raw, offset, length))

    def _duplicate(self, found: RequestLine | LineError) -> LineError | None:
        if not found.custom_id:
            return None
        first = self._seen.first_line(found.custom_id, self._line)
        if first == self._line or isinstance(found, LineError):
            return None
        message = f"lines {first} and {self._line} have the same custom_id"
        return LineError(self._line, "duplicate_custom_id", message, "custom_id", found.custom_id)

    def _entry(self, found: RequestLine | LineError, raw: bytes, offset: int, length: int) -> Entry | LineError:
        if isinstance(found, LineError):
            return found
        return Entry(
            self._line, offset, length, found.custom_id, found.url, found.model, found.cap, found.n, _prefixes(raw)
        )  # fmt: skip

    def _add(self, item: Entry | LineError) -> None:
        if isinstance(item, Entry):
            self._requests += 1
        else:
            self._errors += 1
        self._frame.append(item)

    def _flush(self) -> bytes:
        body = self._encoder.encode(self._frame)
        self._frame.clear()
        return len(body).to_bytes(HEADER_BYTES, "big") + body


def _check_encoding(raw: bytes, line: int) -> None:
    try:
        raw.decode()
    except UnicodeDecodeError:
        raise Refused(
            "invalid_encoding", f"the file is not UTF-8 (line {line}); save it as UTF-8", param="file"
        ) from None


def _prefixes(raw: bytes) -> tuple[int, ...]:
    # Content begins at the first of these keys; what stands before it (custom_id, model) differs from line to line.
    start = max(raw.find(b'"messages"'), raw.find(b'"prompt"'), raw.find(b'"input"'), 0)
    hashes, done, value = [], 0, 0
    for size in PREFIX_BYTES:
        value = crc32(raw[start + done : start + size], value)
        hashes.append(value)
        done = size
    return tuple(hashes)


def _frame_bytes(pending: bytearray) -> int:
    return HEADER_BYTES + int.from_bytes(pending[:HEADER_BYTES], "big")


_FRAME = msgspec.msgpack.Decoder(list[Entry | LineError])


def entries(chunks: Iterable[bytes]) -> Iterator[Entry | LineError]:
    """Read an index back, from its bytes in pieces of any size, in line order."""
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        while len(pending) >= HEADER_BYTES and len(pending) >= (size := _frame_bytes(pending)):
            yield from _FRAME.decode(bytes(pending[HEADER_BYTES:size]))
            del pending[:size]
