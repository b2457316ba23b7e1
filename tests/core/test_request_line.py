"""One line of an input file: what is taken, and the code and the field of what is refused."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict

from shared.core.facts import Fact
from shared.core.request_line import (
    CONTENT,
    FIELDS,
    MAX_DEPTH,
    MAX_INTEGER,
    MESSAGE_BYTES,
    MODEL_CHARS,
    Limits,
    LineError,
    RequestLine,
    parse,
    short,
)
from tests.core.lines import BODIES, CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, request, written

USER = {"role": "user", "content": "hi"}


def taken(value: object) -> RequestLine:
    """Read a line that must be good."""
    line = parse(written(value), 1)
    assert isinstance(line, RequestLine), line
    return line


def refused(raw: bytes, limits: Limits | None = None) -> tuple[str, str | None]:
    """Read a line that must be bad; give code and param."""
    line = parse(raw, 7, limits or Limits())
    assert isinstance(line, LineError)
    assert 7 == line.line
    assert len(line.message.encode()) <= MESSAGE_BYTES
    return line.code, line.param


def nested(depth: int) -> bytes:
    """Give a line nested as deep as that: the line and its body are two levels."""
    deep = "[" * (depth - 2) + "]" * (depth - 2)
    return written(request(stop="@")).replace(b'"@"', deep.encode())


@pytest.mark.parametrize("url", FIELDS)
def test_the_least_that_an_endpoint_needs_is_taken(url: str) -> None:
    """Model and content are enough; the body comes through as it is."""
    expected = RequestLine("a", url, "echo", BODIES[url], cap=0, n=1)

    assert expected == taken(request(url=url))


@pytest.mark.parametrize("url", FIELDS)
def test_every_allowed_field_is_taken_and_no_other(url: str) -> None:
    """The allowlist is the endpoint's own; what is null is as good as not there."""
    allowed = dict.fromkeys(FIELDS[url] - BODIES[url].keys())

    assert BODIES[url] | allowed == taken(request(url=url, **allowed)).body
    for name in ("chat_template", "priority", "cache_salt", "kv_transfer_params", "extra_body", "guided_json", ""):
        assert ("invalid_request", f"body.{name}") == refused(
            written(request(url=url) | {"body": BODIES[url] | {name: 1}})
        )


def test_fields_of_one_endpoint_are_unknown_at_another() -> None:
    """An embedding has no temperature and a chat has no prompt."""
    assert ("invalid_request", "body.temperature") == refused(written(request(url=EMBEDDINGS, temperature=0)))
    assert ("invalid_request", "body.prompt") == refused(written(request(prompt="hi")))


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"hello",
        b"{}x",
        b"{'custom_id': 1}",
        b'{"a": 1,}',
        b"null",
        b"3",
        b'"a"',
        b"[]",
        b"true",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": -1e999}',
        b'{"a": 01}',
        b'{"a": .5}',
        b'{"a": +1}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\udc00\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"a": "\\x41"}',
        b'{"a": "\x01"}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": 1}\x00',
        b'\x0b{"a": 1}',
        b"",
        b"[" * 5000,
        b"[" * 5000 + b"]" * 5000,
    ],
)
def test_what_is_not_a_json_object_is_an_invalid_json_line(raw: bytes) -> None:
    """Malformed text, other values, numbers that no float holds, half surrogate pairs."""
    assert ("invalid_json_line", None) == refused(raw)


def test_depth_is_counted_in_levels_and_not_in_brackets() -> None:
    """200 levels are taken, one more is not; brackets in a string or beside each other do not count."""
    assert isinstance(parse(nested(MAX_DEPTH), 1), RequestLine)
    assert ("invalid_json_line", None) == refused(nested(MAX_DEPTH + 1))
    assert "[{" * 500 == taken(request(user="[{" * 500)).body["user"]
    assert 500 == len(taken(request(stop=[[]] * 500)).body["stop"])


