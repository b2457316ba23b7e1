import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpu_job.structured import INVALID, LATE, LATE_ENOUGH, Flaw, Format, StructuredOutputs, wanted
from shared.core.request_line import RequestLine

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checker() -> AsyncIterator[StructuredOutputs]:
    """One checker, so that what one schema does to it would be seen by the next."""
    made = StructuredOutputs(cpu_seconds=0.5)
    yield made
    await made.close()


def chat(*texts: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """Give an answer with a choice for each text."""
    return {
        "choices": [{"message": {"content": text, **message}, "finish_reason": finish, "index": 0} for text in texts]
    }


def response(*texts: str, status: str = "completed") -> dict[str, Any]:
    """Give an answer of /v1/responses with one message of these parts, behind some reasoning."""
    parts = [{"type": "output_text", "text": text} for text in texts]
    return {"status": status, "output": [{"type": "reasoning"}, {"type": "message", "content": parts}]}


def request(url: str = CHAT, **body: Any) -> RequestLine:
    """Give a request with these fields."""
    return RequestLine("a", url, "m", body, 0, 1)


@pytest.mark.parametrize(
    ("told", "form"),
    [
        (request(), None),
        (request(response_format=None), None),
        (request(response_format="json"), None),
        (request(response_format={"type": "text"}), None),
        (request(response_format={"type": "json_object"}), Format(None)),
        (request(response_format={"type": "json_schema", "json_schema": {"schema": PERSON}}), Format(PERSON)),
        (request(response_format={"type": "json_schema", "json_schema": {"name": "any"}}), Format(schema=True)),
        (request(RESPONSES, text={"format": {"type": "json_schema", "name": "p", "schema": PERSON}}), Format(PERSON)),
        (request(RESPONSES, text={"format": {"type": "json_object"}}), Format(None)),
        (request(RESPONSES, text={"verbosity": "low"}), None),
        (request(RESPONSES, response_format={"type": "json_object"}), None),
    ],
)
async def test_what_is_wanted_is_read_from_the_request(told: RequestLine, form: Format | None) -> None:
    """Chats and completions say it in one field, responses in another; what is no format is the engine's to refuse."""
    assert form == wanted(told)


@pytest.mark.parametrize(
    "body",
    [
        chat('{"name": "Ada"}'),
        chat('{"name": "Ada", "age": 36}', '{"name": "Grace"}'),
        {"choices": [{"text": '{"name": "Ada"}', "finish_reason": "stop"}]},
        response('{"name": ', '"Ada"}'),
        chat('{"name": "A', finish="length"),
        response('{"name": "A', status="incomplete"),
        chat(None, tool_calls=[{"id": "call_1"}], finish="tool_calls"),
        chat(None, refusal="I will not."),
        {"choices": []},
    ],
)
async def test_an_answer_that_fits_or_was_cut_off_counts(checker: StructuredOutputs, body: dict[str, Any]) -> None:
    """Every choice is what the schema asks for; one that was cut off at its cap, or is no answer in words, is given as it is."""
    assert None is await checker.flaw(CHAT, Format(PERSON), body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (chat('{"name": "Ada"'), "is not JSON"),
        (chat("Ada"), "is not JSON"),
        (chat('{"name": NaN}'), "is not JSON"),
        (chat('{"name": "Ada"} and more'), "is not JSON"),
        (chat(""), "is not JSON"),
        (chat(None), "is not JSON"),
        (chat("[" * 100_000), "is not JSON"),
        (chat('{"age": 36}'), "`$` breaks the rule `required`"),
        (chat('{"name": "Ada", "age": -1}'), "`$.age` breaks the rule `minimum`"),
        (chat('{"name": "Ada", "town": "London"}'), "`$` breaks the rule `additionalProperties`"),
        (chat('{"name": "Ada"}', "[]"), "`$` breaks the rule `type`"),
        ({"choices": [{"text": "[]", "finish_reason": "stop"}]}, "`$` breaks the rule `type`"),
        (response("[]"), "`$` breaks the rule `type`"),
        ({"choices": [{"message": {"content": 7}}]}, "is not JSON"),
    ],
)
async def test_an_answer_that_is_something_else_does_not(
    checker: StructuredOutputs, body: dict[str, Any], said: str
) -> None:
    """The message says where it is wrong, and not what stands there."""
    flaw = await checker.flaw(CHAT, Format(PERSON), body)
    assert flaw is not None
    assert (INVALID, None) == (flaw.code, flaw.param)
    assert said in flaw.message


@pytest.mark.parametrize("body", [{}, {"choices": 7}, {"choices": ["x"]}, {"output": None}, {"output": [7]}])
async def test_what_is_no_answer_has_nothing_to_check(checker: StructuredOutputs, body: dict[str, Any]) -> None:
    """An engine may say anything."""
    assert None is await checker.flaw(CHAT, Format(PERSON), body)


