"""The scan agrees with a plain, slow one on whatever people upload, however the bytes come in."""

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.core.errors import Refused
from shared.core.outlines import Section
from shared.core.request_line import Limits
from shared.core.scan import Entry, Item, Scanner, entries
from tests.core.lines import CHAT, EMBEDDINGS, FORMAT, message, part, request, section, written
from tests.core.reference_scan import Bad, Good, RefusedFile, scan

LIMITS = Limits(line_bytes=400, custom_id_chars=8)
BOM = b"\xef\xbb\xbf"

Verdict = list[Good | Bad] | str


def fast(pieces: Iterable[bytes]) -> tuple[bytes, Verdict]:
    """Scan the pieces; give the index and what is in it, or the code of the refusal."""
    scanner = Scanner(LIMITS)
    index = b""
    try:
        for piece in pieces:
            index += b"".join(scanner.feed(piece))
        index += b"".join(scanner.finish())
    except Refused as refused:
        return b"", refused.code
    return index, [plainly(item) for item in entries([index]) if not isinstance(item, Section)]


def plainly(item: Item) -> Good | Bad:
    """Say of a line what the slow scan says."""
    if isinstance(item, Entry):
        place = item.section and (item.section.offset, item.section.length)
        return Good(*[place if name == "section" else getattr(item, name) for name in Good._fields])
    assert not isinstance(item, Section)
    return Bad(item.line, item.code, item.param, item.custom_id)


def slow(content: bytes) -> Verdict:
    """Scan the content the slow way."""
    try:
        return scan(content, LIMITS.line_bytes, LIMITS.custom_id_chars)
    except RefusedFile as refused:
        return str(refused)


def nested(depth: int) -> bytes:
    """Give a line nested as deep as that: the line and its body are two levels."""
    deep = "[" * (depth - 2) + "]" * (depth - 2)
    return (
        b'{"custom_id":"d","method":"POST","url":"/v1/embeddings","body":{"model":"m","input":' + deep.encode() + b"}}"
    )


def padded(length: int) -> bytes:
    """Give a good line of that many bytes."""
    return written(request("p")).ljust(length)


ODD_LINES = [
    b"",
    b" ",
    b"\t \v\f",
    b"\r",
    b"\x00",
    b"null",
    b"[]",
    b"7",
    b'"text"',
    b"{}",
    b"{",
    b'{"custom_id": "a"}',
    b'{"custom_id": "a", "custom_id": "b"}',
    b'{"a": NaN}',
    b'{"a": -Infinity}',
    b'{"a": 1e999}',
    b'{"a": -0}',
    b'{"a": ' + b"9" * 100 + b"}",
    b'{"a": 1e-999}',
    b'{"a": "\\ud800"}',
    b'{"a": "\\ud800", "a": 1}',
    b'{"a": ["\\ud800"], "a": 1}',
    b'{"a": "\\ud83d\\ude00"}',
    b'{"\\udc00": 1}',
    b'{"a": "\xff"}',
    b'{"a": "\xed\xa0\x80"}',
    b'{"a": "\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\x7f"}',
    b'{"a": "\x0b"}',
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"[" * 390,
    nested(199),
    nested(200),
    nested(201),
    padded(399),
    padded(400),
    padded(401),
    padded(402),
    padded(405),
    padded(600),
    b" " * 399 + b"x",
    b" " * 400,
    b" " * 401,
    b" " * 800 + b"{}",
    b"\xff" * 401,
    written(FORMAT),
    b'{"format": "batchrouter.sectioned.v2"}',
    b'{"format": null}',
    written(request("f") | FORMAT),
    written(section("s") | FORMAT),
    written(section()),
    written(section() | {"custom_id": "a"}),
    written(section() | {"custom_id": None}),
    written(section("")),
    written(section(None)),
    written(section("n" * 99)),
    written(section("t", EMBEDDINGS, message("x"))),
    written(section("t", CHAT, message("x"), messages=[])),
    written(section("t", CHAT, {"role": "?"})),
    written(section("t", CHAT, message("x"), 7)),
    written(section("t", unknown=1)),
    written({"section": "t", "url": CHAT}),
    written({"section": "t", "method": "POST", "url": CHAT}),
    written(part()),
    written(part("a", "t", messages=[message("y")])),
    written(part("a", None)),
    written(part("a", [])),
]

