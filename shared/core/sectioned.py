"""Sectioned JSONL: what many requests share stands in their file once.

    {"format": "batchrouter.sectioned.v1"}
    {"section": "s", "method": "POST", "url": "/v1/chat/completions", "body": {shared parameters}, "messages": [first messages]}
    {"custom_id": "a", "section": "s", "body": {parameters and messages of its own}}

Rules:
- The format is the first line that is not blank, and no other. Behind it a line with a `custom_id` is a request, any other one a section.
- A request names a section of a line before it, and stands for the plain line that `expand` makes of both. What is judged of a line (its length, its
  fields and messages, what it costs, how it begins) is judged of that one; errors name its fields, so that `body.messages[3]` counts the section's too.
- What the request says wins: each field of its body, and its `method` and `url` where it has them. A limit of the answer by one name (`max_tokens`,
  `max_completion_tokens`) replaces one by another. Its messages follow the section's; with none of its own it has those alone.
- A section is refused for what no request could make good; what a request may replace is judged of each request. A section that is refused is none.
"""

from typing import Any, NamedTuple

import msgspec

from shared.core import facts
from shared.core.facts import Fact
from shared.core.request_line import (
    CAPS,
    CONTENT,
    MAX_DEPTH,
    NO_LIMITS,
    BadLine,
    LineError,
    RequestLine,
    check_fields,
    check_messages,
    check_target,
    decode,
    depth,
    line_error,
    read,
    short,
)

FORMAT = "batchrouter.sectioned.v1"
FORMAT_FIELD = "format"
CUSTOM_ID = "custom_id"
SECTION = "section"
METHOD = "method"
URL = "url"
BODY = "body"
MESSAGES = "messages"

ID_CHARS = 512


Shared = dict[str, Any]
"""A section, decoded and good."""


