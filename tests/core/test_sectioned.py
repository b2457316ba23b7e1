"""Sectioned files: each request stands for the plain line that it makes with its section, and is judged as that line."""

import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from msgspec.structs import replace

from shared.core import outlines
from shared.core.contracts import CONTRACTS
from shared.core.errors import Refused
from shared.core.facts import Fact
from shared.core.judge import Judge
from shared.core.models import Model, Registry
from shared.core.outlines import MOST_SECTIONS, Section
from shared.core.plan import ShardSize, cut
from shared.core.request_line import Limits, LineError, RequestLine
from shared.core.scan import Entry, Item, Scanner, entries
from shared.core.sectioned import Span, decoded, expand, read_request
from tests.core.lines import CHAT, COMPLETIONS, EMBEDDINGS, FORMAT, RESPONSES, message, part, request, section, written
from tests.core.sections import OTHER, Twins, files

BOM = b"\xef\xbb\xbf"
SHARED = section("s", CHAT, message("You are a tide table.", "system"), temperature=0.5, max_tokens=9)


def scan(content: bytes, limits: Limits = Limits()) -> list[Item]:  # noqa: B008 - it is frozen
    """Scan a file, and read its index."""
    scanner = Scanner(limits)
    return list(entries([*scanner.feed(content), *scanner.finish()]))


def jsonl(*lines: object) -> bytes:
    """Write lines as a file, with a final newline."""
    return b"".join(written(line) + b"\n" for line in lines)


def told(*lines: object) -> list[tuple[int, str, str | None]]:
    """Scan a sectioned file of these lines; give number, custom_id or code, and param of each that is a request or refused."""
    return [
        (item.line, item.custom_id, None) if isinstance(item, Entry) else (item.line, item.code, item.param)
        for item in scan(jsonl(FORMAT, *lines))
        if not isinstance(item, Section)
    ]


def only(*lines: object) -> Entry:
    """Give the only request of a sectioned file of these lines."""
    (entry,) = (item for item in scan(jsonl(FORMAT, *lines)) if not isinstance(item, Section))
    assert isinstance(entry, Entry)
    return entry


def test_a_request_is_expanded() -> None:
    """Its fields override the section's, its messages follow the section's, and so the engine sees them."""
    line = part("a", messages=[message("When is high water?")], temperature=0)

    expected = {
        "custom_id": "a",
        "method": "POST",
        "url": CHAT,
        "body": {
            "model": "echo",
            "temperature": 0,
            "max_tokens": 9,
            "messages": [message("You are a tide table.", "system"), message("When is high water?")],
        },
    }
    assert expected == expand(SHARED, line)


def test_a_request_is_indexed_as_its_plain_line() -> None:
    """Where it stands is where it stands in the file; what it says, how long it is and how it begins are the plain line's."""
    line = part("a", messages=[message("When is high water?")], n=2, tools=[])
    content = BOM + b"\r\n" + jsonl(FORMAT, SHARED, line).replace(b"\n", b"\r\n")
    plain = msgspec.json.encode(expand(SHARED, line))

    found, entry = scan(content)
    (expected,) = scan(plain)

    assert isinstance(found, Section)
    assert isinstance(entry, Entry)
    assert isinstance(expected, Entry)
    assert (3, 4) == (found.line, entry.line)
    assert written(SHARED) == content[found.place.offset : found.place.offset + found.place.length]
    assert found.place == entry.section
    assert written(line) == content[entry.offset : entry.offset + entry.length]
    assert len(plain) == entry.size == expected.size
    assert replace(expected, line=4, offset=entry.offset, length=entry.length) == replace(
        entry, section=None, expanded=0
    )


@pytest.mark.parametrize(
    ("shared", "own", "cap"),
    [
        ({"max_tokens": 5}, {}, 5),
        ({"max_tokens": 5}, {"max_tokens": 7}, 7),
        ({"max_completion_tokens": 5}, {"max_tokens": 7}, 7),
        ({"max_tokens": 5}, {"max_completion_tokens": 7}, 7),
        ({"max_completion_tokens": 5}, {"max_tokens": None}, 0),
        ({"max_completion_tokens": 5}, {"temperature": 0}, 5),
    ],
)
def test_a_limit_by_one_name_replaces_one_by_another(shared: dict[str, Any], own: dict[str, Any], cap: int) -> None:
    """Else the section's would win, since engines prefer one name."""
    line = part("a", **own)
    of = section("s", CHAT, message("x"), **shared)

    body = expand(of, line)["body"]

    assert cap == only(of, line).cap
    assert 1 == sum(name.startswith("max_") for name in body)


