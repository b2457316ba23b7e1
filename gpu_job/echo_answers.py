"""What the echo engine answers: a pure function of the request, so that a test knows every word in advance.

A token is a word between white space. Chat and completions answer "echo: " and the text (the last user message, or the
prompt) cut to the limit; embeddings are unit vectors of 8 dimensions made from a hash of the input.

Directives stand anywhere in that text, and the same text does the same every time:

    [[delay 0.5]]   wait half a second first
    [[status 503]]  answer that status with an error body
    [[tokens 100]]  answer 100 tokens (the limit still cuts)
    [[crash]]       the process dies at once
    [[hang]]        never answer
    [[nan]]         answer 200 with NaN where a number belongs
    [[garbage]]     answer 200 with bytes that are not JSON
    [[answer]]      answer what stands behind it and nothing else
"""

import base64
import hashlib
import itertools
import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

DIMENSIONS = 8
ANSWER = "[[answer]]"

_DIRECTIVE = re.compile(
    r"\[\[(?:delay (?P<delay>\d+(?:\.\d+)?)|status (?P<status>[2-5]\d\d)|tokens (?P<tokens>\d{1,6})"
    r"|(?P<fault>crash|hang|nan|garbage))\]\]"
)
_NAN = msgspec.Raw(b"NaN")  # msgspec itself writes null for it

_Count = Annotated[int, msgspec.Meta(ge=1)]
_Texts = (
    str | Annotated[list[str | int | list[int]], msgspec.Meta(min_length=1)]
)  # one, several, or the same as token ids


@dataclass(frozen=True)
class Directives:
    """What a text asks for besides its answer."""

    delay: float = 0.0
    status: int | None = None
    tokens: int | None = None
    faults: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: str) -> "Directives":
        """Read them out of a text; of two of a kind the last counts."""
        found: dict[str, str] = {}
        faults: set[str] = set()
        for match in _DIRECTIVE.finditer(text):
            if fault := match["fault"]:
                faults.add(fault)
            else:
                found |= {name: value for name, value in match.groupdict().items() if value is not None}
        return cls(
            delay=float(found.get("delay", 0)),
            status=int(found["status"]) if "status" in found else None,
            tokens=int(found["tokens"]) if "tokens" in found else None,
            faults=frozenset(faults),
        )


@dataclass(frozen=True)
class Answer:
    """The body of a response without its id and time, and the tokens it took to make."""

    body: dict[str, Any]
    generated: int


class Part(msgspec.Struct):
    """A part of a message's content; only text parts are read."""

    type: str
    text: str = ""


class Message(msgspec.Struct):
    """A chat message."""

    role: str
    content: str | list[Part] | None = None

    def text(self) -> str:
        """Its text parts as one text."""
        if isinstance(self.content, list):
            return " ".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class ChatRequest(msgspec.Struct):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    model: str | None = None
    max_tokens: _Count | None = None
    max_completion_tokens: _Count | None = None
    n: _Count | None = None

    def text(self) -> str:
        """Return the text that is echoed and that directives are read from."""
        of_user = (message for message in reversed(self.messages) if message.role == "user")
        return next(of_user, self.messages[-1]).text()

    def prompt_tokens(self) -> int:
        """Count the words of all messages."""
        return sum(len(message.text().split()) for message in self.messages)

    def answer(self, directives: Directives) -> Answer:
        """Make a chat.completion; `max_completion_tokens` wins over `max_tokens`, as in vLLM."""
        limit = self.max_completion_tokens or self.max_tokens
        content, generated, finish = _echo(self.text(), limit, directives)
        choice = {"message": {"role": "assistant", "content": content}, "finish_reason": finish}
        if "nan" in directives.faults:
            choice["logprobs"] = {"content": [{"token": "echo:", "bytes": None, "logprob": _NAN, "top_logprobs": []}]}
        choices = [{"index": index} | choice for index in range(self.n or 1)]
        total = generated * len(choices)
        usage = _usage(self.prompt_tokens(), total)
        return Answer({"object": "chat.completion", "choices": choices, "usage": usage}, total)


class CompletionRequest(msgspec.Struct):
    """POST /v1/completions."""

    prompt: _Texts
    model: str | None = None
    max_tokens: _Count | None = None
    n: _Count | None = None

    def text(self) -> str:
        """Return the text that directives are read from."""
        return " ".join(_texts(self.prompt))

    def prompt_tokens(self) -> int:
        """Count the words of all prompts."""
        return len(self.text().split())

    def answer(self, directives: Directives) -> Answer:
        """Make a text_completion with `n` choices for each prompt, in the prompts' order."""
        choices: list[dict[str, Any]] = []
        total = 0
        for prompt in _texts(self.prompt):
            text, generated, finish = _echo(prompt, self.max_tokens, directives)
            choice: dict[str, Any] = {"text": text, "finish_reason": finish, "logprobs": None}
            if "nan" in directives.faults:
                choice["logprobs"] = {"tokens": ["echo:"], "token_logprobs": [_NAN]}
            for _ in range(self.n or 1):
                choices.append({"index": len(choices)} | choice)
                total += generated
        usage = _usage(self.prompt_tokens(), total)
        return Answer({"object": "text_completion", "choices": choices, "usage": usage}, total)


class EmbeddingRequest(msgspec.Struct):
    """POST /v1/embeddings."""

    input: _Texts
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None

    def text(self) -> str:
        """Return the text that directives are read from."""
        return " ".join(_texts(self.input))

    def prompt_tokens(self) -> int:
        """Count the words of all inputs."""
        return len(self.text().split())

    def answer(self, directives: Directives) -> Answer:
        """Make a list of one embedding an input, in the inputs' order."""
        data = [
            {"object": "embedding", "index": index, "embedding": self._encoded(text, directives)}
            for index, text in enumerate(_texts(self.input))
        ]
        return Answer({"object": "list", "data": data, "usage": _usage(self.prompt_tokens(), 0)}, 0)

    def _encoded(self, text: str, directives: Directives) -> str | list[float] | list[msgspec.Raw]:
        broken = "nan" in directives.faults
        if self.encoding_format == "base64":
            vector = [math.nan] * DIMENSIONS if broken else unit_vector(text)
            return base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *vector)).decode()
        return [_NAN] * DIMENSIONS if broken else unit_vector(text)


Request = ChatRequest | CompletionRequest | EmbeddingRequest


def unit_vector(text: str) -> list[float]:
    """Make a vector of length 1 that only the text decides."""
    numbers = struct.unpack(f"<{DIMENSIONS}i", hashlib.sha256(text.encode(errors="surrogatepass")).digest())
    length = math.hypot(*numbers)
    return [number / length for number in numbers]


def _echo(text: str, limit: int | None, directives: Directives) -> tuple[str, int, str]:
    """Answer a text: the words, how many, and why it ended."""
    _, wanted, rest = text.partition(ANSWER)
    content = rest if wanted else f"echo: {text}"
    words = content.split()
    if directives.tokens is not None:
        words = list(itertools.islice(itertools.cycle(words), directives.tokens))
        content = " ".join(words)
    if limit is None or len(words) <= limit:
        return content, len(words), "stop"
    return " ".join(words[:limit]), limit, "length"


def _texts(value: str | Iterable[str | int | list[int]]) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = list(value)
    if isinstance(items[0], int):
        return [" ".join(map(str, items))]
    return [item if isinstance(item, str) else " ".join(map(str, item)) for item in items if not isinstance(item, int)]


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
