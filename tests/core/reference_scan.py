"""The scan, plain and slow: the whole file in memory, the json module, one rule after the other. What the fast one must agree with.

It shares nothing with the fast one but the tables of fields. Messages are left out: line, code, param and custom_id are compared.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import msgspec

from shared.core.request_line import CONTENT, FIELDS

BLANK = b" \t\r\v\f"
LEVELS = 200
PARAM_BYTES = 200
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
    section: tuple[int, int] | None
    size: int


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
    """Give what each line is, blank ones and good sections left out; RefusedFile."""
    first: dict[str, int] = {}
    found: list[Good | Bad] = []
    file = _File(line_bytes, custom_id_chars)
    for line in _lines(content):
        item = file.take(*line)
        if item is None:
            continue
        if isinstance(item, Bad) and item.param:
            item = item._replace(param=_short(item.param))
        if item.custom_id:
            seen = first.setdefault(item.custom_id, item.line)
            if isinstance(item, Good) and seen != item.line:
                item = Bad(item.line, "duplicate_custom_id", "custom_id", item.custom_id)
        found.append(item)
    if not found:
        raise RefusedFile("empty_file")
    return found


def _short(param: str) -> str:
    """Cut what is too long to be told, at a character."""
    data = param.encode()
    if len(data) <= PARAM_BYTES:
        return param
    return data[: PARAM_BYTES - len("…".encode())].decode(errors="ignore") + "…"


class _File:
    """What is known of a file so far: whether it has begun, and where its sections stand and what they hold, if it has any."""

    def __init__(self, line_bytes: int, custom_id_chars: int) -> None:
        self.line_bytes = line_bytes
        self.custom_id_chars = custom_id_chars
        self.begun = False
        self.sections: dict[str, tuple[tuple[int, int], Any]] | None = None

    def take(self, number: int, offset: int, raw: bytes) -> Good | Bad | None:
        """Say what the line is; None when it is nothing to run and nothing wrong."""
        if len(raw) > self.line_bytes:
            self.begun = True
            return Bad(number, "request_too_large")
        if not raw.strip(BLANK):
            return None
        first, self.begun = not self.begun, True
        said = _format(raw)
        if said is not None:
            if first:
                self.sections = {}
            good = first and said == "batchrouter.sectioned.v1"
            return None if good else Bad(number, "invalid_request", "format")
        if self.sections is None:
            return _line(number, offset, raw, self.custom_id_chars)
        return self.of_section(number, offset, raw, self.sections)

    def of_section(
        self, number: int, offset: int, raw: bytes, sections: dict[str, tuple[tuple[int, int], Any]]
    ) -> Good | Bad | None:
        """Say what a line of a sectioned file is."""
        try:
            value = _value(raw)
        except (ValueError, RecursionError):
            return Bad(number, "invalid_json_line")
        try:
            _check_of_section(value, sections)
        except _Broken as broken:
            return Bad(number, *broken.args, custom_id=self.known(value))
        if "custom_id" not in value:
            sections[value["section"]] = (offset, len(raw)), value
            return None
        place, section = sections[value["section"]]
        plain = msgspec.json.encode(_expanded(section, value))
        if len(plain) > self.line_bytes and isinstance(value.get("body"), dict):
            return Bad(number, "request_too_large")
        item = _line(number, 0, plain, self.custom_id_chars)
        if isinstance(item, Bad):
            return item
        return item._replace(offset=offset, length=len(raw), section=place, size=len(plain))

    def known(self, value: dict[str, Any]) -> str | None:
        """Give the name of a line, if it may be one."""
        custom_id = value.get("custom_id")
        return custom_id if isinstance(custom_id, str) and len(custom_id) <= self.custom_id_chars else None


def _format(raw: bytes) -> object:
    try:
        value = _value(raw)
    except (ValueError, RecursionError, RefusedFile):
        return None
    is_format = "format" in value and not {"custom_id", "section"} & set(value)
    return (value["format"] or "null") if is_format else None


def _check_of_section(value: dict[str, Any], sections: dict[str, Any]) -> None:
    if "custom_id" not in value:
        _check_section(value)
        if value["section"] in sections:
            raise _Broken("invalid_request", "section")
        return
    if "messages" in value:
        raise _Broken("invalid_request", "messages")
    _check_name(value)
    if value["section"] not in sections:
        raise _Broken("invalid_request", "section")


def _expanded(section: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    caps = {"max_completion_tokens", "max_tokens", "max_output_tokens"}
    target = {name: section[name] if value.get(name) is None else value[name] for name in ("method", "url")}
    plain: dict[str, Any] = {"custom_id": value.get("custom_id"), **target, "body": value.get("body")}
    if not isinstance(plain["body"], dict):
        return plain
    body = dict(section.get("body") or {})
    if caps & set(plain["body"]):
        for name in caps & set(body):
            del body[name]
    body.update(plain["body"])
    own = [] if body.get("messages") is None else body["messages"]
    if section.get("messages") and isinstance(own, list):
        body["messages"] = section["messages"] + own
    return plain | {"body": body}


def _check_name(value: dict[str, Any]) -> None:
    if value.get("section") is None:
        raise _Broken("missing_required_parameter", "section")
    if not isinstance(value["section"], str) or not 0 < len(value["section"]) <= 512:
        raise _Broken("invalid_request", "section")


def _check_section(value: dict[str, Any]) -> None:
    if "section" not in value:
        raise _Broken("missing_required_parameter", "custom_id")
    _check_name(value)
    for name in ("method", "url"):
        if value.get(name) is None:
            raise _Broken("missing_required_parameter", name)
    _check_target(value)
    body, messages = value.get("body"), value.get("messages")
    if body is not None:
        if not isinstance(body, dict):
            raise _Broken("invalid_request", "body")
        if "messages" in body:
            raise _Broken("invalid_request", "body.messages")
        _check_fields(value["url"], body)
    if messages is not None:
        if not isinstance(messages, list) or CONTENT[value["url"]][0] != "messages":
            raise _Broken("invalid_request", "messages")
        if _depth({"body": {"messages": messages}}) > LEVELS:
            raise _Broken("invalid_json_line", None)
        _check_messages(messages, "messages")


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
    return Good(number, offset, len(raw), value["custom_id"], value["url"], body["model"], cap, answers, None, len(raw))


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
    _check_target(value)
    if not isinstance(value["body"], dict):
        raise _Broken("invalid_request", "body")


def _check_target(value: dict[str, Any]) -> None:
    if value["method"] != "POST":
        raise _Broken("invalid_request", "method")
    if value["url"] not in list(FIELDS):
        raise _Broken("url_mismatch", "url")


def _check_fields(url: str, body: dict[str, Any]) -> None:
    unknown = sorted(set(body) - FIELDS[url])
    if unknown:
        raise _Broken("invalid_request", f"body.{unknown[0]}")


def _check_body(url: str, body: dict[str, Any]) -> None:
    _check_fields(url, body)
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


def _check_messages(messages: list[Any], field: str = "body.messages") -> None:
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            raise _Broken("invalid_request", f"{field}[{index}]")
        if message.get("role") not in ROLES:
            raise _Broken("invalid_request", f"{field}[{index}].role")