def test_a_request_may_have_no_messages_of_its_own() -> None:
    """Then the section's are all: the same question with other parameters."""
    for body in ({"seed": 1}, {"messages": []}, {"messages": None}):
        assert [(3, "a", None)] == told(SHARED, {"custom_id": "a", "section": "s", "body": body})
        assert (
            SHARED["messages"] == expand(SHARED, {"custom_id": "a", "section": "s", "body": body})["body"]["messages"]
        )


@pytest.mark.parametrize(
    ("url", "shared", "own"),
    [
        (COMPLETIONS, {}, {"prompt": "x"}),
        (EMBEDDINGS, {"input": ["y"]}, {"dimensions": 9}),
        (RESPONSES, {"instructions": "Be brief."}, {"input": "x"}),
    ],
)
def test_sections_serve_every_endpoint(url: str, shared: dict[str, Any], own: dict[str, Any]) -> None:
    """What has no messages shares its parameters."""
    assert (url, "echo") == (only(of := section("s", url, **shared), part("a", **own)).url, of["body"]["model"])


def test_what_messages_of_the_section_hold_counts_for_its_requests() -> None:
    """A contract without pictures refuses them wherever they stand."""
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}

    assert Fact.IMAGE | Fact.TOOLS == only(section("s", CHAT, picture, tools=[]), part("a")).facts


def test_prompts_of_the_section_are_counted_for_its_requests() -> None:
    """Each of them asks for answers; a request with its own has its own."""
    of = section("s", COMPLETIONS, prompt=["a", "b", [7, 8]], n=2)

    assert (6, 9, 4) == (
        only(of, part("a")).n,
        only(of, part("a", n=3)).n,
        only(of, part("a", prompt=["c", "d"])).n,
    )


def test_the_same_section_serves_any_request_behind_it() -> None:
    """Sections may stand all at the beginning, or each before its own; and need not be used."""
    other = section("t", CHAT, message("x"))

    assert [(4, "a", None), (5, "b", None), (6, "c", None)] == told(
        SHARED, other, part("a", "t"), part("b", "s"), part("c", "t")
    )
    assert [(3, "a", None), (5, "b", None)] == told(SHARED, part("a", "s"), other, part("b", "t"))


BAD_SECTIONS: list[tuple[object, str, str | None]] = [
    ({"body": {}}, "missing_required_parameter", "custom_id"),
    (SHARED | {"section": None}, "missing_required_parameter", "section"),
    (SHARED | {"section": ""}, "invalid_request", "section"),
    (SHARED | {"section": 7}, "invalid_request", "section"),
    (SHARED | {"section": "n" * 513}, "invalid_request", "section"),
    (SHARED | {"method": None}, "missing_required_parameter", "method"),
    (SHARED | {"method": "GET"}, "invalid_request", "method"),
    (SHARED | {"url": None}, "missing_required_parameter", "url"),
    (SHARED | {"url": "/v1/chat"}, "url_mismatch", "url"),
    (SHARED | {"body": "x"}, "invalid_request", "body"),
    (SHARED | {"body": {"mood": "calm"}}, "invalid_request", "body.mood"),
    (SHARED | {"body": {"messages": []}}, "invalid_request", "body.messages"),
    (SHARED | {"messages": "x"}, "invalid_request", "messages"),
    (SHARED | {"messages": ["x"]}, "invalid_request", "messages[0]"),
    (SHARED | {"messages": [message("x"), message("x", "nobody")]}, "invalid_request", "messages[1].role"),
    (section("s", EMBEDDINGS, message("x")), "invalid_request", "messages"),
    (SHARED | {"custom_id": "a"}, "invalid_request", "messages"),
    (SHARED | {"custom_id": None}, "invalid_request", "messages"),
    ([SHARED], "invalid_json_line", None),
    (FORMAT, "invalid_request", "format"),
]


@pytest.mark.parametrize(("line", "code", "param"), BAD_SECTIONS, ids=range(len(BAD_SECTIONS)))
def test_a_bad_section_is_an_error_and_none_to_use(line: object, code: str, param: str | None) -> None:
    """Its requests say so; a good section of that name behind it is the first."""
    assert [
        (2, code, param),
        (3, "invalid_request", "section"),
        (5, "b", None),
    ] == told(line, part("a"), SHARED, part("b"))


