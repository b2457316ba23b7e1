"""The scan of an input file: what counts as a line, what the index says of it, and how it is read back."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from shared.core.errors import Refused
from shared.core.facts import Fact
from shared.core.request_line import Limits, LineError
from shared.core.scan import FRAME_LINES, HEADER_BYTES, Entry, Scanner, Summary, entries
from tests.core.lines import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, request, written

LIMITS = Limits()
BOM = b"\xef\xbb\xbf"


def frames(*pieces: bytes, limits: Limits = LIMITS) -> list[bytes]:
    """Scan a file that comes in these pieces."""
    scanner = Scanner(limits)
    return [frame for piece in pieces for frame in scanner.feed(piece)] + list(scanner.finish())


def scan(content: bytes, limits: Limits = LIMITS) -> list[Entry | LineError]:
    """Scan a file, and read its index."""
    return list(entries(frames(content, limits=limits)))


def lines(content: bytes) -> list[tuple[int, str]]:
    """Say of each line its number and its custom_id or the code of its error."""
    return [(item.line, item.custom_id if isinstance(item, Entry) else item.code) for item in scan(content)]


def file(*ids: str, end: bytes = b"\n") -> bytes:
    """Give a file of good lines."""
    return b"".join(written(request(custom_id)) + end for custom_id in ids)


def summary(content: bytes) -> Summary:
    """Scan a file, and give what was found."""
    scanner = Scanner(LIMITS)
    for _ in scanner.feed(content):
        pass
    for _ in scanner.finish():
        pass
    return scanner.summary


def test_a_line_is_found_where_it_lies() -> None:
    """Offset and length cut the very line out of the file, without its newline, its carriage return or the mark."""
    plain = [written(request("a")), written(request("ü" * 9)), written(request("c"))]
    content = BOM + plain[0] + b"\n\r\n" + plain[1] + b"\r\n" + plain[2]

    found = scan(content)

    assert all(isinstance(item, Entry) for item in found)
    assert plain == [content[item.offset : item.offset + item.length] for item in found if isinstance(item, Entry)]


def test_the_index_holds_what_validate_and_plan_need() -> None:
    """Everything but the prefixes stands in the line itself."""
    line = request("a", EMBEDDINGS, user="x") | {"url": CHAT}
    line["body"] = request("a", max_tokens=9, n=2, tools=[{}], top_logprobs=3)["body"]
    (entry,) = scan(written(line))

    assert isinstance(entry, Entry)
    expected = Entry(1, 0, len(written(line)), "a", CHAT, "echo", 9, 2, entry.prefixes, facts=Fact.TOOLS, logprobs=3)
    assert expected == entry


def test_every_set_of_facts_survives_the_index() -> None:
    """Several refused things in one line are one number."""
    several = request(tools=[], store=True, messages=[{"role": "user", "content": [{"type": "video_url"}]}])
    (entry,) = scan(written(several))

    assert isinstance(entry, Entry)
    assert Fact.TOOLS | Fact.STORE | Fact.VIDEO == Fact(entry.facts)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("final", [True, False])
def test_newlines_are_as_people_have_them(end: bytes, mark: bytes, *, final: bool) -> None:
    """Carriage returns, a mark at the start, no newline at the end: the same two lines."""
    content = mark + file("a", "b", end=end)

    assert [(1, "a"), (2, "b")] == lines(content if final else content.removesuffix(end))


def test_blank_lines_are_skipped_and_counted() -> None:
    """Line numbers are those of the file, as an editor shows them."""
    content = b"\n" + file("a") + b"\n \t\r\n\x0b\x0c\n[]\n" + file("b") + b"\n\n"

    assert [(2, "a"), (6, "invalid_json_line"), (7, "b")] == lines(content)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\r"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    """What some readers take for a line end is data in a string, raw where JSON allows that, else escaped."""
    line = request("a", messages=[{"role": "user", "content": f"one{separator}two"}])

    assert [(1, "a"), (2, "b")] == lines(written(line) + b"\n" + file("b"))


def test_raw_control_characters_are_no_json() -> None:
    """A vertical tab inside a string must be escaped."""
    assert [(1, "invalid_json_line")] == lines(written(request("a")).replace(b"hi", b"h\x0bi"))


def test_a_mark_anywhere_else_is_no_mark() -> None:
    """Only the very first bytes of a file are a byte order mark; a second one is part of the line."""
    assert [(1, "a"), (2, "invalid_json_line")] == lines(file("a") + BOM + file("b"))
    assert [(1, "invalid_json_line")] == lines(BOM + BOM + file("a"))


@pytest.mark.parametrize("content", [b"", b"\n", b"\r\n \n\t", BOM, BOM + b"\n"])
def test_a_file_without_a_line_is_refused(content: bytes) -> None:
    """Nothing, blanks and a lone mark are an empty file."""
    with pytest.raises(Refused) as refused:
        scan(content)

    assert "empty_file" == refused.value.code


def test_a_file_of_bad_lines_is_not_empty() -> None:
    """The errors are for the batch to show."""
    assert [(1, "invalid_json_line")] == lines(b"x")


@pytest.mark.parametrize("raw", [b"caf\xe9", b'{"a": "\xff"}', b"\xff\xfe{\x00}\x00"])
def test_bytes_that_are_not_utf8_refuse_the_file(raw: bytes) -> None:
    """The message says the line, and to save as UTF-8."""
    with pytest.raises(Refused, match=r"line 2\); save it as UTF-8") as refused:
        scan(file("a") + raw + b"\n" + file("b"))

    assert ("invalid_encoding", "file") == (refused.value.code, refused.value.param)


def test_zeros_inside_a_file_are_a_bad_line_and_no_encoding() -> None:
    """A file that a crash filled up with NULs has a bad line."""
    assert [(1, "a"), (2, "invalid_json_line")] == lines(file("a") + b"\0" * 50)


def test_the_second_of_two_lines_with_one_custom_id_is_the_error() -> None:
    """Both lines are named; the first one can run."""
    found = scan(file("a", "b", "a", "a"))

    message = "lines 1 and {} have the same custom_id"
    assert [LineError(line, "duplicate_custom_id", message.format(line), "custom_id", "a") for line in (3, 4)] == found[
        2:
    ]


def test_a_line_that_is_refused_has_used_its_custom_id() -> None:
    """Whoever repairs the line must not meet a second one of that name; the refused line keeps its own error."""
    bad = written(request("a", stream=True)) + b"\n"

    assert [(1, "invalid_request"), (2, "duplicate_custom_id")] == lines(bad + file("a"))
    assert [(1, "a"), (2, "invalid_request")] == lines(file("a") + bad)


@pytest.mark.parametrize("mark", [b"", BOM])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(("extra", "code"), [(0, None), (1, "request_too_large"), (99, "request_too_large")])
def test_a_line_is_measured_without_its_end_and_without_the_mark(
    mark: bytes, end: bytes, extra: int, code: str | None
) -> None:
    """As many bytes as the limit are taken, one more is not, whole or byte by byte."""
    line = written(request("a"))
    content = mark + line.ljust(len(line) + extra) + end + file("b")
    limits = Limits(line_bytes=len(line))

    for pieces in ([content], [bytes([byte]) for byte in content]):
        first, second = entries(frames(*pieces, limits=limits))
        assert code == (first.code if isinstance(first, LineError) else None)
        assert (len(mark + line) + extra + len(end), "b") == (getattr(second, "offset", None), second.custom_id)


def test_a_long_line_that_begins_blank_is_no_blank_line() -> None:
    """Too long is too long: that its beginning is blank must not make the rest disappear."""
    content = b" " * 5_000 + file("a")
    limits = Limits(line_bytes=1_000)

    for pieces in ([content], [content[:2_000], content[2_000:]]):
        assert [(1, "request_too_large")] == [
            (item.line, getattr(item, "code", "")) for item in entries(frames(*pieces, limits=limits))
        ]


def test_the_summary_counts_bytes_and_both_kinds_of_lines() -> None:
    """Blank lines are neither; the bytes are all bytes, with a final newline or without."""
    content = BOM + file("a", "b", "a") + b"\n[]"

    assert Summary(len(content), 2, 2) == summary(content)
    assert Summary(len(content) + 1, 2, 2) == summary(content + b"\n")


PREFIX = "You are a careful assistant. " * 90


@pytest.mark.parametrize("url", [CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES])
def test_lines_that_share_the_beginning_of_their_content_share_hashes(url: str) -> None:
    """What stands before the content does not matter; where contents part, longer hashes part too."""

    def prefixes(custom_id: str, text: str) -> tuple[int, ...]:
        content: dict[str, dict[str, Any]] = {
            CHAT: {"messages": [{"role": "user", "content": text}]},
            COMPLETIONS: {"prompt": text},
            EMBEDDINGS: {"input": text},
            RESPONSES: {"input": text},
        }
        (entry,) = scan(written(request(custom_id, url, **content[url])))
        assert isinstance(entry, Entry)
        return entry.prefixes

    short, long = prefixes("a", PREFIX + "one")
    assert (short, long) == prefixes("another", PREFIX + "two")
    assert (short, False) == (prefixes("c", PREFIX[:700])[0], prefixes("c", PREFIX[:700])[1] == long)
    assert short != prefixes("d", "Who? " + PREFIX)[0]


def index() -> list[bytes]:
    """Give an index of three frames of a few lines each."""
    scanner = Scanner(LIMITS)
    made: list[bytes] = []
    for piece in (file("a", "b"), b"[]\n" + file("a"), file("c")):
        made += [*scanner.feed(piece), *scanner.pause()]
    return made + list(scanner.finish())


def test_an_index_is_read_back_however_its_bytes_come_in() -> None:
    """Cut at every place, byte by byte, or frame by frame: the same lines in the same order."""
    whole = b"".join(index())
    expected = list(entries([whole]))

    assert [1, 2, 3, 4, 5] == [item.line for item in expected]
    assert expected == list(entries(index()))
    assert expected == list(entries(bytes([byte]) for byte in whole))
    for at in range(len(whole) + 1):
        assert expected == list(entries([whole[:at], b"", whole[at:]]))


def test_an_index_that_is_cut_off_is_not_read_silently() -> None:
    """Wherever inside a frame or its header the end is missing, it is a ValueError and not a shorter file."""
    made = index()
    whole = b"".join(made)
    borders = {sum(map(len, made[:count])) for count in range(len(made) + 1)}

    assert 4 == len(borders)
    for end in range(len(whole)):
        if end not in borders:
            with pytest.raises(ValueError, match="scan the file again"):
                list(entries([whole[:end]]))


def test_frames_are_bounded_whatever_the_pieces() -> None:
    """A frame comes out as soon as it is full, also when every piece holds one newline only."""
    content = file(*map(str, range(FRAME_LINES + 1)))
    pieces = [line + b"\n" for line in content.splitlines()]
    scanner = Scanner(LIMITS)

    given = [len(list(scanner.feed(piece))) for piece in pieces]

    assert [0] * (FRAME_LINES - 1) + [1, 0] == given
    assert 1 == len(list(scanner.finish()))


def test_an_empty_list_of_frames_is_an_empty_index() -> None:
    """Nothing in, nothing out; a frame's header alone is cut off."""
    assert [] == list(entries([]))
    with pytest.raises(ValueError, match="cut off"):
        list(entries([bytes(HEADER_BYTES - 1)]))


