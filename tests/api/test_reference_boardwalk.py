"""What the reference of `boardwalk` shows, asked of its mount."""

from typing import Any

import pytest

from shared.core.lifecycle import Event
from shared.core.records import Status
from tests.api import dialects
from tests.api.dialects import CHAT, chat, create, end, error, jsonl, sectioned, upload
from tests.api.world import START, World

B = "boardwalk"


@pytest.fixture
def world() -> World:
    """Give a world with several models."""
    return dialects.world()


def test_a_file_gets_a_name_of_ours_and_a_day_to_live(world: World) -> None:
    """The uploaded name is not kept; a file that no batch uses expires after 24 hours."""
    told = upload(world, B, jsonl(chat())).json()
    assert f"{told['id']}.jsonl" == told["filename"]
    assert ("file", "batch", "processed", int(START) + 86400) == (
        told["object"],
        told["purpose"],
        told["status"],
        told["expires_at"],
    )


def test_the_name_of_an_upload_in_parts_is_not_kept_either(world: World) -> None:
    """The upload has one of ours, and so has its file."""
    client = world.openai(contract=B)
    content = jsonl(chat())
    upload = client.uploads.create(
        filename="names of patients.jsonl", purpose="batch", bytes=len(content), mime_type="application/jsonl"
    )
    assert f"{upload.id}.jsonl" == upload.filename
    part = client.uploads.parts.create(upload.id, data=content)
    done = client.uploads.complete(upload.id, part_ids=[part.id])
    assert done.file
    assert f"{done.file.id}.jsonl" == done.file.filename


