"""What the reference of `gridline` shows, asked of its mount."""

from typing import Any

import openai
import pytest

from shared.core import scan
from shared.core.contracts import CONTRACTS
from shared.core.judge import Judge
from shared.core.request_line import Limits, LineError
from shared.core.scan import Scanner
from tests.api import dialects
from tests.api.dialects import EMBEDDINGS, REGISTRY, chat, create, end, error, jsonl, upload
from tests.api.world import START, World

G = "gridline"


@pytest.fixture
def world() -> World:
    """Give a world with several models."""
    return dialects.world()


def judged(*lines: dict[str, Any], endpoint: str = dialects.CHAT) -> list[LineError]:
    """Give what validation finds wrong with these lines."""
    scanner = Scanner(Limits())
    index = [*scanner.feed(jsonl(*lines)), *scanner.finish()]
    return list(Judge(endpoint, CONTRACTS[G], REGISTRY, "acme").errors(scan.entries(index)))


def embed(custom_id: str = "e", **body: Any) -> dict[str, Any]:
    """Give a request line for an embedding."""
    body = {"model": "shells", "input": ["first", "second"]} | body
    return {"custom_id": custom_id, "method": "POST", "url": EMBEDDINGS, "body": body}


def test_a_batch_begins_validating_and_says_whether_it_waits(world: World) -> None:
    """Nothing waits, so there is no reason."""
    told = create(world, G).json()
    assert ("validating", {"reason": None}) == (told["status"], told["gridline"])
    assert {"total": 1, "completed": 0, "failed": 0} == told["request_counts"]
    assert told == world.http(contract=G).get(f"batches/{told['id']}").json()


def test_the_long_window_is_sent_past_the_sdks_types(world: World) -> None:
    """In `extra_body`; the batch reports it, and ends 72 hours after its creation."""
    client = world.openai(contract=G)
    file = client.files.create(file=("requests.jsonl", jsonl(chat())), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        extra_body={"completion_window": "72h"},
    )
    assert ("72h", int(START) + 72 * 3600) == (batch.completion_window, batch.expires_at)


def test_the_endpoint_may_be_embeddings(world: World) -> None:
    """As with curl."""
    assert 200 == create(world, G, jsonl(embed()), endpoint=EMBEDDINGS).status_code


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"endpoint": "/v1/responses"}, "invalid_request"),
        ({"endpoint": "/v1/completions"}, "invalid_request"),
        ({"completion_window": "48h"}, "invalid_request"),
        ({"callback_url": "https://hooks.example.com/"}, "unknown_parameter"),
        ({"execution": "auto"}, "unknown_parameter"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3600}}, "unknown_parameter"),
        ({"metadata": {"a": 1}}, "invalid_request"),
    ],
)
def test_what_a_create_does_not_take(world: World, fields: dict[str, Any], code: str) -> None:
    """Refused, never ignored."""
    answer = create(world, G, **fields)
    assert (400, code) == error(answer)[:2]
    assert "invalid_request_error" == answer.json()["error"]["type"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"stream": True}, "body.stream"),
        ({"tools": []}, "body.tools"),
        ({"tool_choice": "none"}, "body.tool_choice"),
        ({"guided_json": {}}, "body.guided_json"),
        ({"guided_regex": "a"}, "body.guided_regex"),
        ({"logit_bias": {"5": 1}}, "body.logit_bias"),
        ({"service_tier": "auto"}, "body.service_tier"),
        ({"store": False}, "body.store"),
        ({"prediction": {"type": "content", "content": ""}}, "body.prediction"),
        ({"n": 9}, "body.n"),
        ({"logprobs": True, "top_logprobs": 6}, "body.top_logprobs"),
        ({"max_tokens": 1025}, "body.max_tokens"),
        ({"max_completion_tokens": 2000}, "body.max_tokens"),
    ],
)
def test_what_a_body_does_not_take(body: dict[str, Any], param: str) -> None:
    """Each is an error of its line that names the field."""
    assert [("invalid_request", 2, param)] == [
        (found.code, found.line, found.param) for found in judged(chat(), chat("b", **body))
    ]


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file", "video_url"])
def test_parts_that_are_not_text_are_refused(kind: str) -> None:
    """Wherever among the messages they are."""
    parts = [{"type": "text", "text": "look"}, {"type": kind, kind: {}}]
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": parts}]
    assert [("invalid_request", "body.messages")] == [
        (found.code, found.param) for found in judged(chat(messages=messages))
    ]


