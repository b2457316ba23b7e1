import asyncio
import base64
import json
import math
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpu_job.engine import EngineProcess
from gpu_job.upstream import EngineTimeout, EngineUnreachable, Reply, Upstream
from tests.gpu_job.engines import echo, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EngineProcess]:
    """One echo engine for the tests that do not kill it."""
    process = echo(tmp_path_factory.mktemp("echo"), "--max-model-len", "500")
    await process.start()
    yield process
    await process.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def upstream(engine: EngineProcess) -> AsyncIterator[Upstream]:
    """Connect to it."""
    async with Upstream(engine, max_in_flight=8) as connections:
        yield connections


async def post(upstream: Upstream, path: str, body: object, *, limit: float = 60) -> Reply:
    """Post a body as JSON."""
    return await upstream.post(path, json.dumps(body).encode(), timeout=limit)


async def ask(upstream: Upstream, path: str, **body: object) -> dict[str, Any]:
    """Post a body and read the answer, which must be a 200."""
    reply = await post(upstream, path, body)
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = json.loads(reply.body)
    return answer


def user(text: str) -> list[dict[str, str]]:
    """Make the messages of a chat that says one thing."""
    return [{"role": "user", "content": text}]


async def test_a_chat_echoes_the_last_user_message(upstream: Upstream) -> None:
    """The answer is a chat.completion object whose usage counts words."""
    answer = await ask(
        upstream,
        CHAT,
        model="engine",
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "not this"},
            {"role": "assistant", "content": "echo"},
            {"role": "user", "content": "good morning"},
            {"role": "assistant", "content": "a prefill"},
        ],
    )

    assert answer.pop("id").startswith("chatcmpl-")
    assert answer.pop("created") > 1_700_000_000
    assert answer == {
        "object": "chat.completion",
        "model": "engine",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "echo: good morning"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }


async def test_a_message_may_be_a_list_of_parts(upstream: Upstream) -> None:
    """Text parts are read as one text; other parts are passed over."""
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": ""}},
        {"type": "text", "text": "b"},
    ]
    answer = await ask(upstream, CHAT, messages=[{"role": "user", "content": parts}])

    assert answer["choices"][0]["message"]["content"] == "echo: a b"


@pytest.mark.parametrize(
    "limits",
    [
        {"max_tokens": 2},
        {"max_tokens": "2"},
        {"max_completion_tokens": 2},
        {"max_completion_tokens": 2, "max_tokens": 3},
    ],
)
async def test_a_limit_cuts_the_answer(upstream: Upstream, limits: dict[str, object]) -> None:
    """An answer over its limit ends with finish_reason length; max_completion_tokens wins over max_tokens."""
    answer = await ask(upstream, CHAT, messages=user("one two three"), **limits)

    assert answer["choices"][0]["message"]["content"] == "echo: one"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


async def test_n_choices_are_n_answers(upstream: Upstream) -> None:
    """`n` is respected and every choice counts."""
    answer = await ask(upstream, CHAT, messages=user("hi"), n=3)

    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert answer["usage"]["completion_tokens"] == 6


async def test_completions_answer_each_prompt(upstream: Upstream) -> None:
    """A prompt is a text or several; each has `n` choices, in order."""
    one = await ask(upstream, COMPLETIONS, prompt="once upon", max_tokens=2)
    several = await ask(upstream, COMPLETIONS, prompt=["a", "b c"], n=2)

    assert one["object"] == "text_completion"
    assert one["choices"] == [{"index": 0, "text": "echo: once", "finish_reason": "length", "logprobs": None}]
    expected = [(0, "echo: a"), (1, "echo: a"), (2, "echo: b c"), (3, "echo: b c")]
    assert expected == [(choice["index"], choice["text"]) for choice in several["choices"]]
    assert several["usage"] == {"prompt_tokens": 3, "completion_tokens": 10, "total_tokens": 13}


async def test_a_prompt_may_be_token_ids(upstream: Upstream) -> None:
    """Token ids are words, alone or as several prompts."""
    one = await ask(upstream, COMPLETIONS, prompt=[1, 2])
    several = await ask(upstream, COMPLETIONS, prompt=[[1, 2], [3]])

    assert [choice["text"] for choice in one["choices"]] == ["echo: 1 2"]
    assert [choice["text"] for choice in several["choices"]] == ["echo: 1 2", "echo: 3"]


async def test_embeddings_are_unit_vectors_that_only_the_text_decides(upstream: Upstream) -> None:
    """Equal inputs have equal vectors, different ones different vectors, all of length 1."""
    answer = await ask(upstream, EMBEDDINGS, input=["a tide", "a stand", "a tide"])
    again = await ask(upstream, EMBEDDINGS, input="a tide")

    first, second, third = (item["embedding"] for item in answer["data"])
    assert [item["index"] for item in answer["data"]] == [0, 1, 2]
    assert first == third == again["data"][0]["embedding"]
    assert first != second
    assert math.isclose(math.hypot(*first), 1)
    assert len(first) == 8
    assert answer["usage"] == {"prompt_tokens": 6, "completion_tokens": 0, "total_tokens": 6}