@pytest.mark.parametrize(
    ("text", "good"), [('{"a": 1}', True), ("{}", True), ("[]", False), ("1", False), ("x", False)]
)
async def test_an_object_without_a_schema_is_any_object(checker: StructuredOutputs, text: str, good: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """`json_object` asks for no more."""
    assert good is (await checker.flaw(CHAT, Format(None), chat(text)) is None)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "not-a-type"}, "breaks the rules of JSON Schema"),
        ({"$ref": "#"}, "refers to itself without end"),
        ({"$ref": "#/nowhere"}, "refers to what is not in it"),
        ({"$ref": "https://example.com/schema.json"}, "refers to what is not in it"),
        ({"$ref": "http://169.254.169.254/latest/meta-data"}, "refers to what is not in it"),
        ({"$ref": "file:///etc/passwd"}, "refers to what is not in it"),
        ({"$schema": 7}, "breaks the rules of JSON Schema"),
        ({"$id": 7, "$ref": 7}, "breaks the rules of JSON Schema"),
        (7, "breaks the rules of JSON Schema"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_the_caller_s_to_mend(
    checker: StructuredOutputs, schema: object, said: str
) -> None:
    """The error names the field. Nothing is fetched from anywhere: a reference leads into the schema itself, or nowhere."""
    flaw = await checker.flaw(CHAT, Format(schema), chat("{}"))
    assert flaw is not None
    assert ("invalid_request", "body.response_format") == (flaw.code, flaw.param)
    assert said in flaw.message
    of_response = await checker.flaw(RESPONSES, Format(schema), response("{}"))
    assert of_response is not None
    assert "body.text.format" == of_response.param


async def test_a_schema_that_is_elsewhere_is_not_read(checker: StructuredOutputs, tmp_path: Path) -> None:
    """Not even one that is there, and that everything would satisfy."""
    (tmp_path / "any.json").write_text("{}")
    flaw = await checker.flaw(CHAT, Format({"$ref": (tmp_path / "any.json").as_uri()}), chat("{}"))
    assert flaw is not None
    assert "refers to what is not in it" in flaw.message


async def test_a_schema_that_takes_for_ever_costs_its_own_row_and_nobody_else_s(checker: StructuredOutputs) -> None:
    """It is stopped, and after some such rows not begun any more; other schemas are checked as ever."""
    late = Flaw("invalid_request", f"The answer could not be checked: {LATE}.", "body.response_format")
    evil = Format({"pattern": "^(a+)+$"})
    for _ in range(LATE_ENOUGH + 100):
        assert late == await checker.flaw(CHAT, evil, chat(json.dumps("a" * 64 + "!")))
        assert None is await checker.flaw(CHAT, Format(PERSON), chat('{"name": "Ada"}'))


async def test_references_that_multiply_are_stopped_too(checker: StructuredOutputs) -> None:
    """Thirty definitions of two references each are a thousand million rules."""
    definitions: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d30": {}}}
    flaw = await checker.flaw(CHAT, Format(schema), chat("{}"))
    assert flaw is not None
    assert LATE in flaw.message


async def test_patterns_that_python_does_not_know_are_passed_over(checker: StructuredOutputs) -> None:
    """They are JavaScript's, which knows classes of Unicode: what cannot be checked is no flaw, and the rest is checked."""
    schema = {"type": "string", "pattern": r"^\p{L}+$", "maxLength": 3}
    assert None is await checker.flaw(CHAT, Format(schema), chat('"Ada"'))
    flaw = await checker.flaw(CHAT, Format(schema), chat('"Grace"'))
    assert flaw is not None
    assert "maxLength" in flaw.message


async def test_a_deep_answer_is_checked_to_its_bottom(checker: StructuredOutputs) -> None:
    """A tree of as many levels as a line may have."""
    tree = Format({"type": "array", "items": {"$ref": "#"}})
    assert None is await checker.flaw(CHAT, tree, chat("[" * 200 + "]" * 200))
    assert None is not await checker.flaw(CHAT, tree, chat("[" * 200 + "1" + "]" * 200))


async def test_a_row_that_is_forgotten_leaves_no_word_behind_for_the_next_one(checker: StructuredOutputs) -> None:
    """A lease may be lost in the middle of a check."""
    for _ in range(20):
        forgotten = asyncio.create_task(checker.flaw(CHAT, Format(PERSON), chat("[]")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        forgotten.cancel()
        assert None is await checker.flaw(CHAT, Format(PERSON), chat('{"name": "Ada"}'))
        await asyncio.gather(forgotten, return_exceptions=True)


async def test_the_process_ends_with_the_checker() -> None:
    """And is made anew when it is needed again."""
    made = StructuredOutputs()
    await made.close()
    for _ in range(2):
        assert None is await made.flaw(CHAT, Format(PERSON), chat('{"name": "Ada"}'))
        process = made._process
        assert process is not None
        await made.close()
        assert process.returncode is not None


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f30a", "\n"])
async def test_a_flaw_in_a_place_with_an_endless_name_is_told_in_short(checker: StructuredOutputs, letter: str) -> None:
    """The names of fields are the schema's, as long as a line may be; neither the row nor the way to it grows with them."""
    name = letter * 200_000
    flaw = await checker.flaw(CHAT, Format({"additionalProperties": {"type": "string"}}), chat(json.dumps({name: 1})))
    assert flaw is not None
    assert (INVALID, True) == (flaw.code, len(flaw.message) < 300)
    flaw = await checker.flaw(CHAT, Format({"properties": {name: {"type": "nothing"}}}), chat("{}"))
    assert flaw is not None
    assert ("invalid_request", True) == (flaw.code, len(flaw.message) < 300)