def test_depth_counts_wherever_it_is() -> None:
    """A field that we drop may not be endless either."""
    deep: Any = {}
    for _ in range(MAX_DEPTH):
        deep = {"a": deep}

    assert ("invalid_json_line", None) == refused(written(request() | {"note": deep}))


def test_the_last_of_two_keys_wins_as_in_the_engine() -> None:
    """A repeated key is not an error."""
    raw = written(request()).replace(b'"model": "echo"', b'"model": 3, "model": "echo"')

    assert "echo" == taken(msgspec.json.decode(raw)).model
    assert isinstance(parse(raw, 1), RequestLine)


@pytest.mark.parametrize("name", ["custom_id", "method", "url", "body"])
@pytest.mark.parametrize("how", ["left out", "null"])
def test_a_line_without_one_of_its_fields_says_which(name: str, how: str) -> None:
    """Left out and null are the same."""
    line = request() | {name: None}
    if how == "left out":
        del line[name]

    assert ("missing_required_parameter", name) == refused(written(line))


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("custom_id", 7, "invalid_request"),
        ("custom_id", "", "invalid_request"),
        ("custom_id", ["a"], "invalid_request"),
        ("custom_id", False, "invalid_request"),
        ("custom_id", "x" * 513, "invalid_request"),
        ("method", "GET", "invalid_request"),
        ("method", "post", "invalid_request"),
        ("method", ["POST"], "invalid_request"),
        ("url", "/v1/nothing", "url_mismatch"),
        ("url", "", "url_mismatch"),
        ("url", {}, "url_mismatch"),
        ("url", 5, "url_mismatch"),
        ("body", "hi", "invalid_request"),
        ("body", [], "invalid_request"),
        ("body", 0, "invalid_request"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(name: str, value: object, code: str) -> None:
    """Whatever stands in the place of the field, the answer is an error of that field."""
    assert (code, name) == refused(written(request() | {name: value}))


def test_custom_ids_are_measured_in_characters() -> None:
    """512 of four bytes each are taken; the limit is the contract's."""
    assert "😀" * 512 == taken(request("😀" * 512)).custom_id
    assert ("invalid_request", "custom_id") == refused(written(request("four")), Limits(custom_id_chars=3))


NO_COUNTS: tuple[Any, ...] = (0, -1, 1.0, 2.5, "24", True, [], {}, MAX_INTEGER + 1, 10**30)
WRONG: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
    (CHAT, {"model": None}, ("missing_required_parameter", "body.model")),
    (CHAT, {"model": 3}, ("invalid_request", "body.model")),
    (CHAT, {"model": ["echo"]}, ("invalid_request", "body.model")),
    (CHAT, {"model": "m" * (MODEL_CHARS + 1)}, ("model_not_found", "body.model")),
    (CHAT, {"stream": True}, ("invalid_request", "body.stream")),
    (CHAT, {"stream": "yes"}, ("invalid_request", "body.stream")),
    (CHAT, {"messages": None}, ("missing_required_parameter", "body.messages")),
    (CHAT, {"messages": "hi"}, ("invalid_request", "body.messages")),
    (CHAT, {"messages": {}}, ("invalid_request", "body.messages")),
    (CHAT, {"messages": []}, ("invalid_request", "body.messages")),
    (CHAT, {"messages": [USER, "hi"]}, ("invalid_request", "body.messages[1]")),
    (CHAT, {"messages": [USER, None]}, ("invalid_request", "body.messages[1]")),
    (CHAT, {"messages": [{"content": "hi"}]}, ("invalid_request", "body.messages[0].role")),
    (CHAT, {"messages": [{"role": "robot"}]}, ("invalid_request", "body.messages[0].role")),
    (CHAT, {"messages": [{"role": []}]}, ("invalid_request", "body.messages[0].role")),
    (CHAT, {"messages": [{"role": {"a": 1}}]}, ("invalid_request", "body.messages[0].role")),
    (COMPLETIONS, {"prompt": None}, ("missing_required_parameter", "body.prompt")),
    (COMPLETIONS, {"prompt": 3}, ("invalid_request", "body.prompt")),
    (EMBEDDINGS, {"input": {}}, ("invalid_request", "body.input")),
    *[
        (EMBEDDINGS, {"encoding_format": form}, ("invalid_request", "body.encoding_format"))
        for form in ("bytes", "", 1, [], {})
    ],
    (RESPONSES, {"input": True}, ("invalid_request", "body.input")),
    *[
        (CHAT, {name: number}, ("invalid_request", f"body.{name}"))
        for name in ("n", "max_tokens", "max_completion_tokens")
        for number in NO_COUNTS
    ],
    (RESPONSES, {"max_output_tokens": 0}, ("invalid_request", "body.max_output_tokens")),
]