@pytest.mark.parametrize(
    ("line", "code", "param"),
    [
        (part("a", "t"), "invalid_request", "section"),
        (part("a", None), "missing_required_parameter", "section"),
        (part("a", ["s"]), "invalid_request", "section"),
        (request("a"), "missing_required_parameter", "section"),
        (part("a") | {"messages": [message("x")]}, "invalid_request", "messages"),
        (part("a") | {"body": None}, "missing_required_parameter", "body"),
        (part("a") | {"body": []}, "invalid_request", "body"),
        (part("a") | {"url": "/v1/x"}, "url_mismatch", "url"),
        (part("a") | {"method": "GET"}, "invalid_request", "method"),
        (part("a", model=None), "missing_required_parameter", "body.model"),
        (part("a", stream=True), "invalid_request", "body.stream"),
        (part("a", mood=1), "invalid_request", "body.mood"),
        (part("a", n=0), "invalid_request", "body.n"),
        (part("a", messages="x"), "invalid_request", "body.messages"),
        (part("a", messages=[message("x"), 7]), "invalid_request", "body.messages[2]"),
        (part(None), "missing_required_parameter", "custom_id"),
        (part(""), "invalid_request", "custom_id"),
    ],
)
def test_a_bad_request_is_an_error_of_its_plain_line(line: object, code: str, param: str) -> None:
    """Its neighbours run; messages are counted as they stand in the plain line, the section's first."""
    assert [(3, code, param), (4, "z", None)] == told(SHARED, line, part("z"))


def test_what_a_request_may_replace_is_judged_of_each_request() -> None:
    """A section of no model, or one that streams, is no error where its requests put it right."""
    of = section("s", CHAT, message("x"), model=None, stream=True)

    assert [
        (3, "a", None),
        (4, "invalid_request", "body.stream"),
        (5, "missing_required_parameter", "body.model"),
    ] == told(of, part("a", model="m", stream=False), part("b", model="m"), part("c", stream=None))


def test_of_two_sections_of_one_name_the_second_is_an_error() -> None:
    """Both lines are named, and the first one counts."""
    again = SHARED | {"body": {"model": "other"}}

    found = scan(jsonl(FORMAT, SHARED, again, part("a")))

    message = "lines 2 and 3 are sections of the same name"
    assert LineError(3, "invalid_request", message, "section") == found[1]
    assert "echo" == getattr(found[2], "model", None)


def test_a_custom_id_counts_once_whatever_its_section() -> None:
    """A duplicate is one; a line that is refused has used its id."""
    other = section("t", CHAT, message("x"))

    assert [
        (4, "a", None),
        (5, "duplicate_custom_id", "custom_id"),
        (6, "invalid_request", "section"),
        (7, "duplicate_custom_id", "custom_id"),
    ] == told(SHARED, other, part("a"), part("a", "t"), part("b", "nobody"), part("b"))


def test_two_fields_of_one_name_are_the_last() -> None:
    """In sections and requests as in any line."""
    of = (
        written(SHARED)
        .replace(b'"temperature": 0.5', b'"max_tokens": 1, "max_tokens": 3')
        .replace(b', "max_tokens": 9', b"")
    )
    content = (
        jsonl(FORMAT)
        + of
        + b'\n{"custom_id": "x", "section": "t", "section": "s", "custom_id": "a", "body": {"n": 1, "n": 2}}'
    )

    entry = scan(content)[-1]

    assert isinstance(entry, Entry)
    assert ("a", 3, 2) == (entry.custom_id, entry.cap, entry.n)


@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("before", [b"", b"\n", b"\r\n \t\n"])
def test_the_format_is_the_first_line_that_is_not_blank(mark: bytes, before: bytes) -> None:
    """Behind a byte order mark, behind blank lines."""
    found = scan(mark + before + jsonl(FORMAT, SHARED, part("a")))

    assert [Section, Entry] == [type(item) for item in found]


def test_a_format_anywhere_else_is_an_error() -> None:
    """Of a plain file, and of a sectioned one: two files were put together."""
    plain = jsonl(request("a"), FORMAT, SHARED, request("b"))
    twice = jsonl(FORMAT, SHARED, part("a"), FORMAT, part("b"))

    assert [(1, None), (2, "format"), (3, "custom_id"), (4, None)] == [
        (item.line, getattr(item, "param", None)) for item in scan(plain)
    ]
    assert [(2, None), (3, None), (4, "format"), (5, None)] == [
        (item.line, getattr(item, "param", None)) for item in scan(twice)
    ]


@pytest.mark.parametrize("format", ["batchrouter.sectioned.v2", "", None, 1, ["batchrouter.sectioned.v1"]])
def test_an_unknown_format_is_one_error(format: object) -> None:  # noqa: A002 - as the field is called
    """The rest is read as a sectioned file."""
    found = scan(jsonl({"format": format}, SHARED, part("a")))

    assert ("invalid_request", "format") == (getattr(found[0], "code", None), getattr(found[0], "param", None))
    assert [Section, Entry] == [type(item) for item in found[1:]]