@pytest.mark.parametrize(
    "body",
    [
        {"n": 8},
        {"logprobs": True, "top_logprobs": 5},
        {"max_tokens": 1024},
        {"max_tokens": ...},
        {"user": "ignored", "seed": 7},
        {"tools": None, "store": None},
        {"response_format": {"type": "json_object"}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    ],
)
def test_what_a_body_takes(body: dict[str, Any]) -> None:
    """Up to the limits themselves."""
    assert [] == judged(chat(**body))


def test_embeddings_need_no_token_limit() -> None:
    """And may name none."""
    assert [] == judged(embed(), endpoint=EMBEDDINGS)


def names(count: int, kind: str = "a") -> list[dict[str, Any]]:
    """Give lines that name so many adapters."""
    return [chat(f"{kind}{number}", model=f"ft:{kind}{number}") for number in range(count)]


@pytest.mark.parametrize(
    "lines",
    [
        [chat(), *names(8)],
        names(4, "wide"),
        [*names(1, "heavy"), chat("again", model="ft:heavy0"), chat()],
    ],
)
def test_a_base_is_mixed_with_its_adapters(lines: list[dict[str, Any]]) -> None:
    """Up to eight, within what the base has been proved to serve."""
    assert [] == judged(*lines)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (names(9), "more than 8 fine-tuned models"),
        (names(5, "wide"), "up to rank 64"),
        (names(2, "heavy"), f"{1200 << 20} bytes"),
        ([chat(model="ft:gone")], "no longer active"),
        ([chat(model="ft:theirs")], "not yours"),
        ([chat(model="ft:never")], "does not exist"),
        ([chat(model="gpt-4o")], "not served here"),
        ([chat(model="resting")], "not served here"),
    ],
)
def test_an_adapter_that_cannot_be_served_is_not_found(lines: list[dict[str, Any]], says: str) -> None:
    """And the message says which limit, or why."""
    (found,) = judged(*lines)
    assert ("model_not_found", "body.model", len(lines)) == (found.code, found.param, found.line)
    assert says in found.message


def test_an_adapter_of_another_base_is_another_model() -> None:
    """One base a batch."""
    assert ["mismatched_model"] == [found.code for found in judged(chat(), chat("b", model="ft:moonlit"))]


def test_two_batches_may_be_unfinished(world: World) -> None:
    """The third create is told the limit and what is in use, and may come again when one has ended."""
    first, _ = (create(world, G).json()["id"] for _ in range(2))
    with pytest.raises(openai.RateLimitError) as refused:
        world.openai(contract=G).batches.create(
            input_file_id=upload(world, G, jsonl(chat())).json()["id"],
            endpoint="/v1/chat/completions",
            completion_window="24h",
        )
    assert "limit_exceeded" == refused.value.code
    assert {"name": "open_batches", "limit": 2, "current": 2} == refused.value.body["limit"]  # type: ignore[index, call-overload]
    end(world, G, first)
    assert 200 == create(world, G).status_code


def test_batches_of_other_mounts_do_not_fill_these_places(world: World) -> None:
    """The two are this contract's own."""
    for _ in range(3):
        create(world, "openai")
    assert [200, 200, 429] == [create(world, G).status_code for _ in range(3)]


def test_a_file_is_kept_a_week_past_the_window_of_its_batch(world: World) -> None:
    """Unused, for a week from its upload."""
    http = world.http(contract=G)
    day, file_id = 86400, upload(world, G, jsonl(chat())).json()["id"]
    assert int(START) + 7 * day == http.get(f"files/{file_id}").json()["expires_at"]
    http.post("batches", json={"input_file_id": file_id, "endpoint": dialects.CHAT, "completion_window": "72h"})
    assert int(START) + 10 * day == http.get(f"files/{file_id}").json()["expires_at"]


@pytest.mark.parametrize(
    ("scopes", "reads", "writes"),
    [
        (("routing:write", "read"), 200, 200),
        (("read",), 200, 403),
        (("routing:write",), 403, 403),
        (("batch:write",), 403, 403),
    ],
)
def test_scopes(world: World, scopes: tuple[str, ...], reads: int, writes: int) -> None:
    """Both scopes to write, one of them to read."""
    world.add_key("sk-scoped", "acme", *scopes)
    file_id = upload(world, G, jsonl(chat())).json()["id"]
    http = world.http("sk-scoped", contract=G)
    assert reads == http.get(f"files/{file_id}").status_code
    assert writes == http.delete(f"files/{file_id}").status_code


def test_an_unknown_key(world: World) -> None:
    """401 `invalid_api_key`, for a create without any as well."""
    assert (401, "invalid_api_key", None) == error(world.http("sk-nobody", contract=G).get("batches"))
    assert (401, "invalid_api_key", None) == error(world.http(None, contract=G).post("batches", json={}))


def test_models_are_listed_with_ones_own_adapters(world: World) -> None:
    """Those of others and those that are gone are not; an adapter costs what its base costs."""
    listed = {model["id"]: model for model in world.http(contract=G).get("models").json()["data"]}
    assert {"tide-7b", "moon-1b", "shells", "ft:a0"} <= listed.keys()
    assert listed.keys().isdisjoint({"ft:gone", "ft:theirs"})
    assert 1024 == listed["tide-7b"]["batch"]["max_output_tokens"]
    assert [EMBEDDINGS] == listed["shells"]["endpoints"]
