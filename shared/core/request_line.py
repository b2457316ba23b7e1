"""One line of an input file: decoded, checked against the allowlist of its endpoint, and encoded again.

Nothing of a line reaches an engine but the fields named here. The scan and the worker both read lines through `parse`, so
what one accepted the other understands. A bad line is data (`LineError`), never an exception; its message names fields, not contents.
"""

from typing import Any

import msgspec

from shared.core import facts
from shared.core.facts import Fact

MAX_DEPTH = 200
MAX_INTEGER = (1 << 31) - 1  # what engines count tokens with
MODEL_CHARS = 256
MESSAGE_BYTES = 200

_SAMPLING = frozenset(
    {
        # OpenAI's
        "model", "temperature", "top_p", "n", "stop", "max_tokens", "presence_penalty", "frequency_penalty", "logit_bias",
        "logprobs", "seed", "user", "stream", "stream_options", "metadata", "store", "service_tier", "safety_identifier",
        "prompt_cache_key", "prediction",
        # vLLM's
        "top_k", "min_p", "repetition_penalty", "length_penalty", "stop_token_ids", "include_stop_str_in_output", "ignore_eos",
        "min_tokens", "skip_special_tokens", "spaces_between_special_tokens", "truncate_prompt_tokens", "prompt_logprobs",
        "allowed_token_ids", "bad_words", "structured_outputs", "response_format",
    }
)  # fmt: skip

FIELDS: dict[str, frozenset[str]] = {
    "/v1/chat/completions": _SAMPLING
    | {
        "messages", "max_completion_tokens", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "functions",
        "function_call", "modalities", "audio", "reasoning_effort", "verbosity", "web_search_options",
    },
    "/v1/completions": _SAMPLING | {"prompt", "suffix", "echo", "best_of"},
    "/v1/embeddings": frozenset({"model", "input", "dimensions", "encoding_format", "user", "truncate_prompt_tokens"}),
    "/v1/responses": frozenset(
        {
            "model", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls", "prompt_cache_key",
            "reasoning", "safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice",
            "tools", "top_logprobs", "top_p", "truncation", "user", "include", "background", "previous_response_id",
        }
    ),
}  # fmt: skip

# What must be there besides the model, and of which types it may be.
CONTENT: dict[str, tuple[str, tuple[type, ...], str]] = {
    "/v1/chat/completions": ("messages", (list,), "an array"),
    "/v1/completions": ("prompt", (str, list), "a string or an array"),
    "/v1/embeddings": ("input", (str, list), "a string or an array"),
    "/v1/responses": ("input", (str, list), "a string or an array"),
}
PROMPT = "prompt"
_ENCODINGS = (None, "float", "base64")  # engines know some more, which are no JSON
_ENVELOPE = ("custom_id", "method", "url", "body")
_NOTED = frozenset(facts.FIELDS)
CAPS = ("max_completion_tokens", "max_tokens", "max_output_tokens")  # in the engine's order of precedence
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