def test_a_request_with_a_field_called_format_is_a_request() -> None:
    """As fields that nobody knows are passed over beside the body."""
    assert [Entry] == [type(item) for item in scan(jsonl(request("a") | FORMAT))]


def test_who_forgot_the_format_is_told() -> None:
    """The errors stay those of a plain file, and say what is missing."""
    found = scan(jsonl(SHARED, part("a")))

    assert [("missing_required_parameter", "custom_id"), ("missing_required_parameter", "method")] == [
        (getattr(item, "code", None), getattr(item, "param", None)) for item in found
    ]
    assert all(
        'begins with the line {"format": "batchrouter.sectioned.v1"}' in getattr(item, "message", "") for item in found
    )


@pytest.mark.parametrize("lines", [(), (SHARED,)])
def test_a_file_without_a_request_is_empty(lines: tuple[object, ...]) -> None:
    """A format and sections are nothing to run."""
    with pytest.raises(Refused) as refused:
        scan(jsonl(FORMAT, *lines))

    assert "empty_file" == refused.value.code


def test_where_sections_are_not_taken_the_file_is_refused() -> None:
    """At its first line, whatever follows."""
    scanner = Scanner(Limits(sectioned=False))

    with pytest.raises(Refused) as refused:
        list(scanner.feed(jsonl(FORMAT)))

    assert ("invalid_file_format", "file") == (refused.value.code, refused.value.param)


@pytest.mark.parametrize("extra", [0, 1])
def test_the_expanded_line_is_measured(extra: int) -> None:
    """As many bytes as the limit are taken; one more is not, though both lines are short."""
    line = part("a", messages=[message("x")])
    size = len(msgspec.json.encode(expand(SHARED, line)))

    first, second = scan(jsonl(FORMAT, SHARED, line), Limits(line_bytes=size - extra))

    assert isinstance(first, Section)
    assert ("request_too_large" if extra else None) == getattr(second, "code", None)


def test_messages_are_as_deep_as_in_the_plain_line() -> None:
    """There they stand one level further down."""
    deep: list[object] = []
    for _ in range(195):
        deep = [deep]
    good = section("s", CHAT, {"role": "user", "content": deep})
    bad = section("s", CHAT, {"role": "user", "content": [deep]})

    assert [(3, "a", None)] == told(good, part("a"))
    assert [(2, "invalid_json_line", None), (3, "invalid_request", "section")] == told(bad, part("a"))


def test_a_plain_line_of_sections_costs_what_it_is() -> None:
    """Shards are cut by whole requests; their lines know where the section stands."""
    long = section("s", CHAT, message("x" * 4_000))
    index = [item for item in scan(jsonl(FORMAT, long, *(part(str(n)) for n in range(10)))) if isinstance(item, Entry)]

    shards = [shard.lines for shard in cut(index, ShardSize(tokens=2_200), default_cap=1)]

    assert [2] * 5 == [len(shard) for shard in shards]
    assert {Span(len(jsonl(FORMAT)), len(written(long)))} == {line.section for shard in shards for line in shard}


REGISTRY = Registry(
    tuple(
        Model(
            id=name,
            revision=name,
            source="",
            engine="echo",
            endpoints=(CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES),
            context=9,
            max_output=9,
        )
        for name in ("echo", OTHER)
    )
)
LIMITS = Limits(line_bytes=1_200, custom_id_chars=8)


def without_place(item: Item) -> object:
    """Give what a scan says of a line, but for where it stands."""
    if isinstance(item, Entry):
        return replace(item, offset=0, length=item.size, section=None, expanded=0)
    assert isinstance(item, LineError)
    return replace(item, message="") if item.code == "request_too_large" else item


@settings(max_examples=400)
@given(files())
def test_a_sectioned_file_is_judged_as_its_plain_twin(twins: Twins) -> None:
    """Line by line: the scan says the same of both, and so does every contract's judge."""
    assume(all(len(line) <= LIMITS.line_bytes for line in twins.sectioned.split(b"\n")))
    sectioned = [item for item in scan_or_nothing(twins.sectioned) if not isinstance(item, Section)]
    plain = scan_or_nothing(twins.plain)

    assert list(map(without_place, plain)) == list(map(without_place, sectioned))
    for contract in CONTRACTS.values():
        for endpoint in (CHAT, EMBEDDINGS, None):
            errors = [list(Judge(endpoint, contract, REGISTRY, "acme").errors(index)) for index in (sectioned, plain)]
            assert [replace(error, message="") for error in errors[0]] == [
                replace(error, message="") for error in errors[1]
            ]


