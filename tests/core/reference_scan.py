"""The scan, plain and slow: the whole file in memory, the json module, one rule after the other. What the fast one must agree with.

It shares nothing with the fast one but the tables of fields. Messages are left out: line, code, param and custom_id are compared.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from shared.core.request_line import CONTENT, FIELDS

BLANK = b" \t\r\v\f"
LEVELS = 200
MOST = 2**31 - 1
ROLES = ("system", "developer", "user", "assistant", "tool", "function")


class Good(NamedTuple):
    """A line that can run."""

    line: int
    offset: int
    length: int
    custom_id: str
    url: str
    model: str
    cap: int
    n: int


class Bad(NamedTuple):
    """A line that cannot, and the first rule that it breaks."""

    line: int
    code: str
    param: str | None = None
    custom_id: str | None = None


class RefusedFile(Exception):  # noqa: N818 - reads as what happened
    """The file is refused; the argument is the code."""


class _Broken(Exception):  # noqa: N818 - never leaves this module
    """A rule is broken: code and param."""


def scan(content: bytes, line_bytes: int, custom_id_chars: int) -> list[Good | Bad]:
    """Give what each line is, blank ones left out; RefusedFile."""
    first: dict[str, int] = {}
    found: list[Good | Bad] = []
    for number, offset, raw in _lines(content):
        item: Good | Bad | None
        if len(raw) > line_bytes:
            item = Bad(number, "request_too_large")
        elif not raw.strip(BLANK):
            continue
        else:
            item = _line(number, offset, raw, custom_id_chars)
        if item.custom_id:
            line = first.setdefault(item.custom_id, number)
            if isinstance(item, Good) and line != number:
                item = Bad(number, "duplicate_custom_id", "custom_id", item.custom_id)
        found.append(item)
    if not found:
        raise RefusedFile("empty_file")
    return found


def _lines(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    offset = 0
    if content.startswith(b"\xef\xbb\xbf"):
        offset, content = 3, content[3:]
    for number, line in enumerate(content.split(b"\n"), start=1):
        yield number, offset, line[:-1] if line.endswith(b"\r") else line
        offset += len(line) + 1


def _line(number: int, offset: int, raw: bytes, custom_id_chars: int) -> Good | Bad:
    try:
        value = _value(raw)
    except (ValueError, RecursionError):
        if number == 1 and 0 in raw[:2]:
            raise RefusedFile("invalid_encoding") from None
        return Bad(number, "invalid_json_line")
    custom_id = value.get("custom_id")
    try:
        _check_envelope(value, custom_id_chars)
        _check_body(value["url"], value["body"])
    except _Broken as broken:
        code, param = broken.args
        known = isinstance(custom_id, str) and len(custom_id) <= custom_id_chars
        return Bad(number, code, param, custom_id if known else None)
    body = value["body"]
    caps = [body.get(name) for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")]
    cap = next((cap for cap in caps if cap is not None), 0)
    answers = 1 if body.get("n") is None else body["n"]
    if value["url"] == "/v1/completions" and isinstance(body["prompt"], list):
        answers *= max(1, sum(isinstance(prompt, str | list) for prompt in body["prompt"]))
    return Good(number, offset, len(raw), value["custom_id"], value["url"], body["model"], cap, answers)


def _value(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise RefusedFile("invalid_encoding") from None
    value = json.loads(text, parse_constant=_no_constant, parse_float=_float, object_pairs_hook=_object)
    _check_text(value)
    if not isinstance(value, dict) or _depth(value) > LEVELS:
        raise ValueError
    return value


def _no_constant(_: str) -> NoReturn:
    raise ValueError


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    for key, value in pairs:  # also of keys that are overwritten later
        _check_text(key)
        _check_text(value)
    return dict(pairs)


def _check_text(value: object) -> None:
    if isinstance(value, str):
        value.encode()  # UnicodeEncodeError, a ValueError, for half a surrogate pair
    if isinstance(value, list):
        for child in value:
            _check_text(child)


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def _check_envelope(value: dict[str, Any], custom_id_chars: int) -> None:
    for name in ("custom_id", "method", "url", "body"):
        if value.get(name) is None:
            raise _Broken("missing_required_parameter", name)
    if not isinstance(value["custom_id"], str) or not 0 < len(value["custom_id"]) <= custom_id_chars:
        raise _Broken("invalid_request", "custom_id")
    if value["method"] != "POST":
        raise _Broken("invalid_request", "method")
    if value["url"] not in list(FIELDS):
        raise _Broken("url_mismatch", "url")
    if not isinstance(value["body"], dict):
        raise _Broken("invalid_request", "body")


def _check_body(url: str, body: dict[str, Any]) -> None:
    unknown = sorted(set(body) - FIELDS[url])
    if unknown:
        raise _Broken("invalid_request", f"body.{unknown[0]}")
    if body.get("model") is None:
        raise _Broken("missing_required_parameter", "body.model")
    if not isinstance(body["model"], str):
        raise _Broken("invalid_request", "body.model")
    if body.get("stream"):
        raise _Broken("invalid_request", "body.stream")
    name, types, _ = CONTENT[url]
    if body.get(name) is None:
        raise _Broken("missing_required_parameter", f"body.{name}")
    if not isinstance(body[name], types) or (name == "messages" and not body[name]):
        raise _Broken("invalid_request", f"body.{name}")
    if name == "messages":
        _check_messages(body[name])
    caps = [cap for cap in ("max_completion_tokens", "max_tokens", "max_output_tokens") if body.get(cap) is not None]
    for number in [*caps[:1], "n"]:
        value = body.get(number)
        if value is not None and (type(value) is not int or not 1 <= value <= MOST):
            raise _Broken("invalid_request", f"body.{number}")


def _check_messages(messages: list[Any]) -> None:
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise _Broken("invalid_request", f"body.messages[{index}]")
        if message.get("role") not in ROLES:
            raise _Broken("invalid_request", f"body.messages[{index}].role")