def test_any_name_will_do(world: World) -> None:
    """A file need not be called .jsonl here."""
    file = ("requests.txt", jsonl(chat()))
    answer = world.http(contract=B).post("files", data={"purpose": "batch"}, files={"file": file})
    assert 200 == answer.status_code


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (chat(max_tokens=...), "missing_required_parameter"),
        (chat(stream=True), "invalid_request"),
        (chat("x" * 129), "invalid_request"),
        (chat(model="moon-1b"), "mismatched_model"),
        (chat("first"), "duplicate_custom_id"),
        (chat() | {"url": "/v1/embeddings"}, "url_mismatch"),
        (chat() | {"method": "PUT"}, "invalid_request"),
        (chat("long", messages=[{"role": "user", "content": "x" * (20 << 20)}]), "request_too_large"),
        (chat("deep", max_tokens=1 << 30), "context_length_exceeded"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_line_refuses_the_upload(world: World, line: dict[str, Any], expected: str) -> None:
    """With the code of the line, which the message names, and nothing is kept."""
    answer = upload(world, B, jsonl(chat("first"), line))
    assert (400, expected, "file") == error(answer)
    assert answer.json()["error"]["message"].startswith("Line 2: ")
    assert [] == world.memory.blobs.keys("")


def test_a_wrong_url_is_told_the_right_one(world: World) -> None:
    """The one that may be named here, whatever others there are under other contracts."""
    for url in ("/v1/chat", "/v1/embeddings", 7):
        said = upload(world, B, jsonl(chat("first"), chat() | {"url": url})).json()["error"]["message"]
        assert "Line 2: `url` must be the batch's endpoint, /v1/chat/completions." == said


def test_max_completion_tokens_is_a_limit_as_well(world: World) -> None:
    """One of the two has to be there."""
    assert 200 == upload(world, B, jsonl(chat(max_tokens=..., max_completion_tokens=256))).status_code


@pytest.mark.parametrize(("name", "most"), [("tide-7b", 1000), ("harbour", 95)])
def test_a_file_has_a_thousand_requests_and_of_a_private_model_95(world: World, name: str, most: int) -> None:
    """One more refuses the upload."""
    lines = [chat(str(number), model=name) for number in range(most + 1)]
    assert 200 == upload(world, B, jsonl(*lines[:-1])).status_code
    assert (400, "too_many_requests_in_file", "file") == error(upload(world, B, jsonl(*lines)))


def test_pictures_and_tools_are_taken(world: World) -> None:
    """What the model makes of them is the model's business."""
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/tide.png"}}
    line = chat(messages=[{"role": "user", "content": [picture]}], tools=[{"type": "function"}])
    assert 200 == upload(world, B, jsonl(line)).status_code


def test_a_batch_runs_from_its_creation(world: World) -> None:
    """It is in progress at once, and says what was pinned: revision, billing and prices."""
    told = create(world, B, key="run-1").json()
    assert "in_progress" == told["status"]
    assert (int(START), int(START), int(START) + 86400) == (
        told["created_at"],
        told["in_progress_at"],
        told["expires_at"],
    )
    assert {"total": 1, "completed": 0, "failed": 0} == told["request_counts"]
    assert ("tide-7b@1", "catalog") == (told["model_config_id"], told["billing"])
    assert {
        "unit": "microusd_per_million_tokens",
        "input": "200000",
        "cached_input": "50000",
        "output": "600000",
    } == told["pricing"]
    assert [None] * 4 == [told[name] for name in ("output_file_id", "error_file_id", "errors", "metadata")]
    assert told == world.http(contract=B).get(f"batches/{told['id']}").json()
    assert 1 == len(world.memory.workflow.started)


def test_a_private_model_is_paid_by_gpu_time(world: World) -> None:
    """There is no price per token then."""
    told = create(world, B, jsonl(chat(model="harbour")), key="run").json()
    assert ("gpu_time", None) == (told["billing"], told["pricing"])


def test_a_create_needs_a_key(world: World) -> None:
    """The refusal names the header."""
    assert (400, "missing_required_parameter", "Idempotency-Key") == error(create(world, B))


def test_a_key_gives_back_its_batch_and_refuses_another(world: World) -> None:
    """Also after the input is gone."""
    http = world.http(contract=B)
    file_id = upload(world, B, jsonl(chat())).json()["id"]
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    first = http.post("batches", json=body, headers={"idempotency-key": "k"}).json()
    other = create(world, B, key="k")
    assert (409, "idempotency_key_reused", "Idempotency-Key") == error(other)
    assert "false" == other.headers["x-should-retry"]
    end(world, B, first["id"])
    assert 200 == http.delete(f"files/{file_id}").status_code
    assert first["id"] == http.post("batches", json=body, headers={"idempotency-key": "k"}).json()["id"]


@pytest.mark.parametrize(
    "fields",
    [
        {"callback_url": "https://hooks.example.com/"},
        {"execution": "auto"},
        {"output_expires_after": {"anchor": "created_at", "seconds": 3600}},
        {"priority": 1},
    ],
)
def test_unknown_fields_are_refused(world: World, fields: dict[str, Any]) -> None:
    """By name."""
    (name,) = fields
    assert (400, "unknown_parameter", name) == error(create(world, B, key="k", **fields))


@pytest.mark.parametrize("fields", [{"endpoint": "/v1/embeddings"}, {"completion_window": "72h"}])
def test_one_endpoint_and_one_window(world: World, fields: dict[str, Any]) -> None:
    """Others are refused."""
    (name,) = fields
    assert (400, "invalid_request", name) == error(create(world, B, key="k", **fields))


def test_an_assignment_is_kept_and_shortens_the_time(world: World) -> None:
    """The earliest of deadline, assignment window and 24 hours counts."""
    metadata = {
        "batchrouter_work_unit_id": "unit-7",
        "batchrouter_deadline": "2027-01-15T10:00:00Z",
        "batchrouter_assignment_window": "6h",
        "batchrouter_tier": "standard",
        "batchrouter_role": "standard",
        "batchrouter_input_rate": "200000",
        "batchrouter_cached_input_rate": "50000",
        "batchrouter_output_rate": "600000",
        "batchrouter_input_format": "sectioned.v1",
    }
    told = create(world, B, sectioned(), key="k", metadata=metadata).json()
    assert metadata == told["metadata"]
    assert 1_800_007_200 == told["expires_at"]  # START is 08:00
    later = {"batchrouter_deadline": "2028-01-01T00:00:00+02:00", "batchrouter_assignment_window": "6h"}
    assert int(START) + 6 * 3600 == create(world, B, key="l", metadata=later).json()["expires_at"]
    long = {"batchrouter_assignment_window": "96h"}
    assert int(START) + 24 * 3600 == create(world, B, key="m", metadata=long).json()["expires_at"]


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("job", "nightly", "unknown_parameter"),
        ("batchrouter_tier", "premium", "invalid_request"),
        ("batchrouter_role", "backup", "invalid_request"),
        ("batchrouter_input_format", "sectioned.v2", "invalid_request"),
        ("batchrouter_deadline", "tomorrow", "invalid_request"),
        ("batchrouter_deadline", "2027-01-15T10:00:00", "invalid_request"),
        ("batchrouter_deadline", "2026-01-01T00:00:00Z", "invalid_request"),
        ("batchrouter_assignment_window", "6", "invalid_request"),
        ("batchrouter_assignment_window", "0h", "invalid_request"),
        ("batchrouter_work_unit_id", "", "invalid_request"),
        ("batchrouter_input_rate", "199999", "invalid_request"),
        ("batchrouter_output_rate", "cheap", "invalid_request"),
    ],
)
def test_wrong_assignment_fields_are_refused(world: World, name: str, value: str, code: str) -> None:
    """By name; rates cannot change the price."""
    answer = create(world, B, key="k", metadata={name: value})
    assert (400, code, f"metadata.{name}") == error(answer)