class LineError(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Why a line is refused.

    Attributes:
        line: Its physical number, from 1.
        code: A code of the HTTP contract.
        message: One sentence of at most `MESSAGE_BYTES`.
        param: The field at fault.
        custom_id: The line's name, where it could be read and is not too long.
        url: The endpoint whose rules the body broke; in a batch of another endpoint the url is what is wrong.

    """

    line: int
    code: str
    message: str
    param: str | None = None
    custom_id: str | None = None
    url: str | None = None


class RequestLine(msgspec.Struct, frozen=True, gc=False):
    """A line that can run.

    Attributes:
        custom_id: The caller's name for it.
        url: The endpoint it names.
        model: The model it names.
        body: The body; it holds allowed fields only.
        cap: The most output tokens it asks for; 0 where it names none.
        n: How many answers it asks for.
        facts: What it holds that some contract refuses.
        logprobs: How many log probabilities a token it asks for.

    """

    custom_id: str
    url: str
    model: str
    body: dict[str, Any]
    cap: int
    n: int
    facts: Fact = facts.NOTHING
    logprobs: int = 0


class Limits(msgspec.Struct, frozen=True):
    """What a contract allows of one line, and of how many lines a file is read at least: one of more cannot be run.

    `sectioned` says whether it may be a line of a sectioned file (`shared.core.sectioned`).
    """

    line_bytes: int = 20 << 20
    custom_id_chars: int = 512
    lines: int = 1_000_000
    sectioned: bool = True


NO_LIMITS = Limits()


class BadLine(Exception):  # noqa: N818 - reads as what happened
    """A line is refused. It never leaves the modules that read lines: for all others a bad line is a `LineError`."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.error = (code, message, param)


def parse(raw: bytes, line: int, limits: Limits = NO_LIMITS) -> RequestLine | LineError:
    """Read one line (without its newline). The first thing wrong with it is its error."""
    value: dict[str, Any] = {}
    try:
        value = decode(raw)
        return read(value, limits)
    except BadLine as bad:
        return line_error(bad, line, value, limits)


def line_error(bad: BadLine, line: int, value: dict[str, Any], limits: Limits) -> LineError:
    """Say why a line is refused; `value` is what it holds, as far as it could be decoded."""
    code, message, param = bad.error
    custom_id = value.get("custom_id")
    named = isinstance(custom_id, str) and len(custom_id) <= limits.custom_id_chars
    return LineError(
        line,
        code,
        short(message),
        param and short(param),
        custom_id if named else None,
        value["url"] if param and param.startswith("body.") else None,
    )


def decode(raw: bytes) -> dict[str, Any]:
    """Give the object that a line is; BadLine."""
    try:
        value = msgspec.json.decode(raw)
    except RecursionError:
        raise BadLine("invalid_json_line", f"the line is nested deeper than {MAX_DEPTH} levels") from None
    except msgspec.DecodeError as error:
        raise BadLine("invalid_json_line", f"the line is not JSON: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise BadLine("invalid_json_line", "the line is JSON but not an object")
    # Counting brackets is never too low; only a line that could be too deep is measured. `replace` looks for them ten times as fast as `count`.
    if len(raw) - len(raw.replace(b"[", b"").replace(b"{", b"")) > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise BadLine("invalid_json_line", f"the line is nested deeper than {MAX_DEPTH} levels")
    return value


def _reason(error: msgspec.DecodeError) -> str:
    # msgspec says where and what kind of character, never the content itself.
    return str(error).removeprefix("JSON is malformed: ")


def depth(value: object) -> int:
    """Give how many levels of objects and arrays it has."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        stack.extend((child, depth + 1) for child in children if isinstance(child, dict | list))
    return deepest


def read(value: dict[str, Any], limits: Limits = NO_LIMITS, before: int = 0) -> RequestLine:
    """Read a decoded line; BadLine. Its messages may stand behind `before` good ones that are not in it."""
    custom_id, method, url, body = map(value.get, _ENVELOPE)
    if custom_id is None or method is None or url is None or body is None:
        name = next(name for name in _ENVELOPE if value.get(name) is None)
        raise BadLine("missing_required_parameter", f"the line has no `{name}`", name)
    if not isinstance(custom_id, str) or not custom_id:
        raise BadLine("invalid_request", "`custom_id` must be a non-empty string", "custom_id")
    if len(custom_id) > limits.custom_id_chars:
        raise BadLine("invalid_request", f"`custom_id` is longer than {limits.custom_id_chars} characters", "custom_id")
    url = check_target(method, url)
    if not isinstance(body, dict):
        raise BadLine("invalid_request", "`body` must be an object", "body")
    return _body(custom_id, url, body, before)


def check_target(method: object, url: object) -> str:
    """Give the url; BadLine when there is nothing here that answers it."""
    if method != "POST":
        raise BadLine("invalid_request", "`method` must be POST", "method")
    if not isinstance(url, str) or url not in FIELDS:
        raise BadLine("url_mismatch", f"`url` must be one of {', '.join(FIELDS)}", "url")
    return url


def check_fields(url: str, body: dict[str, Any]) -> None:
    """BadLine when the body has a field that its endpoint does not know."""
    if not FIELDS[url].issuperset(body):
        name = min(body.keys() - FIELDS[url])
        raise BadLine("invalid_request", f"unknown field `body.{name}`", f"body.{name}")


def _body(custom_id: str, url: str, body: dict[str, Any], before: int) -> RequestLine:
    check_fields(url, body)
    model = body.get("model")
    if model is None:
        raise BadLine("missing_required_parameter", "`body` has no `model`", "body.model")
    if not isinstance(model, str):
        raise BadLine("invalid_request", "`body.model` must be a string", "body.model")
    if len(model) > MODEL_CHARS:
        raise BadLine("model_not_found", f"`body.model` is longer than {MODEL_CHARS} characters", "body.model")
    if body.get("stream"):
        raise BadLine("invalid_request", "`body.stream` must be false: batch results do not stream", "body.stream")
    content, types, wanted = CONTENT[url]
    if body.get(content) is None:
        raise BadLine("missing_required_parameter", f"`body` has no `{content}`", f"body.{content}")
    if not isinstance(body[content], types):
        raise BadLine("invalid_request", f"`body.{content}` must be {wanted}", f"body.{content}")
    if body.get("encoding_format") not in _ENCODINGS:
        raise BadLine("invalid_request", "`body.encoding_format` must be float or base64", "body.encoding_format")
    found = facts.NOTHING
    if content == "messages":
        found = check_messages(body[content], before)
    if not _NOTED.isdisjoint(body):
        found |= _noted(body)
    logprobs = _logprobs(body) if "logprobs" in body or "top_logprobs" in body else 0
    return RequestLine(custom_id, url, model, body, _cap(body), _answers(body, url), found, logprobs)


def _noted(body: dict[str, Any]) -> Fact:
    found = facts.NOTHING
    for name in body.keys() & facts.FIELDS.keys():
        if body[name] is not None:
            found |= facts.FIELDS[name]
    return found


def check_messages(messages: list[Any], before: int = 0, field: str = "body.messages") -> Fact:
    """Give what contracts refuse of it; BadLine. It is what `field` has behind `before` good ones."""
    found = facts.NOTHING
    if not messages and not before:
        raise BadLine("invalid_request", f"`{field}` must not be empty", field)
    for index, message in enumerate(messages, before):
        if not isinstance(message, dict):
            raise BadLine("invalid_request", f"`{field}[{index}]` must be an object", f"{field}[{index}]")
        role = message.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            name = f"{field}[{index}].role"
            raise BadLine("invalid_request", f"`{name}` must be one of {', '.join(sorted(_ROLES))}", name)
        content = message.get("content")
        if isinstance(content, list):
            for part in content:
                kind = part.get("type") if isinstance(part, dict) else None
                if isinstance(kind, str) and kind in facts.PARTS:
                    found |= facts.PARTS[kind]
    return found


def _logprobs(body: dict[str, Any]) -> int:
    """Give what is asked for as a number; a chat's `logprobs` is a switch, and `true` is 1."""
    asked = (body.get("logprobs"), body.get("top_logprobs"))
    return min(max([0, *(int(value) for value in asked if isinstance(value, int))]), MAX_INTEGER)


def _cap(body: dict[str, Any]) -> int:
    for name in CAPS:
        if name in body and body[name] is not None:
            return _integer(body, name, 0)
    return 0


def _answers(body: dict[str, Any], url: str) -> int:
    """Give how many answers are asked for: `n` for each prompt, of which a completion may have several."""
    asked = _integer(body, "n", 1)
    return asked * prompts(body[PROMPT]) if url == "/v1/completions" else asked


def prompts(value: object) -> int:
    """Give how many prompts the `prompt` of a completion is."""
    return max(1, sum(isinstance(prompt, str | list) for prompt in value)) if isinstance(value, list) else 1


def _integer(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_INTEGER:
        raise BadLine("invalid_request", f"`body.{name}` must be an integer from 1 to {MAX_INTEGER}", f"body.{name}")
    return value


def short(message: str) -> str:
    """Cut a message to the contract's 200 bytes."""
    encoded = message.encode()
    return message if len(encoded) <= MESSAGE_BYTES else encoded[: MESSAGE_BYTES - 3].decode(errors="ignore") + "…"
