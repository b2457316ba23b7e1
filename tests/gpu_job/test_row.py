"""What goes into the engine and what comes out, by contract."""

import json
import math
import struct
from base64 import b64encode
from typing import Any

import pytest
from msgspec.structs import replace

from gpu_job.row import Finished, Garbage, finish, prepare
from gpu_job.upstream import Reply
from shared.core.models import Model
from shared.core.plan import PlanLine, ShardPlan
from shared.core.request_line import RequestLine, parse

URL = "/v1/chat/completions"
MODEL = Model(
    id="tide-7b", revision="tide-7b@1", source="", engine="echo", endpoints=(URL,), context=8192, max_output=4096
)


VLLM = replace(MODEL, engine="vllm")


def plan(contract: str, org: str = "acme") -> ShardPlan:
    """Give the plan of one line."""
    return ShardPlan("batch_1", org, contract, "key", URL, [PlanLine(1, 0, 9, "a")])


def request(**body: Any) -> RequestLine:
    """Give a request with these fields."""
    body = {"model": "tide-7b", "messages": [{"role": "user", "content": "hi"}]} | body
    line = parse(json.dumps({"custom_id": "a", "method": "POST", "url": URL, "body": body}).encode(), 1)
    assert isinstance(line, RequestLine)
    return line


def sent(contract: str, **body: Any) -> dict[str, Any]:
    """Give what the engine is sent."""
    told: dict[str, Any] = json.loads(prepare(plan(contract), 0, request(**body), MODEL).body)
    return told


def answered(contract: str, status: int, body: dict[str, Any]) -> dict[str, Any]:
    """Give the row that comes of the engine's answer."""
    row = prepare(plan(contract), 0, request(), MODEL)
    told: dict[str, Any] = json.loads(finish(row, Reply(status, json.dumps(body).encode())).data)
    return told


def salt(org: str, contract: str = "openai") -> str:
    """Give the salt of the engine's prefix cache that a row of this organization is sent with."""
    told: dict[str, str] = json.loads(prepare(plan(contract, org), 0, request(), VLLM).body)
    return told["cache_salt"]


def test_organizations_do_not_share_the_cache_of_prefixes() -> None:
    """What another has sent cannot be told from how fast an answer comes; all batches of one organization share."""
    assert salt("acme") != salt("rival")
    assert salt("acme") == salt("acme", "gridline")
    embedding = RequestLine("a", "/v1/embeddings", "tide-7b", {"model": "tide-7b", "input": "hi"}, 0, 1)
    assert salt("acme") == json.loads(prepare(plan("openai", "acme"), 0, embedding, VLLM).body)["cache_salt"]


@pytest.mark.parametrize(
    ("contract", "body", "caps"),
    [
        ("gridline", {}, {"max_tokens": 1024}),
        ("gridline", {"max_tokens": 7}, {"max_tokens": 7}),
        ("gridline", {"max_completion_tokens": 7}, {"max_completion_tokens": 7}),
        ("openai", {}, {}),
        ("token360", {}, {}),
    ],
)
def test_a_contract_may_cap_answers_that_name_no_cap(contract: str, body: dict[str, Any], caps: dict[str, int]) -> None:
    """What the line says stays."""
    assert caps == {name: value for name, value in sent(contract, **body).items() if name.startswith("max_")}


def embedded(*vectors: object) -> Finished:
    """Give the row that comes of an engine's answer with these vectors."""
    line = {"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": {"model": "tide-7b", "input": "hi"}}
    asked = parse(json.dumps(line).encode(), 1)
    assert isinstance(asked, RequestLine)
    body = {"data": [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]}
    return finish(prepare(plan("openai"), 0, asked, MODEL), Reply(200, json.dumps(body).encode()))


def base64(*numbers: float) -> str:
    """Give a vector in base64."""
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize("vector", [[0.5, -1], base64(0.5, -1), None])
def test_vectors_are_numbers_or_base64(vector: object) -> None:
    """As the request wants them; they stay as they are."""
    assert vector == json.loads(embedded(vector).data)["response"]["body"]["data"][0]["embedding"]


@pytest.mark.parametrize(
    "vector", [base64(0.5, math.nan), base64(math.inf), base64(-math.inf, 0), base64(1)[:-3], "no base64!"]
)
def test_a_vector_in_base64_that_is_none_is_garbage(vector: str) -> None:
    """NaN never leaves, nor an infinity, in whatever clothes; neither do halves of numbers."""
    with pytest.raises(Garbage):
        embedded(base64(1), vector)


def test_an_adapter_keeps_its_name() -> None:
    """The engine serves it beside its base, which has a name of ours."""
    assert ("engine", "ft:tides") == (sent("gridline")["model"], sent("gridline", model="ft:tides")["model"])


@pytest.mark.parametrize("contract", ["openai", "boardwalk", "token360"])
def test_an_error_of_the_engine_is_an_http_answer(contract: str) -> None:
    """With its status; `error` is null."""
    row = answered(contract, 400, {"error": {"message": "too long", "param": "input_tokens"}})
    assert (400, "context_length_exceeded", None) == (
        row["response"]["status_code"],
        row["response"]["body"]["error"]["code"],
        row["error"],
    )


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, {"message": "m", "param": "input_tokens"}, "context_length_exceeded"),
        (400, {"message": "m", "param": "top_p"}, "invalid_request"),
        (422, {"message": "m"}, "invalid_request"),
        (500, {"message": "m"}, "server_error"),
        (429, {"message": "m"}, "server_error"),
    ],
)
def test_gridline_has_a_code_and_no_answer(status: int, error: dict[str, Any], code: str) -> None:
    """One of its six codes."""
    row = answered("gridline", status, {"error": error})
    assert (None, {"code": code, "message": "m"}) == (row["response"], row["error"])


@pytest.mark.parametrize("contract", ["openai", "boardwalk", "gridline", "token360"])
def test_an_answer_is_the_same_everywhere(contract: str) -> None:
    """With the name that the caller used."""
    row = answered(contract, 200, {"model": "engine", "choices": []})
    assert (200, {"model": "tide-7b", "choices": []}, None) == (
        row["response"]["status_code"],
        row["response"]["body"],
        row["error"],
    )


def nested(levels: int) -> bytes:
    """Give JSON that is so deep."""
    return b'{"error": ' * levels + b"1" + b"}" * levels


def test_an_answer_that_can_be_read_but_not_written_into_a_row_is_garbage() -> None:
    """A row is a few levels deeper than the answer in it; there is no depth at which its worker falls."""
    row = prepare(plan("openai"), 0, request(), MODEL)
    garbage = set()
    for levels in range(900, 1100):
        try:
            assert finish(row, Reply(200, nested(levels))).ok
        except Garbage:
            garbage.add(levels)
    assert {900} - garbage, "JSON of that depth is fine"
    assert garbage, "some depth is too deep"
    assert set(range(min(garbage), 1100)) == garbage


@pytest.mark.parametrize("contract", ["openai", "gridline"])
@pytest.mark.parametrize("levels", [1, 500, 998, 100_000])
def test_an_error_however_deep_gets_its_row(contract: str, levels: int) -> None:
    """What nobody can read is told by its status."""
    row = prepare(plan(contract), 0, request(), MODEL)
    told = json.loads(finish(row, Reply(400, nested(levels))).data)
    error = told["error"] or told["response"]["body"]["error"]
    assert ("invalid_request", "the engine answered 400") == (error["code"], error["message"])