@settings(max_examples=200)
@given(files())
def test_what_is_read_again_is_what_the_plain_twin_says(twins: Twins) -> None:
    """From the places in the index: the same request, byte by byte."""
    plain = {item.line: item for item in scan_or_nothing(twins.plain) if isinstance(item, Entry)}
    for item in scan_or_nothing(twins.sectioned):
        if not isinstance(item, Entry) or item.section is None:
            continue
        of = decoded(at(twins.sectioned, item.section))
        found = read_request(at(twins.sectioned, Span(item.offset, item.length)), item.line, of)
        twin = at(twins.plain, Span(plain[item.line].offset, plain[item.line].length))
        assert isinstance(found, RequestLine)
        assert twin == msgspec.json.encode(
            {"custom_id": found.custom_id, "method": "POST", "url": found.url, "body": found.body}
        )


def at(content: bytes, place: Span) -> bytes:
    """Give the bytes of a place."""
    return content[place.offset : place.offset + place.length]


def scan_or_nothing(content: bytes) -> list[Item]:
    """Scan a file under the limits here; nothing is in one that is refused as empty."""
    try:
        return scan(content, LIMITS)
    except Refused as refused:
        if refused.code != "empty_file":
            raise
        return []


def legs(content: bytes, stops: Iterable[int]) -> Iterator[bytes]:
    """Scan a file in legs, each by a new scanner that knows the index so far and the position alone."""
    so_far = b""
    scanner = Scanner(LIMITS)
    for start, stop in pairwise([0, *stops]):
        begin = scanner.position.offset if start else 0
        so_far += b"".join([*scanner.feed(content[begin:stop]), *scanner.pause()])
        scanner = Scanner(LIMITS, scanner.position)
        scanner.remember(entries([so_far]))
    yield so_far
    yield from scanner.feed(content[scanner.position.offset :])
    yield from scanner.finish()


def test_a_scan_that_stops_anywhere_knows_the_sections_before() -> None:
    """Wherever the legs end: before the format, inside of it, of a section, of a request."""
    content = (
        BOM
        + b"\r\n"
        + jsonl(
            FORMAT,
            SHARED,
            part("a", messages=[message("é")]),
            SHARED,
            section("t", EMBEDDINGS, input="x"),
            [],
            part("b", "t"),
            part("a", "t"),
            part("c", "nobody"),
            FORMAT,
            part("d"),
        )
    )
    expected = scan(content, LIMITS)

    for stop in range(1, len(content)):
        assert expected == list(entries(legs(content, [stop])))
    for step in (1, 10, 100):
        assert expected == list(entries(legs(content, range(step, len(content), step))))


def test_a_file_has_only_so_many_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is an error, and its requests are; those before go on."""
    monkeypatch.setattr(outlines, "MOST_SECTIONS", 2)
    sections = [section(name, CHAT, message("x")) for name in "stu"]

    assert [(4, "invalid_request", "section"), (5, "a", None), (6, "invalid_request", "section")] == told(
        *sections, part("a", "t"), part("b", "u")
    )


def test_as_many_sections_as_a_file_may_have_are_held_in_little_memory() -> None:
    """However long they are: what a scan keeps of them is small."""
    head, tail = written(section("@", CHAT, message("word " * 1_000), temperature=0.5)).split(b"@")
    scanner = Scanner(Limits())
    tracemalloc.start()
    list(scanner.feed(jsonl(FORMAT)))
    for number in range(MOST_SECTIONS):
        for frame in scanner.feed(b"%b%d%b\n" % (head, number, tail)):
            assert len(frame) < 512 * 300
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak <= 20 << 20


def test_a_section_of_many_megabytes_is_held_as_little_as_a_short_one() -> None:
    """Its requests are judged by what the scan noted of it."""
    big = section("s", CHAT, *[message("x" * 1_000)] * 10_000, response_format={"type": "x" * 5_000_000})
    scanner = Scanner(Limits())
    index = [*scanner.feed(jsonl(FORMAT, big))]
    del big
    tracemalloc.start()
    for number in range(1_000):
        index += scanner.feed(jsonl(part(str(number), messages=[message("y")])))
    index += scanner.finish()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert 1_000 == scanner.summary.requests
    assert peak <= 4 << 20
    assert sum(map(len, index)) <= 1_000 * 100 + 1_000