class Span(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a line stands in its file: from which byte on, and how many bytes there are without the newline."""

    offset: int
    length: int


class SectionLine(NamedTuple):
    """A good section: its name, its endpoint, its parameters, its messages, and what these hold that some contract refuses."""

    id: str
    url: str
    body: dict[str, Any]
    messages: list[Any]
    facts: Fact


def is_format(value: dict[str, Any]) -> bool:
    """Whether a line says the format of its file."""
    return FORMAT_FIELD in value and CUSTOM_ID not in value and SECTION not in value


def check_format(value: dict[str, Any], *, first: bool) -> None:
    """BadLine when the format is none that we know, or does not stand first."""
    if not first:
        raise BadLine("invalid_request", f"`{FORMAT_FIELD}` stands in the first line of a file, and once", FORMAT_FIELD)
    if value[FORMAT_FIELD] != FORMAT:
        raise BadLine("invalid_request", f"`{FORMAT_FIELD}` must be {FORMAT}", FORMAT_FIELD)


def hint(value: dict[str, Any], said: LineError) -> LineError:
    """Say of a line that is refused in a plain file what it lacks to be one of a section."""
    if SECTION not in value:
        return said
    message = f'{said.message}; a file with sections begins with the line {{"{FORMAT_FIELD}": "{FORMAT}"}}'
    return msgspec.structs.replace(said, message=short(message))


def is_request(value: dict[str, Any]) -> bool:
    """Whether a line is a request, and no section."""
    return CUSTOM_ID in value


def read_section(value: dict[str, Any]) -> SectionLine:
    """Read a decoded section; BadLine."""
    if SECTION not in value:
        message = f"the line has neither a `{CUSTOM_ID}`, as a request, nor a `{SECTION}`"
        raise BadLine("missing_required_parameter", message, CUSTOM_ID)
    name = section_of(value)
    for needed in (METHOD, URL):
        if value.get(needed) is None:
            raise BadLine("missing_required_parameter", f"the section has no `{needed}`", needed)
    url = check_target(value[METHOD], value[URL])
    body = _parameters(value, url)
    messages = _first_messages(value, url)
    return SectionLine(
        name, url, body, messages, check_messages(messages, field=MESSAGES) if messages else facts.NOTHING
    )


def section_of(value: dict[str, Any]) -> str:
    """Give the name of the section that a decoded line is, or belongs to; BadLine."""
    name = value.get(SECTION)
    if name is None:
        raise BadLine("missing_required_parameter", f"the line has no `{SECTION}`", SECTION)
    if not isinstance(name, str) or not 0 < len(name) <= ID_CHARS:
        raise BadLine("invalid_request", f"`{SECTION}` must be a string of 1 to {ID_CHARS} characters", SECTION)
    return name


def check_request(value: dict[str, Any]) -> None:
    """BadLine when a request has messages where only a section has them: they would be lost."""
    if MESSAGES in value:
        message = f"the `{MESSAGES}` of a request stand in its `{BODY}`; and a section has no `{CUSTOM_ID}`"
        raise BadLine("invalid_request", message, MESSAGES)


def expand(section: Shared, request: dict[str, Any]) -> dict[str, Any]:
    """Give the plain line that a request stands for, which may be a bad one."""
    return join(
        request,
        {METHOD: section[METHOD], URL: section[URL]},
        section.get(BODY) or {},
        section.get(MESSAGES) or None,
    )


def join(
    request: dict[str, Any], target: dict[str, Any], shared: dict[str, Any], first: list[Any] | None
) -> dict[str, Any]:
    """Give the plain line of a request and its section's method and url, parameters and messages (None: it has none)."""
    own = request.get(BODY)
    said = {name: request[name] for name in target if request.get(name) is not None}
    flat = {CUSTOM_ID: request.get(CUSTOM_ID), **target, **said, BODY: own}
    if not isinstance(own, dict):
        return flat
    if not own.keys().isdisjoint(CAPS):
        shared = {name: value for name, value in shared.items() if name not in CAPS}
    body = {**shared, **own}
    if first is not None and isinstance(own.get(MESSAGES, []), list | None):
        body[MESSAGES] = [*first, *(own.get(MESSAGES) or ())]
    content = content_of(flat[URL])
    if content in body:
        body[content] = body.pop(
            content
        )  # the last field: lines that begin the same are written the same up to where they part
    return flat | {BODY: body}


def content_of(url: object) -> str:
    """Give the name of the field that holds the prompt; empty for a url that is none of ours."""
    return CONTENT[url][0] if isinstance(url, str) and url in CONTENT else ""


def decoded(raw: bytes) -> Shared | LineError:
    """Decode a section that was good when its file was scanned, for `read_request`."""
    value: dict[str, Any] = {}
    try:
        value = decode(raw)
        read_section(value)
    except BadLine as bad:
        return line_error(bad, 0, value, NO_LIMITS)
    return value


def read_request(raw: bytes, line: int, section: Shared | LineError) -> RequestLine | LineError:
    """Read a request line, which was good when its file was scanned, as the plain line that it stands for."""
    if isinstance(section, LineError):
        return section
    value: dict[str, Any] = {}
    try:
        value = expand(section, decode(raw))
        return read(value)
    except BadLine as bad:
        return line_error(bad, line, value, NO_LIMITS)


def _parameters(value: dict[str, Any], url: str) -> dict[str, Any]:
    body = value.get(BODY)
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise BadLine("invalid_request", f"`{BODY}` must be an object", BODY)
    if MESSAGES in body:
        message = f"the `{MESSAGES}` of a section stand beside its `{BODY}`, not in it"
        raise BadLine("invalid_request", message, f"{BODY}.{MESSAGES}")
    check_fields(url, body)
    return body


def _first_messages(value: dict[str, Any], url: str) -> list[Any]:
    messages = value.get(MESSAGES)
    if messages is None:
        return []
    if not isinstance(messages, list):
        raise BadLine("invalid_request", f"`{MESSAGES}` must be an array", MESSAGES)
    if content_of(url) != MESSAGES:
        raise BadLine("invalid_request", f"a request to {url} has no `{MESSAGES}`", MESSAGES)
    if depth(messages) + 2 > MAX_DEPTH:  # where they stand in a plain line
        raise BadLine("invalid_json_line", f"the `{MESSAGES}` are nested too deep for lines of {MAX_DEPTH} levels")
    return messages
