r"""The scan of an input file: one pass over its bytes as they stream by.

A scan knows bytes and lines, not the batch. It yields an index of the file: for each line where it is and what Validate and Plan need to
know of it, or the error that stands on its own. What depends on the batch (endpoint, model, limits of the contract) is judged from the index, so
that the file is never read again for it.

A file of more lines than its contract takes fails every batch, which the lines so far show; it is not read on for long.

Rules of lines: split on `\n` only; a trailing `\r` and a UTF-8 byte order mark at the start are dropped; a line that is too long is refused for its length,
whatever is in it; blank lines are skipped; line numbers are physical, from 1. Bytes that are not UTF-8 refuse the file, since they mean a wrong encoding
rather than a bad line.

The index is a sequence of frames, each a 4-byte big-endian length and that many bytes of MessagePack: a list of `Entry`, `LineError` and, in a sectioned
file, `Section` (`shared.core.sectioned`). The line that says the format has none, nor have blank lines.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from shared.core import beginnings, plain_chat, sectioned
from shared.core.errors import Refused
from shared.core.outlines import Section, Sections
from shared.core.plain_chat import PlainChat
from shared.core.records import Position
from shared.core.request_line import BadLine, Limits, LineError, RequestLine, decode, line_error, parse
from shared.core.sectioned import Span
from shared.core.seen import SeenIds

FRAME_LINES = 512
HEADER_BYTES = 4
BEGINNING = Position()
MOSTLY_ODD = 50
_BOM = b"\xef\xbb\xbf"


class Entry(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
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
        prefixes: Hashes of the first bytes of its content, at the lengths of `beginnings`; equal hashes mean a shared prompt prefix.
        facts: What it holds that some contract refuses (`shared.core.facts.Fact`).
        logprobs: How many log probabilities a token it asks for.
        section: Where the section stands that it is of; None: it is a plain line.
        expanded: How long the plain line is that it stands for, with a section.

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
    facts: int = 0
    logprobs: int = 0
    section: Span | None = None
    expanded: int = 0

    @property
    def size(self) -> int:
        """The length of the whole request."""
        return self.length if self.section is None else self.expanded


Item = Entry | LineError | Section


class Summary(msgspec.Struct, frozen=True):
    """What a finished scan found: bytes, lines that can run, lines that cannot."""

    bytes: int
    requests: int
    errors: int


class Scanner:
    """Feed it the file's bytes as they come; it yields frames of the index. Memory: one line, one frame, 16 bytes a line, the outlines of sections.

    A scan may go on where another one stopped: at its `position`, told with `remember` which custom_ids the lines before it have used, and their sections.
    """

    def __init__(self, limits: Limits, start: Position = BEGINNING) -> None:
        self._limits = limits
        self._pending = bytearray()  # the beginning of a line whose newline has not come yet
        self._skipped = 0  # bytes of an over-long line that were not kept
        self._offset = start.offset  # of the pending line
        self._line = start.line
        self._requests = start.requests
        self._errors = start.errors
        self._seen = SeenIds()
        self._odd = 0  # lines that were no plain chats, less those that were
        self._sections = Sections(limits) if start.sectioned else None
        self._frame: list[Item] = []
        self._encoder = msgspec.msgpack.Encoder()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take the next bytes; yield the frames that they complete. Refused `invalid_encoding` when they are not UTF-8."""
        if self._is_over():
            self._offset += len(data)
            return
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
                if self._is_over():
                    self._offset += len(data) - start
                    return
        self._keep(data[start:])

    def remember(self, index: Iterable[Item]) -> None:
        """Take the index of the lines before the start."""
        for item in index:
            if isinstance(item, Section):
                if self._sections is not None:
                    self._sections.keep(item)
            elif item.custom_id:
                self._seen.first_line(item.custom_id, item.line)

    def pause(self) -> Iterator[bytes]:
        """Yield the frame of the lines so far, so that the index holds every line before `position`."""
        if self._frame:
            yield self._flush()

    @property
    def position(self) -> Position:
        """Where a scan goes on that is given the bytes from `position.offset` on."""
        return Position(
            offset=self._offset,
            line=self._line,
            requests=self._requests,
            errors=self._errors,
            sectioned=self.sectioned,
        )

    @property
    def sectioned(self) -> bool:
        """Whether the file is a sectioned one, as its first line says."""
        return self._sections is not None

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

    def _is_over(self) -> bool:
        """Whether there were more lines than can be run: nothing behind them matters. Asked once a frame only."""
        return self._requests + self._errors > self._limits.lines

    def _keep(self, data: bytes) -> None:
        # No more of an over-long line is kept than shows that it is too long, even after a byte order mark and a `\r` are dropped.
        room = self._limits.line_bytes + len(_BOM) + 1 - len(self._pending)
        self._pending += data[:room]
        self._skipped += max(0, len(data) - room)

    def _take(self, raw: bytes) -> None:
        self._line = line = self._line + 1
        offset, skipped = self._offset, self._skipped
        self._offset = offset + len(raw) + skipped + 1
        self._skipped = 0
        if line == 1 and raw.startswith(_BOM):
            raw, offset = raw[len(_BOM) :], offset + len(_BOM)
        if raw.endswith(b"\r"):
            raw = raw[:-1]
        if skipped or len(raw) > self._limits.line_bytes:
            message = f"the line is longer than {self._limits.line_bytes} bytes"
            self._refuse(LineError(line, "request_too_large", message))
        elif raw and not raw.isspace():
            if self._sections is not None:
                self._take_of(self._sections, raw, line, offset)
                return
            found = self._plain(raw) or parse(raw, line, self._limits)
            if not isinstance(found, LineError):
                self._accept(found, line, offset, len(raw), beginnings.hashes(raw, found.url))
            elif found.code == "missing_required_parameter":
                self._take_stray(found, decode(raw), line)
            else:
                self._refuse_text(found, raw)

    def _plain(self, raw: bytes) -> PlainChat | None:
        # In a file of other lines, trying would be a decode too many for each of them.
        if self._odd > MOSTLY_ODD:
            return None
        found = plain_chat.read(raw, self._limits.custom_id_chars)
        self._odd += 1 if found is None else -1
        return found

    def _take_of(self, sections: Sections, raw: bytes, line: int, offset: int) -> None:
        found = sections.read(raw, line, Span(offset, len(raw)))
        if isinstance(found, Section):
            self._frame.append(found)
        elif isinstance(found, LineError):
            self._refuse_text(found, raw)
        else:
            self._accept(
                found.request, line, offset, len(raw), found.prefixes, section=found.section, expanded=found.length
            )

    def _take_stray(self, found: LineError, value: dict[str, Any], line: int) -> None:
        """Take a line that is no request: it may say the format of the file."""
        if not sectioned.is_format(value):
            self._refuse(sectioned.hint(value, found))
            return
        first = not self._requests + self._errors
        if first and not self._limits.sectioned:
            message = "sectioned files are not taken here; write every request whole, on a line of its own"
            raise Refused("invalid_file_format", message, param="file")
        if first:
            self._sections = Sections(self._limits)
        try:
            sectioned.check_format(value, first=first)
        except BadLine as bad:
            self._refuse(line_error(bad, line, value, self._limits))

    def _accept(
        self,
        found: RequestLine | PlainChat,
        line: int,
        offset: int,
        length: int,
        prefixes: tuple[int, int],
        *,
        section: Span | None = None,
        expanded: int = 0,
    ) -> None:
        custom_id = found.custom_id
        first = self._seen.first_line(custom_id, line)
        if first != line:
            message = f"lines {first} and {line} have the same custom_id"
            self._refuse(LineError(line, "duplicate_custom_id", message, "custom_id", custom_id))
            return
        self._requests += 1
        self._frame.append(
            Entry(
                line,
                offset,
                length,
                custom_id,
                found.url,
                found.model,
                found.cap,
                found.n,
                prefixes,
                found.facts,
                found.logprobs,
                section,
                expanded,
            )
        )

    def _refuse_text(self, found: LineError, raw: bytes) -> None:
        self._refuse(found)
        if found.code == "invalid_json_line":
            _check_encoding(raw, found.line)

    def _refuse(self, error: LineError) -> None:
        if error.custom_id:  # a line that is refused has used its id all the same
            self._seen.first_line(error.custom_id, self._line)
        self._errors += 1
        self._frame.append(error)

    def _flush(self) -> bytes:
        body = self._encoder.encode(self._frame)
        self._frame.clear()
        return len(body).to_bytes(HEADER_BYTES, "big") + body


def _check_encoding(raw: bytes, line: int) -> None:
    # Plain text in UTF-16 or UTF-32 without a mark is good UTF-8 with a NUL beside every character: the first one gives it away.
    if line == 1 and 0 in raw[:2]:
        raise _not_utf8(line)
    try:
        raw.decode()
    except UnicodeDecodeError:
        raise _not_utf8(line) from None


def _not_utf8(line: int) -> Refused:
    return Refused("invalid_encoding", f"the file is not UTF-8 (line {line}); save it as UTF-8", param="file")


def _frame_bytes(pending: bytearray) -> int:
    return HEADER_BYTES + int.from_bytes(pending[:HEADER_BYTES], "big")


_FRAME = msgspec.msgpack.Decoder(list[Item])


def entries(chunks: Iterable[bytes]) -> Iterator[Item]:
    """Read an index back, from its bytes in pieces of any size, in line order. ValueError when its end is missing."""
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        while len(pending) >= HEADER_BYTES and len(pending) >= (size := _frame_bytes(pending)):
            yield from _FRAME.decode(bytes(pending[HEADER_BYTES:size]))
            del pending[:size]
    if pending:
        raise ValueError("the index of the file is cut off: scan the file again")