@pytest.mark.parametrize(("url", "fields", "error"), WRONG)
def test_a_field_of_the_body_of_the_wrong_kind_is_named(
    url: str, fields: dict[str, Any], error: tuple[str, str]
) -> None:
    """Whatever stands in the place of the field, the answer is an error of that field."""
    assert error == refused(written(request(url=url, **fields)))


@pytest.mark.parametrize("value", [False, None])
def test_a_stream_that_is_off_is_no_stream(value: object) -> None:
    """False and null ask for what a batch gives anyway."""
    assert isinstance(taken(request(stream=value)), RequestLine)


@pytest.mark.parametrize(
    ("url", "fields", "cap"),
    [
        (CHAT, {}, 0),
        (CHAT, {"max_tokens": 5}, 5),
        (CHAT, {"max_completion_tokens": 6}, 6),
        (CHAT, {"max_tokens": 5, "max_completion_tokens": 6}, 6),
        (CHAT, {"max_tokens": 5, "max_completion_tokens": None}, 5),
        (CHAT, {"max_tokens": None}, 0),
        (COMPLETIONS, {"max_tokens": MAX_INTEGER}, MAX_INTEGER),
        (RESPONSES, {"max_output_tokens": 7}, 7),
    ],
)
def test_the_cap_is_the_one_that_the_engine_would_obey(url: str, fields: dict[str, Any], cap: int) -> None:
    """`max_completion_tokens` wins over `max_tokens`; null is not there."""
    assert cap == taken(request(url=url, **fields)).cap


@pytest.mark.parametrize(("fields", "n"), [({}, 1), ({"n": None}, 1), ({"n": 3}, 3)])
def test_a_request_asks_for_one_answer_unless_it_says_how_many(fields: dict[str, Any], n: int) -> None:
    """`n` is read for what the batch will cost."""
    assert n == taken(request(**fields)).n


@pytest.mark.parametrize(
    ("prompt", "answers"),
    [("one", 2), (["one"], 2), (["one", "two", "three"], 6), ([1, 2, 3], 2), ([[1, 2], [3]], 4), ([], 2)],
)
def test_each_prompt_of_a_completion_asks_for_answers(prompt: Any, answers: int) -> None:
    """Texts, or lists of tokens; one list of tokens is one prompt."""
    line = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/completions",
        "body": {"model": "m", "prompt": prompt, "n": 2},
    }

    assert answers == taken(line).n


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ({}, Fact(0)),
        ({"tools": []}, Fact.TOOLS),
        ({"tools": None}, Fact(0)),
        ({"functions": [], "tool_choice": "none"}, Fact.TOOLS | Fact.TOOL_CHOICE),
        ({"messages": [USER | {"content": [{"type": "image_url"}, {"type": "file"}]}]}, Fact.IMAGE | Fact.FILE),
        ({"messages": [USER | {"content": [{"type": "text"}, "loose", {"type": []}, None]}]}, Fact(0)),
    ],
)
def test_what_some_contract_refuses_is_noted(fields: dict[str, Any], facts: Fact) -> None:
    """A field counts when it is not null, and a part of a message by its type."""
    assert facts == taken(request(**fields)).facts