def test_an_ordinary_batch_has_no_metadata(world: World) -> None:
    """Whether it was left out, null or empty; under one key these are the same create."""
    file_id = upload(world, B, jsonl(chat())).json()["id"]
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    bodies = [body, body | {"metadata": None}, body | {"metadata": {}}]
    http = world.http(contract=B)
    told = [http.post("batches", json=one, headers={"idempotency-key": "k"}).json() for one in bodies]
    assert told[0] == told[1] == told[2]
    assert told[0]["metadata"] is None


def test_a_rate_means_nothing_to_a_private_model(world: World) -> None:
    """It has no price per token to equal."""
    answer = create(world, B, jsonl(chat(model="harbour")), key="k", metadata={"batchrouter_input_rate": "0"})
    assert (400, "invalid_request", "metadata.batchrouter_input_rate") == error(answer)


def test_four_batches_may_be_unfinished(world: World) -> None:
    """The fifth waits until one of them has ended; a key that has made one of them still gives it."""
    made = [create(world, B, key=str(number)).json()["id"] for number in range(4)]
    fifth = create(world, B, key="4")
    assert (429, "limit_exceeded", None) == error(fifth)
    assert {"name": "open_batches", "limit": 4, "current": 4} == fifth.json()["error"]["limit"]
    assert ("false", "60") == (fifth.headers["x-should-retry"], fifth.headers["retry-after"])
    end(world, B, made[0])
    assert 200 == create(world, B, key="4").status_code


def test_results_that_cannot_fit_are_refused(world: World) -> None:
    """A thousand answers a request and two thousand bytes an answer are too much for 20 MiB, whatever they say."""
    lines = [chat(str(number), n=400) for number in range(1000)]
    answer = create(world, B, jsonl(*lines), key="k")
    assert (400, "output_too_large", "input_file_id") == error(answer)


def test_there_is_no_list_of_files(world: World) -> None:
    """404, in the envelope."""
    assert (404, "not_found", None) == error(world.http(contract=B).get("files"))


def test_a_used_input_stays_at_least_until_the_end(world: World) -> None:
    """It expires within 48 hours of the acceptance."""
    told = create(world, B, key="k").json()
    file = world.http(contract=B).get(f"files/{told['input_file_id']}").json()
    assert int(START) + 48 * 3600 == file["expires_at"]


def test_a_finished_batch_cannot_be_cancelled(world: World) -> None:
    """409; of one that is cancelled a cancel is harmless."""
    http = world.http(contract=B)
    failed, cancelled = (create(world, B, key=key).json()["id"] for key in "ab")
    end(world, B, failed)
    assert 409 == http.post(f"batches/{failed}/cancel").status_code
    assert "cancelling" == http.post(f"batches/{cancelled}/cancel").json()["status"]
    end(world, B, cancelled, Event.PUBLISH_CANCELLED)
    assert Status.CANCELLED == http.post(f"batches/{cancelled}/cancel").json()["status"]


@pytest.mark.parametrize(
    ("scopes", "reads", "writes"),
    [(("inference:write",), 200, 200), (("requests:read",), 200, 403), (("batch:write", "read"), 403, 403)],
)
def test_scopes(world: World, scopes: tuple[str, ...], reads: int, writes: int) -> None:
    """Inference may do all, the reading of requests may read."""
    world.add_key("sk-scoped", "acme", *scopes)
    file_id = upload(world, B, jsonl(chat())).json()["id"]
    http = world.http("sk-scoped", contract=B)
    assert reads == http.get(f"files/{file_id}").status_code
    assert writes == http.delete(f"files/{file_id}").status_code


def test_the_sdk_does_it_all(world: World) -> None:
    """Upload, create with a key, retrieve, list, cancel."""
    client = world.openai(contract=B)
    file = client.files.create(file=("x.jsonl", jsonl(chat())), purpose="batch")
    batch = client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        extra_headers={"Idempotency-Key": "support-1"},
    )
    assert batch.id == client.batches.retrieve(batch.id).id
    assert [batch.id] == [one.id for one in client.batches.list()]
    assert "cancelling" == client.batches.cancel(batch.id).status
    assert jsonl(chat()) == client.files.content(file.id).content


def test_models_are_those_that_chat(world: World) -> None:
    """And one's own; of those a batch has fewer requests, and they have no price."""
    listed = {model["id"]: model for model in world.http(contract=B).get("models").json()["data"]}
    assert {"tide-7b", "moon-1b", "harbour"} == listed.keys()
    assert (95, None) == (listed["harbour"]["batch"]["max_requests"], listed["harbour"]["batch"]["pricing"])
    assert 404 == world.http(contract=B).get("models/shells").status_code


def test_a_file_of_another_mount_is_not_there(world: World) -> None:
    """Neither files nor batches are seen under another contract."""
    told = create(world, B, key="k").json()
    for contract in ("openai", "gridline", "token360"):
        http = world.http(contract=contract)
        assert 404 == http.get(f"files/{told['input_file_id']}").status_code
        assert 404 == http.get(f"batches/{told['id']}").status_code
