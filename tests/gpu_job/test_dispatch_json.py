"""Structured outputs and media, from a row to its line in a result file: the real dispatcher, and an echo engine whose answers the prompts write."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gpu_job.dispatch import Dispatcher
from gpu_job.row import SERVED_NAME, prepare
from gpu_job.structured import StructuredOutputs
from gpu_job.upstream import Upstream
from shared.core import request_line
from shared.core.models import Model
from shared.core.plan import PlanLine, ShardPlan
from shared.core.records import Usage
from shared.core.request_line import RequestLine
from tests import dispatching
from tests.gpu_job.engines import echo

pytestmark = pytest.mark.asyncio(loop_scope="module")

URL = "/v1/chat/completions"
MODEL = Model(id="m", revision="m@1", source="", engine="echo", endpoints=(URL,), context=99, max_output=9)
OBJECT = {"type": "json_object"}
NUMBER = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "number"}}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dispatcher(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Dispatcher]:
    """A dispatcher whose engine is ready."""
    engine = echo(tmp_path_factory.mktemp("echo"), "--model", SERVED_NAME)
    structured = StructuredOutputs()
    async with Upstream(engine, max_in_flight=4) as upstream:
        made = dispatching.dispatcher(engine, upstream, structured=structured, row_seconds=60)
        keeper = asyncio.create_task(made.keep_alive())
        await made.ready()
        yield made
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
    await engine.stop()
    await structured.close()


async def answered(dispatcher: Dispatcher, answer: str, contract: str = "openai", **body: Any) -> tuple[Any, Usage]:
    """Ask for exactly this answer; give the row, and what it is charged for."""
    messages = [{"role": "user", "content": f"[[answer]]{answer}"}]
    line = {"custom_id": "a", "method": "POST", "url": URL, "body": {"model": "m", "messages": messages} | body}
    request = request_line.parse(json.dumps(line).encode(), 1)
    assert isinstance(request, RequestLine)
    plan = ShardPlan("batch_1", "acme", contract, "key", URL, [PlanLine(1, 0, 9, "a")])
    finished = await dispatcher.answer(prepare(plan, 0, request, MODEL))
    row = json.loads(finished.data)
    assert finished.ok is (row["response"] is not None and row["response"]["status_code"] == 200)
    return row, finished.usage


@pytest.mark.parametrize("form", [OBJECT, {"type": "json_schema", "json_schema": {"schema": {"required": ["a"]}}}])
async def test_json_that_was_asked_for_is_an_answer(dispatcher: Dispatcher, form: Any) -> None:
    """As any other, charged for."""
    row, usage = await answered(dispatcher, '{"a": 1}', response_format=form)
    assert '{"a": 1}' == row["response"]["body"]["choices"][0]["message"]["content"]
    assert 2 == usage.output_tokens


@pytest.mark.parametrize("contract", ["openai", "boardwalk", "gridline", "token360"])
@pytest.mark.parametrize(("answer", "form"), [("[1]", OBJECT), ('{"a"', OBJECT), ('"seven"', NUMBER)])
async def test_anything_else_is_an_error_and_free(
    dispatcher: Dispatcher, contract: str, answer: str, form: Any
) -> None:
    """In every contract the row has a code and no answer."""
    row, usage = await answered(dispatcher, answer, contract, response_format=form)
    assert (None, "structured_output_invalid") == (row["response"], row["error"]["code"])
    assert Usage() == usage


async def test_an_answer_that_was_cut_off_is_given_as_it_is(dispatcher: Dispatcher) -> None:
    """And charged for: it says itself that its length ended it."""
    row, usage = await answered(dispatcher, '{"a": 1 }', response_format=OBJECT, max_tokens=1)
    choice = row["response"]["body"]["choices"][0]
    assert ('{"a":', "length") == (choice["message"]["content"], choice["finish_reason"])
    assert 1 == usage.output_tokens


async def test_a_schema_that_cannot_be_used_is_a_bad_request(dispatcher: Dispatcher) -> None:
    """Where the engine did not say so already."""
    form = {"type": "json_schema", "json_schema": {"schema": {"$ref": "https://example.com/schema.json"}}}
    row, usage = await answered(dispatcher, "{}", response_format=form)
    error = row["response"]["body"]["error"]
    assert (400, "invalid_request", "body.response_format") == (
        row["response"]["status_code"],
        error["code"],
        error["param"],
    )
    assert Usage() == usage
    row, _ = await answered(dispatcher, "{}", "gridline", response_format=form)
    assert (None, "invalid_request") == (row["response"], row["error"]["code"])


async def test_media_that_cannot_be_had_are_an_error_of_their_row(dispatcher: Dispatcher) -> None:
    """The engine is not asked; it would have answered."""
    part = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
    row, usage = await answered(dispatcher, "", messages=[{"role": "user", "content": [part]}])
    error = row["response"]["body"]["error"]
    assert ("invalid_request", "body.messages[0].content[0].image_url") == (error["code"], error["param"])
    assert Usage() == usage