SECTIONS = [FORMAT, section("s", CHAT, message("x")), section("e", EMBEDDINGS, input="x" * 20), section("w", n=0)]

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text('aé\u2028\x85\n"\\', max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=3),
    max_leaves=5,
)
wrong = values | st.sampled_from(
    [10**30, -1, 2**31, 2.0, "POST", CHAT, {"role": "user"}, [{"role": []}], [{"role": "user"}]]
)
fields = st.sampled_from(
    [
        "model",
        "messages",
        "input",
        "stream",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "stop",
        "user",
        "other",
    ]
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw a request line: most are good, many share an id, some have something wrong somewhere."""
    line: dict[str, Any] = request(
        draw(st.sampled_from(["a", "b", "ü", "12345678", "123456789", ""])), draw(st.sampled_from([CHAT, EMBEDDINGS]))
    )
    if draw(st.booleans()):
        line["body"] = line["body"] | draw(st.dictionaries(fields, wrong, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        line |= draw(
            st.dictionaries(st.sampled_from(["custom_id", "method", "url", "body", "note"]), wrong, max_size=2)
        )
    if draw(st.integers(0, 3)) == 0:
        line.pop(draw(st.sampled_from(["custom_id", "method", "url", "body"])), None)
    raw = json.dumps(line, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(raw)))
        raw = (
            raw[:at]
            + draw(st.sampled_from([b"", b'"', b"\\", b",", b"0", b"{", b"\t", b"\x1f", b"e9"]))
            + raw[at + 1 :]
        )
    return raw.replace(b"\n", b"")


@st.composite
def sectioned(draw: st.DrawFn) -> bytes:
    """Draw a line of a sectioned file: a section or a request of one; many are good."""
    name = draw(st.sampled_from(["s", "s", "t", "e", "w"]))
    line: dict[str, Any]
    if draw(st.integers(0, 3)) == 0:
        line = section(name, draw(st.sampled_from([CHAT, EMBEDDINGS])), *draw(messages), **draw(parameters))
    else:
        line = part(draw(st.sampled_from(["a", "b", "ü", "12345678", ""])), name, **draw(parameters))
    if draw(st.booleans()):
        line["body"] = line["body"] | draw(st.dictionaries(fields, wrong, max_size=2))
    if draw(st.integers(0, 3)) == 0:
        names = st.sampled_from(["custom_id", "section", "method", "url", "body", "messages", "format"])
        line |= draw(st.dictionaries(names, wrong, max_size=2))
    return json.dumps(line, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass").replace(b"\n", b"")


messages = st.lists(st.sampled_from([message("x"), message("é" * 60), {"role": "user", "content": []}]), max_size=2)
parameters = st.fixed_dictionaries(
    {},
    optional={
        "messages": messages,
        "input": st.sampled_from(["x", "é" * 200, []]),
        "n": st.integers(0, 2),
        "max_tokens": st.integers(0, 2),
        "max_completion_tokens": st.none() | st.integers(0, 2),
        "user": st.sampled_from(["u", "ü\u2028" * 30]),
    },
)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """Draw a file; every other one begins as a sectioned file does."""
    begins = [written(line) for line in SECTIONS[: draw(st.integers(1, len(SECTIONS)))]] if draw(st.booleans()) else []
    kinds = requests() | sectioned() | sectioned() if begins else requests() | sectioned()
    lines = begins + draw(st.lists(kinds | st.sampled_from(ODD_LINES), max_size=8))
    content = b"".join(line + draw(st.sampled_from([b"\n", b"\r\n"])) for line in lines)
    if draw(st.booleans()):
        content = content.removesuffix(b"\n")
    return draw(st.sampled_from([b"", b"", BOM])) + content


@st.composite
def cuts(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Draw a file, and pieces that it comes in; some are empty."""
    content = draw(files())
    at = sorted(draw(st.lists(st.integers(0, len(content)), max_size=6)))
    return content, [content[start:end] for start, end in pairwise([0, *at, len(content)])]


@settings(max_examples=200)
@given(cuts())
@example((b"", []))
@example((b"".join(line + b"\n" for line in ODD_LINES if b"\xff" not in line and b"\xed" not in line), []))
def test_the_scan_agrees_with_a_slow_one(cut: tuple[bytes, list[bytes]]) -> None:
    """Lines, offsets, lengths, codes, params and ids are the same, and so are the refusals of files."""
    content, pieces = cut

    assert slow(content) == fast(pieces or [content])[1]


@pytest.mark.parametrize("line", ODD_LINES, ids=range(len(ODD_LINES)))
@pytest.mark.parametrize(
    "place", ["alone", "first", "last", "with a mark", "with a carriage return", "behind a format", "behind sections"]
)
def test_every_odd_line_is_judged_the_same_in_every_place(line: bytes, place: str) -> None:
    """Alone, before and after a good line, after a byte order mark or a format, before a carriage return; whole and byte by byte."""
    good = written(request("good"))
    content = {
        "alone": line,
        "first": line + b"\n" + good,
        "last": good + b"\n" + line + b"\n",
        "with a mark": BOM + line + b"\r\n" + good,
        "with a carriage return": good + b"\n" + line + b"\r\n",
        "behind a format": BOM + b"\n" + written(FORMAT) + b"\r\n" + line + b"\r\n" + written(part()),
        "behind sections": b"\n".join(map(written, SECTIONS)) + b"\n" + line + b"\n" + written(part("z")),
    }[place]

    expected = slow(content)

    assert expected == fast([content])[1]
    assert expected == fast(bytes([byte]) for byte in content)[1]


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "latin-1"]
)
def test_a_file_in_another_encoding_is_refused(encoding: str) -> None:
    """With a mark or without one, whole or byte by byte."""
    content = '{"custom_id": "ü"}\n'.encode(encoding)

    assert "invalid_encoding" == slow(content) == fast([content])[1] == fast(bytes([byte]) for byte in content)[1]


def test_where_the_bytes_are_cut_changes_not_a_byte_of_the_index() -> None:
    """A file of marks, blanks, errors, duplicates and over-long lines, cut in two at every place."""
    lines = [written(request("ü")), b"", padded(400) + b"\r", b" " * 500, b"[]", written(request("ü")), padded(404)]
    content = BOM + b"\n".join(lines)
    whole, expected = fast([content])

    assert slow(content) == expected
    for at in range(len(content) + 1):
        assert whole == fast([content[:at], content[at:]])[0]
