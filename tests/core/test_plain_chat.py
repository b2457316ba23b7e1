"""The quick way to read a plain chat says what the slow one says, or nothing."""

from typing import Any

import pytest
from hypothesis import given, settings

from shared.core import plain_chat
from shared.core.request_line import NO_LIMITS, RequestLine, parse
from shared.core.scan import MOSTLY_ODD, Scanner, entries
from tests.core.lines import COMPLETIONS, EMBEDDINGS, request, written
from tests.core.test_scan_reference import ODD_LINES, requests


def assert_agrees(raw: bytes) -> None:
    """Check that what the quick way reads is what the line is."""
    quick = plain_chat.read(raw, NO_LIMITS.custom_id_chars)
    if quick is not None:
        slow = parse(raw, 1)
        assert isinstance(slow, RequestLine)
        assert tuple(quick) == tuple(getattr(slow, name) for name in quick._fields)


@settings(max_examples=300)
@given(requests())
def test_it_agrees_on_whatever_it_reads(raw: bytes) -> None:
    """Most of these lines are good, many are odd."""
    assert_agrees(raw)


@pytest.mark.parametrize("raw", ODD_LINES)
def test_it_agrees_on_odd_lines(raw: bytes) -> None:
    """Bytes that people upload."""
    assert_agrees(raw)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"max_tokens": 5, "max_completion_tokens": 7, "n": 2},
        {"max_tokens": None, "n": None, "stream": None, "stop": None},
        {"temperature": 0, "top_p": 0.5, "seed": -1, "stop": ["a"], "stream": False, "user": "me"},
        {"messages": [{"role": "user", "content": "hi", "name": "ü\u2028"}]},
    ],
)
def test_it_reads_plain_chats(fields: dict[str, Any]) -> None:
    """Otherwise it would be of no use."""
    raw = written(request(**fields))

    assert plain_chat.read(raw, NO_LIMITS.custom_id_chars) is not None
    assert_agrees(raw)


@pytest.mark.parametrize(
    "line",
    [
        request(stream=True),
        request(n=0),
        request(n=1.0),
        request(n=True),
        request(max_tokens=2**31),
        request(tools=[]),
        request(logprobs=True),
        request(messages=[]),
        request(messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
        request(messages=[{"role": "assistant", "content": None}]),
        request(url=COMPLETIONS),
        request(url=EMBEDDINGS),
        request(""),
        request("i" * 513),
        request(model="m" * 257),
    ],
)
def test_it_leaves_all_else_to_the_other(line: dict[str, Any]) -> None:
    """Be it good or bad."""
    assert plain_chat.read(written(line), NO_LIMITS.custom_id_chars) is None


def test_a_file_of_other_lines_becomes_plain_and_odd_again() -> None:
    """When the quick way is given up, and where, changes nothing in the index."""
    odd = [request(f"odd-{index}", tools=[]) for index in range(MOSTLY_ODD * 2)]
    plain = [request(f"plain-{index}") for index in range(10)]
    scanner = Scanner(NO_LIMITS)
    frames = list(scanner.feed(b"".join(written(line) + b"\n" for line in [*plain, *odd, *plain])))
    found = list(entries([*frames, *scanner.finish()]))

    assert [line["custom_id"] for line in [*plain, *odd, *plain]] == [item.custom_id for item in found]
    assert 10 == scanner.summary.errors  # the ids that come again
