"""What a scan knows of the sections of a file: their outlines, which are small however long the sections are.

With the outline of its section a request is judged as with the section itself, and only what is the request's own is read for it: many requests of a large
section cost no more than as many plain ones. Outlines are in the index, so that a scan which goes on elsewhere finds them there.
"""

from typing import Any, NamedTuple

import msgspec

from shared.core import sectioned
from shared.core.beginnings import NOTHING, Opening
from shared.core.facts import Fact
from shared.core.request_line import (
    CONTENT,
    MAX_INTEGER,
    MODEL_CHARS,
    PROMPT,
    BadLine,
    Limits,
    LineError,
    RequestLine,
    decode,
    line_error,
    prompts,
    read,
)
from shared.core.sectioned import BODY, MESSAGES, METHOD, SECTION, URL, SectionLine, Span

MOST_SECTIONS = 20_000
"""Of one file: a few hundred bytes each are held while it is scanned."""

_CONTENTS = frozenset(name for name, *_ in CONTENT.values())
_END = b"}}"  # of the body and of the line


class Section(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The outline of a section.

    Attributes:
        line: Its physical number, from 1.
        place: Where it stands.
        id: Its name.
        url: The endpoint that it names.
        body: Its parameters, large values made small.
        sizes: The bytes that each parameter has in a plain line.
        messages: How many messages it has.
        prompts: How many prompts the `prompt` of it is.
        facts: What these hold that some contract refuses.
        openings: How the contents begin that it has, by their names: parameters, or messages, behind which more may follow.

    """

    line: int
    place: Span
    id: str
    url: str
    body: dict[str, Any]
    sizes: dict[str, int]
    messages: int
    prompts: int
    facts: int
    openings: dict[str, Opening]


class Expanded(NamedTuple):
    """A request of a section: what the plain line says, its length, the hashes of its beginning, and where the section stands."""

    request: RequestLine
    length: int
    prefixes: tuple[int, int]
    section: Span


class Sections:
    """Reads the lines of a sectioned file, behind the format, in their order. It holds the outlines; `keep` takes those of a scan that stopped."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held: dict[str, bytes] = {}
        self._last: Section | None = None
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Section)

    def keep(self, section: Section) -> None:
        """Hold the outline of a section."""
        self._held[section.id] = self._encoder.encode(section)

    def read(self, raw: bytes, line: int, place: Span) -> Section | Expanded | LineError:
        """Read a line (without its newline). The first thing wrong with it is its error."""
        value: dict[str, Any] = {}
        try:
            value = decode(raw)
            if sectioned.is_format(value):
                sectioned.check_format(value, first=False)
            if not sectioned.is_request(value):
                return self._begin(outline(sectioned.read_section(value), line, place))
            sectioned.check_request(value)
            section = self._find(sectioned.section_of(value))
            own, value = value.get(BODY), _outlined(section, value)
            return self._expanded(section, own, value, line)
        except BadLine as bad:
            return line_error(bad, line, value, self._limits)

    def _begin(self, section: Section) -> Section:
        if section.id in self._held:
            first = self._decoder.decode(self._held[section.id]).line
            message = f"lines {first} and {section.line} are sections of the same name"
            raise BadLine("invalid_request", message, SECTION)
        if len(self._held) >= MOST_SECTIONS:
            raise BadLine("invalid_request", f"the file has more than {MOST_SECTIONS} sections; split it", SECTION)
        self.keep(section)
        return section

    def _find(self, name: str) -> Section:
        if self._last is None or self._last.id != name:
            held = self._held.get(name)
            if held is None:
                raise BadLine("invalid_request", f"no line before names this `{SECTION}`, or it was refused", SECTION)
            self._last = self._decoder.decode(held)
        return self._last

    def _expanded(self, section: Section, own: object, flat: dict[str, Any], line: int) -> Expanded | LineError:
        length, prefixes = _measured(section, own, flat) if isinstance(own, dict) else (0, (0, 0))
        if length > self._limits.line_bytes:  # as of any line that is too long, nothing else is said of it
            message = f"with its section the line is longer than {self._limits.line_bytes} bytes"
            return LineError(line, "request_too_large", message)
        found = read(flat, self._limits, section.messages)
        answers = found.n * section.prompts if isinstance(own, dict) and PROMPT not in own else found.n
        found = msgspec.structs.replace(found, n=answers, facts=found.facts | Fact(section.facts))
        return Expanded(found, length, prefixes, section.place)


def outline(section: SectionLine, line: int, place: Span) -> Section:
    """Make the outline of a section."""
    members = section.body | ({MESSAGES: section.messages} if section.messages else {})
    written = {name: _member(name, value) for name, value in members.items()}
    contents = {name: data for name, data in written.items() if name in _CONTENTS}
    if MESSAGES in contents:
        contents[MESSAGES] = contents[MESSAGES].removesuffix(b"]")
    return Section(
        line,
        place,
        section.id,
        section.url,
        {name: _small(value) for name, value in section.body.items()},
        {name: len(data) for name, data in written.items()},
        len(section.messages),
        prompts(section.body.get(PROMPT)),
        section.facts,
        {name: Opening.of(data) for name, data in contents.items()},
    )


def _outlined(section: Section, request: dict[str, Any]) -> dict[str, Any]:
    """Give the plain line without the section's messages, and with its parameters made small."""
    target = {METHOD: "POST", URL: section.url}
    return sectioned.join(request, target, section.body, [] if section.messages else None)


def _measured(section: Section, own: dict[str, Any], flat: dict[str, Any]) -> tuple[int, tuple[int, int]]:
    """Give the length of the plain line, written without spaces, and the hashes of its beginning; `flat` is its outline.

    What is the section's was measured once; only what is the request's is written down here.
    """
    body: dict[str, Any] = flat[BODY]
    joined = section.messages > 0 and isinstance(body[MESSAGES], list)
    said = {name: value for name, value in body.items() if name in own}
    taken = [section.sizes[name] for name in body if name not in own and name != MESSAGES]
    more = b""
    if joined:
        said.pop(MESSAGES, None)
        more = (b"," if body[MESSAGES] else b"") + msgspec.json.encode(body[MESSAGES])[1:]
        taken.append(section.openings[MESSAGES].length + len(more))
    commas = len(taken) if said else max(len(taken) - 1, 0)
    length = len(msgspec.json.encode({**flat, BODY: said})) + sum(taken) + commas
    content = sectioned.content_of(flat[URL])
    if content in said:
        return length, NOTHING.then(_member(content, said[content]) + _END)
    return length, section.openings.get(content, NOTHING).then(more + _END)


def _member(name: str, value: object) -> bytes:
    return msgspec.json.encode({name: value})[1:-1]


def _small(value: object) -> object:
    """Give a value that is judged the same where a request takes it over, and is small."""
    if isinstance(value, str):
        return value[: MODEL_CHARS + 1]
    if isinstance(value, list):
        return value and [None]
    if isinstance(value, dict):
        return value and {"": None}
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-1, min(value, MAX_INTEGER + 1))
    return value
