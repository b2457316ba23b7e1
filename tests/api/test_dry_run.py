"""The dry run over the API: what would become of a create, and nothing of it kept."""

import json
from typing import Any

import pytest

from shared.core import paths
from shared.core.records import File, Pending
from tests.api import dialects
from tests.api.dialects import CHAT, EMBEDDINGS, PRICES, chat, error, jsonl, upload
from tests.api.runs import MOUNTS, Run
from tests.api.world import KEY, POWERLESS_KEY, READ_KEY, START, World

SESSION = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1In0.c2ln"
LATER = ("openai", "gridline", "token360")
"""The mounts that take a file with bad lines."""

every_mount = pytest.mark.parametrize("contract", MOUNTS)


@pytest.fixture
def world() -> World:
    """Give a world with every mount."""
    return dialects.world()


def validate(world: World, contract: str, content: bytes | None = None, secret: str | None = KEY, **fields: Any) -> Any:
    """Upload a file and ask for a dry run of it; give the answer. A field that is `...` is left out."""
    uploaded = upload(world, contract, content or jsonl(chat()))
    assert 200 == uploaded.status_code, uploaded.text
    body = {"input_file_id": uploaded.json()["id"], "endpoint": CHAT, "completion_window": "24h"} | fields
    body = {name: value for name, value in body.items() if value is not ...}
    return world.http(secret, contract).post("batches/validate", json=body)


@every_mount
def test_a_good_file_is_told_to_be_good(world: World, contract: str) -> None:
    """With its requests, and what they can use and cost at most."""
    content = jsonl(chat("a"), chat("b", max_tokens=100))

    answer = validate(world, contract, content)

    told = answer.json()
    assert 200 == answer.status_code
    most_in, most_out = len(content) - 2, 164
    assert {
        "object": "batch.validation",
        "valid": True,
        "input_file_id": told["input_file_id"],
        "endpoint": CHAT,
        "completion_window": "24h",
        "model": "tide-7b",
        "requests": 2,
        "errors": None,
        "usage_bounds": {"input_tokens": most_in, "output_tokens": most_out, "total_tokens": most_in + most_out},
        "cost_bounds": {
            "unit": "picousd",
            "input": str(most_in * PRICES.input),
            "output": str(most_out * PRICES.output),
            "total": str(most_in * PRICES.input + most_out * PRICES.output),
        },
    } == told
    assert answer.headers["x-request-id"].startswith("req_")


@every_mount
def test_nothing_is_created(world: World, contract: str) -> None:
    """No batch, no execution, no hold, no key: the file can be deleted, and the key makes a batch afterwards."""
    http = world.http(contract=contract)
    file = upload(world, contract, jsonl(chat())).json()["id"]
    body = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    before = world.memory.blobs.keys()

    assert 200 == http.post("batches/validate", json=body, headers={"idempotency-key": "once"}).status_code

    assert (before, []) == (world.memory.blobs.keys(), http.get("batches").json()["data"])
    assert [] == world.memory.workflow.started
    assert 200 == http.post("batches", json=body, headers={"idempotency-key": "once"}).status_code
    other = upload(world, contract, jsonl(chat())).json()["id"]
    assert 200 == http.post("batches/validate", json=body | {"input_file_id": other}).status_code
    assert 200 == http.delete(f"files/{other}").status_code


@pytest.mark.parametrize("contract", LATER)
def test_every_line_error_is_told(world: World, contract: str) -> None:
    """In line order, each with the code, message and param that the batch would show; good lines are counted in."""
    good, bad = json.dumps(chat("a")).encode(), json.dumps(chat("b", model="moon-1b")).encode()
    content = b"\n".join([good, b"{", bad, good, json.dumps({**chat("c"), "url": EMBEDDINGS}).encode(), b"[]"]) + b"\n"

    told = validate(world, contract, content).json()

    assert (False, 6, 5, "tide-7b") == (told["valid"], told["requests"], told["errors"]["total"], told["model"])
    assert [
        (2, "invalid_json_line", None),
        (3, "mismatched_model", "body.model"),
        (4, "duplicate_custom_id", "custom_id"),
        (5, "url_mismatch", "url"),
        (6, "invalid_json_line", None),
    ] == [(found["line"], found["code"], found["param"]) for found in told["errors"]["data"]]
    assert {"code", "message", "param", "line"} == told["errors"]["data"][0].keys()
    assert (len(good), 64) == (told["usage_bounds"]["input_tokens"], told["usage_bounds"]["output_tokens"])


def test_the_errors_are_those_of_the_batch(world: World) -> None:
    """The first thousand of them, and how many there are."""
    content = b"{\n" * 1500
    dry = validate(world, "openai", content).json()["errors"]
    batch = dialects.create(world, "openai", content).json()["id"]
    Run(world, "openai", batch).begin()

    real = world.http().get(f"batches/{batch}").json()["errors"]
    assert (1000, 1500) == (len(dry["data"]), dry["total"])
    assert real == dry


def test_a_model_that_is_not_served_has_no_bounds(world: World) -> None:
    """Nor a price."""
    told = validate(world, "openai", jsonl(chat(model="nobody"))).json()

    assert ("model_not_found", None, None) == (told["errors"]["data"][0]["code"], told["model"], told["cost_bounds"])
    assert {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0} == told["usage_bounds"]