async def test_embeddings_come_as_base64_where_asked(upstream: Upstream) -> None:
    """`encoding_format` base64 carries the same numbers as little-endian float32."""
    floats = await ask(upstream, EMBEDDINGS, input="a tide")
    encoded = await ask(upstream, EMBEDDINGS, input="a tide", encoding_format="base64")

    numbers = struct.unpack("<8f", base64.b64decode(encoded["data"][0]["embedding"]))
    assert floats["data"][0]["embedding"] == pytest.approx(numbers, abs=1e-6)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": user("[[status 503]] please")}),
        (CHAT, {"messages": user("wait [[delay 0.01]] and [[status 503]]")}),
        (COMPLETIONS, {"prompt": "[[status 503]]"}),
        (EMBEDDINGS, {"input": ["a", "b [[status 503]]"]}),
    ],
)
async def test_a_text_may_ask_for_a_status(upstream: Upstream, path: str, body: object) -> None:
    """The same text gets the same error every time, shaped as vLLM shapes it."""
    first, second = await post(upstream, path, body), await post(upstream, path, body)

    assert first == second
    assert first.status == 503
    error = {"message": "The request asked for status 503.", "type": "InternalServerError", "param": None, "code": 503}
    assert json.loads(first.body) == {"error": error}


async def test_a_text_may_ask_for_a_delay(upstream: Upstream) -> None:
    """A delay within the row's limit is waited for; one beyond it is a timeout."""
    answer = await ask(upstream, CHAT, messages=user("[[delay 0.01]] there"))

    assert answer["choices"][0]["message"]["content"] == "echo: [[delay 0.01]] there"
    with pytest.raises(EngineTimeout):
        await post(upstream, CHAT, {"messages": user("[[delay 3600]]")}, limit=0.1)


async def test_a_text_may_hang(upstream: Upstream) -> None:
    """The answer never comes, and the engine gives the row up when its client does."""
    with pytest.raises(EngineTimeout):
        await post(upstream, CHAT, {"messages": user("[[hang]]")}, limit=0.1)

    async def given_up() -> bool:
        return (await upstream.metrics())["vllm:num_requests_running"] == 0

    await until(given_up)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": user("[[nan]]")}),
        (COMPLETIONS, {"prompt": "[[nan]]"}),
        (EMBEDDINGS, {"input": "[[nan]]"}),
    ],
)
async def test_a_text_may_ask_for_nan(upstream: Upstream, path: str, body: object) -> None:
    """The answer is a 200 with the letters NaN where a number belongs, which is not JSON."""
    reply = await post(upstream, path, body)

    assert reply.status == 200
    assert b"NaN" in reply.body
    assert "NaN" in str(json.loads(reply.body, parse_constant=str))


async def test_nan_in_base64_is_a_nan_among_the_floats(upstream: Upstream) -> None:
    """A vector of NaN looks harmless in base64, as it does from a real engine."""
    answer = await ask(upstream, EMBEDDINGS, input="[[nan]]", encoding_format="base64")

    assert all(map(math.isnan, struct.unpack("<8f", base64.b64decode(answer["data"][0]["embedding"]))))


async def test_a_text_may_ask_for_a_number_of_tokens(upstream: Upstream) -> None:
    """The answer has that many words, and a limit still cuts it."""
    whole = await ask(upstream, CHAT, messages=user("[[tokens 100]]"))
    cut = await ask(upstream, CHAT, messages=user("[[tokens 100]]"), max_tokens=10)

    assert len(whole["choices"][0]["message"]["content"].split()) == 100
    assert (whole["usage"]["completion_tokens"], whole["choices"][0]["finish_reason"]) == (100, "stop")
    assert (cut["usage"]["completion_tokens"], cut["choices"][0]["finish_reason"]) == (10, "length")


async def test_a_text_may_ask_for_garbage(upstream: Upstream) -> None:
    """The answer is a 200 whose body no JSON reader takes."""
    reply = await post(upstream, CHAT, {"messages": user("[[garbage]]")})

    assert reply.status == 200
    with pytest.raises(ValueError, match="decode"):
        json.loads(reply.body)


async def test_a_text_may_crash_the_engine(tmp_path: Path) -> None:
    """The process dies at once, and the row may have been seen."""
    process = echo(tmp_path)
    await process.start()
    async with Upstream(process, max_in_flight=1) as upstream:
        await ask(upstream, CHAT, messages=user("a first row, so that the next one reuses its connection"))
        with pytest.raises(EngineUnreachable) as gone:
            await post(upstream, CHAT, {"messages": user("now [[crash]]")})
        await process.wait_exit()

        assert gone.value.sent
        with pytest.raises(EngineUnreachable) as refused:
            await post(upstream, CHAT, {"messages": user("hello?")})
        assert not refused.value.sent