def legs(content: bytes, stops: Iterable[int]) -> Iterator[bytes]:
    """Scan a file in legs, each by a new scanner that is given the bytes from the last position on."""
    so_far = b""
    scanner = Scanner(LIMITS)
    for start, stop in pairwise([0, *stops]):
        so_far += b"".join(
            [*scanner.feed(content[start if start == 0 else scanner.position.offset : stop]), *scanner.pause()]
        )
        scanner = Scanner(LIMITS, scanner.position)
        scanner.remember(entries([so_far]))
    yield so_far
    yield from scanner.feed(content[scanner.position.offset :])
    yield from scanner.finish()


def test_a_scan_that_stops_anywhere_goes_on_as_if_it_had_not() -> None:
    """Lines, offsets and duplicates are the same, wherever the legs end, inside a line too."""
    content = BOM + file("a", "b", end=b"\r\n") + b"\n[]\n" + file("a", "c", "b")
    expected = scan(content)

    for stop in range(1, len(content)):
        assert expected == list(entries(legs(content, [stop])))
    assert expected == list(entries(legs(content, range(100, len(content), 100))))


@pytest.mark.parametrize("content", [b"1\n" * 5_000, file(*map(str, range(5_000)))])
def test_a_file_of_more_lines_than_are_taken_is_not_read_on(content: bytes) -> None:
    """A batch of it fails, whatever follows: nobody is to wait for gigabytes of short lines, nor to keep an index fifty times as large."""
    few = Limits(lines=1_000)
    scanner = Scanner(few)
    index = [frame for at in range(0, len(content), 999) for frame in scanner.feed(content[at : at + 999])]
    index += scanner.finish()

    assert few.lines < len(list(entries(index))) <= few.lines + FRAME_LINES
    assert len(content) == scanner.summary.bytes == scanner.position.offset
    resumed = Scanner(few, scanner.position)
    assert [] == [*resumed.feed(content), *resumed.finish()]


@pytest.mark.parametrize("count", [1_024, 1_025])
def test_a_file_of_as_many_lines_as_are_taken_is_read_to_its_end(count: int) -> None:
    """And of one that has one more, that one is known."""
    assert count == len(scan(b"1\n" * count, Limits(lines=1_024)))