@every_mount
def test_a_model_without_a_price_has_no_cost(world: World, contract: str) -> None:
    """GPU time is paid for; how long that is nobody knows before."""
    told = validate(world, contract, jsonl(chat(model="harbour"))).json()

    assert (True, "harbour", None) == (told["valid"], told["model"], told["cost_bounds"])


def test_what_a_contract_lets_a_line_write_bounds_it(world: World) -> None:
    """A default where the contract has one, else the model's own; times the answers that are asked for. Embeddings write nothing."""
    plain = jsonl(chat(max_tokens=..., n=3))
    embedding = {"custom_id": "e", "method": "POST", "url": EMBEDDINGS, "body": {"model": "shells", "input": "tide"}}

    assert 3 * 1024 == validate(world, "gridline", plain).json()["usage_bounds"]["output_tokens"]
    assert 3 * 4096 == validate(world, "openai", plain).json()["usage_bounds"]["output_tokens"]
    told = validate(world, "openai", jsonl(embedding), endpoint=EMBEDDINGS).json()
    assert (0, "0") == (told["usage_bounds"]["output_tokens"], told["cost_bounds"]["output"])


def test_a_prompt_is_never_longer_than_the_context(world: World) -> None:
    """However long its line is; and of an image nothing else is known."""
    long = jsonl(chat(messages=[{"role": "user", "content": "word " * 10_000}]))
    image = jsonl(
        chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}])
    )

    assert 8192 == validate(world, "openai", long).json()["usage_bounds"]["input_tokens"]
    assert 8192 == validate(world, "openai", image).json()["usage_bounds"]["input_tokens"]


@every_mount
def test_what_a_create_refuses_as_a_whole_is_refused_alike(world: World, contract: str) -> None:
    """Fields, values and files: the same status, code and param."""
    headers = {"idempotency-key": "once"}
    http = world.http(contract=contract)
    file = upload(world, contract, jsonl(chat())).json()["id"]
    good = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    bodies: list[Any] = [
        good | {"surprise": 1},
        good | {"endpoint": "/v1/images"},
        good | {"completion_window": "1h"},
        good | {"input_file_id": 7},
        good | {"input_file_id": "file-00000000000000000000000000"},
        good | {"input_file_id": "nothing"},
        good | {"metadata": "text"},
        good | {"callback_url": "https://inside.example.com/"},
        good | {"metadata": {"batchrouter_deadline": "2001-01-01T00:00:00Z"}},
        good | {"metadata": {"batchrouter_input_rate": "1"}},
        {"endpoint": CHAT},
        [],
        7,
    ]
    for body in bodies:
        dry, real = (http.post(path, json=body, headers=headers) for path in ("batches/validate", "batches"))
        if real.status_code == 200:
            assert 200 == dry.status_code, body
        else:
            assert (real.status_code, real.json()) == (dry.status_code, dry.json()), body


def test_results_that_cannot_fit_are_refused_as_a_create_does(world: World) -> None:
    """`output_too_large`, where result files are limited."""
    content = jsonl(*(chat(f"{number:0128d}", n=1000) for number in range(400)))

    assert (400, "output_too_large", "input_file_id") == error(validate(world, "boardwalk", content))


def test_a_file_that_is_still_to_be_scanned_is_not_ready(world: World) -> None:
    """409 until its status is `processed`; a create would wait. One that the scan refused is told to be refused."""
    file = File(
        id="file-00000000000000000000000001",
        org="acme",
        contract="openai",
        bytes=3,
        filename="in.jsonl",
        purpose="batch",
        created_at=int(START),
        status="uploaded",
        pending=Pending(),
    )
    world.memory.files.put(file)
    world.memory.blobs.put(paths.file("acme", file.id), b"\n\n\n")
    body = {"input_file_id": file.id, "endpoint": CHAT, "completion_window": "24h"}
    http = world.http()

    assert (409, "file_not_ready", "input_file_id") == error(http.post("batches/validate", json=body))
    world.scans.advance(file.space, file.id, until=START + 1e6)
    told = http.post("batches/validate", json=body).json()
    assert (False, 0, ["empty_file"]) == (told["valid"], told["requests"], [e["code"] for e in told["errors"]["data"]])


@every_mount
def test_only_who_may_create_may_ask(world: World, contract: str) -> None:
    """It reads a whole scan; a login is no key, and another's file is no file."""
    file = upload(world, contract, jsonl(chat())).json()["id"]
    body = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    world.add_key("sk-other-all", "other", "batch:write", "inference:write", "routing:write", "read")

    def ask(secret: str | None) -> Any:
        return world.http(secret, contract).post("batches/validate", json=body)

    no_key = "missing_execution_api_key" if contract == "token360" else "invalid_api_key"
    assert (401, no_key, None) == error(ask(None))
    assert (401, no_key, None) == error(ask(SESSION))
    assert (403, "insufficient_permissions", None) == error(ask(POWERLESS_KEY))
    assert (403, "insufficient_permissions", None) == error(ask(READ_KEY))
    assert 404 == ask("sk-other-all").status_code


@every_mount
def test_it_is_in_the_document(world: World, contract: str) -> None:
    """With the body of a create."""
    told = world.http(contract=contract).get("openapi.json").json()
    routes = {path.partition("/batches")[2]: value for path, value in told["paths"].items() if "/batches" in path}

    assert routes[""]["post"]["requestBody"] == routes["/validate"]["post"]["requestBody"]
    assert "#/components/schemas/ValidationObject" in json.dumps(routes["/validate"]["post"]["responses"]["200"])
