"""The lines that most files are made of, read at the speed of a decode: chats of plain text without anything notable.

`read` knows a part of what `shared.core.request_line.parse` knows, and says nothing where it is not sure: a line that it reads, the other accepts with the
same outcome; any other line is the other's to judge. A typed decode checks names and types on the way, and makes no dictionaries.
"""

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from shared.core import facts
from shared.core.facts import Fact
from shared.core.request_line import MAX_INTEGER, MODEL_CHARS

URL = "/v1/chat/completions"

_Count = Annotated[int, Meta(ge=1, le=MAX_INTEGER)]


class _Message(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str
    name: str | None = None


class _Body(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    model: Annotated[str, Meta(max_length=MODEL_CHARS)]
    messages: Annotated[list[_Message], Meta(min_length=1)]
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    n: _Count | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: Literal[False] | None = None
    user: str | None = None


class _Line(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    custom_id: Annotated[str, Meta(min_length=1)]
    method: Literal["POST"]
    url: Literal["/v1/chat/completions"]
    body: _Body


class PlainChat(NamedTuple):
    """What a scan needs of a line. See `shared.core.request_line.RequestLine`."""

    custom_id: str
    url: str
    model: str
    cap: int
    n: int
    facts: Fact = facts.NOTHING
    logprobs: int = 0


_LINE = msgspec.json.Decoder(_Line)


def read(raw: bytes, custom_id_chars: int) -> PlainChat | None:
    """Read one line (without its newline); None: it is not plain, or not good."""
    try:
        line = _LINE.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    if len(line.custom_id) > custom_id_chars:
        return None
    body = line.body
    return PlainChat(line.custom_id, URL, body.model, body.max_completion_tokens or body.max_tokens or 0, body.n or 1)
