"""Sectioned files, each with the plain file that says the same."""

from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from shared.core.sectioned import expand
from tests.core.lines import CHAT, COMPLETIONS, EMBEDDINGS, FORMAT, RESPONSES, message, part, section

OTHER = "other"


class Twins(NamedTuple):
    """A sectioned file, and the plain one: line by line the same requests, blank where the other has its format and its sections."""

    sectioned: bytes
    plain: bytes


def twins(lines: list[dict[str, Any]]) -> Twins:
    """Make both of sections and requests; they are written without spaces."""
    sections: dict[str, dict[str, Any]] = {}
    plain = [b""]
    for line in lines:
        if "custom_id" in line:
            plain.append(msgspec.json.encode(expand(sections[line["section"]], line)))
        else:
            sections[line["section"]] = line
            plain.append(b"")
    written = [msgspec.json.encode(line) for line in [FORMAT, *lines]]
    return Twins(b"\n".join(written), b"\n".join(plain))


_texts = st.sampled_from(["x", "é\u2028" * 30, 'How "high" is the water?' * 12, "word " * 80])
_pictures = [{"type": "image_url", "image_url": {"url": "https://tide.example/x.png"}}]
_messages = st.lists(
    st.builds(message, _texts, st.sampled_from(["user", "system"]))
    | st.just({"role": "user", "content": _pictures})
    | st.just({"role": "user", "content": [], "nested": [[[]]]}),
    max_size=3,
)


def _mostly(good: list[Any], *odd: Any) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(
        lambda dice: st.sampled_from([*odd] or good) if dice == 0 else st.sampled_from(good)
    )


_parameters: dict[str, st.SearchStrategy[Any]] = {
    "model": _mostly(["echo"], OTHER, 7, "m" * 300, None),
    "n": _mostly([None, 1, 2, 9], 0, 2**70),
    "max_tokens": _mostly([None, 5, 2000], -3, 2.0, "5"),
    "stream": _mostly([None, False, [], {}, ""], [0], {"a": 1}, "x"),
    "user": _texts,
    "temperature": st.floats(0, 2) | st.integers(-5, 5),
    "logprobs": _mostly([None, True, 3, 10**40]),
}
_of_chats: dict[str, st.SearchStrategy[Any]] = _parameters | {
    "max_completion_tokens": _mostly([None, 7], 0),
    "top_logprobs": st.sampled_from([None, 2, 9]),
    "tools": st.sampled_from([None, [], [{"type": "function"}]]),
    "response_format": st.just({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}),
}
_of_embeddings = {name: _parameters[name] for name in ("model", "user")}
_of_responses = {name: _parameters[name] for name in ("model", "user", "temperature", "stream")}
_contents = _mostly(["hi", "é" * 300, ["a", "b", [7]], []], None, 7)
_FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    CHAT: _of_chats,
    COMPLETIONS: _parameters | {"prompt": _contents},
    EMBEDDINGS: _of_embeddings | {"input": _contents},
    RESPONSES: _of_responses | {"input": _contents},
}
_urls = st.sampled_from([CHAT, CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES])


@st.composite
def _sections(draw: st.DrawFn, name: str) -> dict[str, Any]:
    url = draw(_urls)
    messages = draw(_messages) if url == CHAT else []
    line = section(name, url, *messages)
    line["body"] = draw(st.fixed_dictionaries({}, optional=_FIELDS[url]))
    if draw(st.integers(0, 4)):
        line["body"].setdefault("model", "echo")
    if not line["body"] and draw(st.booleans()):
        line["body"] = None
    return line


@st.composite
def _requests(draw: st.DrawFn, of: dict[str, Any]) -> dict[str, Any]:
    url = of["url"]
    line = part(draw(st.sampled_from(["a", "b", "ü", "c", "d", "", 5])), of["section"])
    if draw(st.integers(0, 9)) == 0:
        line |= draw(
            st.sampled_from([{"url": EMBEDDINGS}, {"url": "/v1/x"}, {"method": "GET"}, {"url": CHAT}, {"url": []}])
        )
    own = draw(st.fixed_dictionaries({}, optional=_FIELDS[url]))
    if draw(st.integers(0, 7)) == 0:
        own |= draw(st.sampled_from([{"mood": 1}, {"messages": 7}, {"messages": None}, {"messages": [{"role": "?"}]}]))
    elif url == CHAT and draw(st.booleans()):
        own["messages"] = draw(_messages)
    line["body"] = draw(st.sampled_from([own] * 9 + [None, "x"]))
    return line


@st.composite
def files(draw: st.DrawFn) -> Twins:
    """Draw a file whose sections are good, and whose requests name them; much else may be wrong with these."""
    lines: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    for name in ("s", "t", "é" * 9)[: draw(st.integers(1, 3))]:
        known.append(draw(_sections(name)))
        lines.append(known[-1])
        lines += [draw(_requests(draw(st.sampled_from(known)))) for _ in range(draw(st.integers(0, 4)))]
    return twins(lines)