@pytest.mark.parametrize("text", ["[[status]]", "[[status 99]]", "[[delay soon]]", "[[crash now]]", "[crash]"])
async def test_what_is_no_directive_is_text(upstream: Upstream, text: str) -> None:
    """Brackets that name nothing known are echoed."""
    answer = await ask(upstream, CHAT, messages=user(text))

    assert answer["choices"][0]["message"]["content"] == f"echo: {text}"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b"{}"),
        (CHAT, b'{"messages": []}'),
        (CHAT, b'{"messages": [{"role": "user", "content": 5}]}'),
        (CHAT, b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 0}'),
        (CHAT, b'{"messages": [{"role": "user", "con'),
        (CHAT, b"\xff"),
        (COMPLETIONS, b"{}"),
        (COMPLETIONS, b'{"prompt": []}'),
        (EMBEDDINGS, b'{"input": "a", "encoding_format": "hex"}'),
    ],
)
async def test_a_bad_request_is_refused_as_vllm_refuses_it(upstream: Upstream, path: str, body: bytes) -> None:
    """The status is 400 and the error has a message, a type, a param and the status as its code."""
    reply = await upstream.post(path, body, timeout=60)

    assert reply.status == 400
    error = json.loads(reply.body)["error"]
    assert error.pop("message")
    assert error == {"type": "BadRequestError", "param": None, "code": 400}


async def test_an_unknown_model_is_not_found(upstream: Upstream) -> None:
    """A model name that the engine does not serve is a 404."""
    reply = await post(upstream, CHAT, {"model": "other", "messages": user("hi")})

    assert reply.status == 404
    error = {"message": "The model `other` does not exist.", "type": "NotFoundError", "param": "model", "code": 404}
    assert json.loads(reply.body) == {"error": error}


async def test_a_prompt_over_the_models_length_is_refused(upstream: Upstream) -> None:
    """One word more than --max-model-len is a 400 that names input_tokens; exactly that many are served."""
    fits = await post(upstream, CHAT, {"messages": user("a " * 500)})
    over = await post(upstream, CHAT, {"messages": user("a " * 501)})

    assert fits.status == 200
    assert over.status == 400
    assert json.loads(over.body)["error"]["param"] == "input_tokens"


async def test_a_line_of_20_mib_is_served(upstream: Upstream) -> None:
    """The largest line that a batch may have fits through the client and the server."""
    answer = await ask(upstream, CHAT, messages=user("x" * (20 << 20)), max_tokens=1)

    assert answer["choices"][0]["message"]["content"] == "echo:"


async def test_metrics_count_tokens(engine: EngineProcess, upstream: Upstream) -> None:
    """Tokens in and out are counters under vLLM's names, with the model's name as label."""
    before = await upstream.metrics()
    await ask(upstream, CHAT, messages=user("one two three"), n=2)
    after = await upstream.metrics()

    assert after["vllm:prompt_tokens_total"] - before["vllm:prompt_tokens_total"] == 3
    assert after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"] == 8
    assert after["vllm:num_requests_running"] == after["vllm:num_requests_waiting"] == 0
    assert engine.generation == 1


async def test_with_slots_the_rest_waits(tmp_path: Path) -> None:
    """With one slot, one request runs and the others wait; one that is given up makes room."""
    process = echo(tmp_path, "--slots", "1", "--model", "tide")
    await process.start()
    async with Upstream(process, max_in_flight=3) as upstream:

        async def show(running: int, waiting: int) -> None:
            expected = {"vllm:num_requests_running": running, "vllm:num_requests_waiting": waiting}

            async def shown() -> bool:
                return expected.items() <= (await upstream.metrics()).items()

            await until(shown)

        hanging = [
            asyncio.create_task(post(upstream, CHAT, {"model": "tide", "messages": user("[[hang]]")})) for _ in range(3)
        ]
        await show(1, 2)
        hanging.pop().cancel()
        await show(1, 1)
        for task in hanging:
            task.cancel()
        await show(0, 0)

        answer = await ask(upstream, CHAT, model="tide", messages=user("free"))
        assert answer["model"] == "tide"
    await process.stop()


async def test_each_token_takes_its_time(tmp_path: Path) -> None:
    """With --token-delay an answer takes as long as its tokens; what generates none takes no time."""
    process = echo(tmp_path, "--token-delay", "3600")
    await process.start()
    async with Upstream(process, max_in_flight=1) as upstream:
        await ask(upstream, EMBEDDINGS, input="quick")
        with pytest.raises(EngineTimeout):
            await post(upstream, CHAT, {"messages": user("slow")}, limit=0.1)
    await process.stop()


async def test_the_engine_writes_nothing_about_requests(tmp_path: Path) -> None:
    """Prompts, answers and errors leave no trace in the engine's output."""
    process = echo(tmp_path)
    await process.start()
    async with Upstream(process, max_in_flight=1) as upstream:
        for text in ("a secret", "a secret [[status 500]]", "a secret [[garbage]]"):
            await post(upstream, CHAT, {"messages": user(text)})
        await post(upstream, CHAT, {"no": "messages"})
    await process.stop()

    assert (tmp_path / "engine.log").read_bytes() == b""