@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [
        ({}, 0),
        ({"logprobs": None}, 0),
        ({"logprobs": True}, 1),
        ({"logprobs": False, "top_logprobs": None}, 0),
        ({"logprobs": True, "top_logprobs": 5}, 5),
        ({"top_logprobs": 10**30}, MAX_INTEGER),
        ({"top_logprobs": -(10**30)}, 0),
        ({"logprobs": "5"}, 0),
    ],
)
def test_log_probabilities_are_counted_as_plain_small_numbers(fields: dict[str, Any], logprobs: int) -> None:
    """A switch is a 1, and no number is one that the index could not hold."""
    found = taken(request(**fields)).logprobs

    assert (int, logprobs) == (type(found), found)


def test_an_error_carries_the_name_of_its_line_and_whose_rules_it_broke() -> None:
    """The custom_id for the duplicate check, the url when the body was at fault."""
    assert LineError(3, "invalid_request", "unknown field `body.x`", "body.x", "a", CHAT) == parse(
        written(request(x=1)), 3
    )
    assert LineError(3, "missing_required_parameter", "the line has no `method`", "method", "a") == parse(
        written({"custom_id": "a"}), 3
    )


@pytest.mark.parametrize(
    "line",
    [
        request("x" * 100_000),
        request("a") | {"url": "x" * 100_000},
        request() | {"body": {"x" * 100_000: 1}},
        request() | {"body": {"é" * 100_000: 1}},
        request(model="x" * 100_000),
    ],
)
def test_an_error_is_small_however_large_its_line(line: dict[str, Any]) -> None:
    """A file of bad lines has an index of bounded size: nothing endless is taken over from a line."""
    error = parse(written(line), 1)

    assert isinstance(error, LineError)
    assert all(len(str(value).encode()) <= MESSAGE_BYTES for value in asdict(error).values())


def test_no_error_repeats_what_the_line_says() -> None:
    """Messages name fields and places, never contents."""
    secret = "tell-nobody"
    lines = [
        written(request() | {"method": secret}),
        written(request() | {"url": secret}),
        written(request() | {"body": secret}),
        written(request(model=[secret])),
        written(request(messages=[{"role": secret}])),
        written(request(messages=secret)),
        written(request(n=secret)),
        written(secret),
        b'{"a": "' + secret.encode() + b'", }',
        b'{"a": "' + secret.encode() + b'\\x"}',
    ]

    for line in lines:
        error = parse(line, 1)
        assert isinstance(error, LineError)
        assert secret not in error.message


@pytest.mark.parametrize("url", FIELDS)
def test_what_is_taken_can_be_written_again_and_is_the_same(url: str) -> None:
    """The worker encodes the body for the engine: nothing in it may be beyond the encoder."""
    odd = {"a": [10**100, -(10**100), -0.0, 1e-320, "\u2028\u2029\x85\x7f\x00", {"": None}, [], 2**64, True]}
    body = taken(request(url=url, user=odd)).body if "user" in FIELDS[url] else taken(request(url=url)).body

    assert body == msgspec.json.decode(msgspec.json.encode(body))


def test_every_endpoint_has_its_content() -> None:
    """Allowlist and content are tables of the same endpoints, and the content is allowed."""
    assert FIELDS.keys() == CONTENT.keys()
    assert all({"model", CONTENT[url][0]} <= FIELDS[url] for url in FIELDS)


@pytest.mark.parametrize("text", ["", "x" * 200, "é" * 100])
def test_a_short_message_stays(text: str) -> None:
    """200 bytes are short enough."""
    assert text == short(text)


@pytest.mark.parametrize("text", ["x" * 201, "é" * 101, "x" + "😀" * 60])
def test_a_long_message_is_cut_between_characters(text: str) -> None:
    """It ends with an ellipsis, within 200 bytes, and is still text."""
    cut = short(text)

    assert text.startswith(cut.removesuffix("…"))
    assert cut.endswith("…")
    assert 193 <= len(cut.encode()) <= MESSAGE_BYTES
