"""What the official SDK can ask of files, uploads, batches and models, asked of every mount."""

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.api import dialects
from tests.api.dialects import chat, jsonl
from tests.api.runs import MOUNTS, Run
from tests.api.world import World

CONTENT = jsonl(*(chat(f"task-{number}") for number in range(4)))


@pytest.fixture
def world() -> World:
    """Give a world with several models."""
    return dialects.world()


def created(world: World, contract: str, key: str = "run-1") -> Any:
    """Upload a file and create a batch of it."""
    client = world.openai(contract=contract)
    file = client.files.create(file=("requests.jsonl", CONTENT), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        extra_headers={"Idempotency-Key": key},
    )


@pytest.mark.parametrize("contract", MOUNTS)
def test_files(world: World, contract: str) -> None:
    """Created, awaited, shown, downloaded and deleted."""
    client = world.openai(contract=contract)
    file = client.files.create(file=("requests.jsonl", CONTENT), purpose="batch")
    assert file == client.files.wait_for_processing(file.id)
    assert file == client.files.retrieve(file.id)
    assert CONTENT == client.files.content(file.id).read()
    with client.files.with_streaming_response.content(file.id) as content:
        assert CONTENT == b"".join(content.iter_bytes())
    deleted = client.files.delete(file.id)
    assert (file.id, "file", True) == (deleted.id, deleted.object, deleted.deleted)
    with pytest.raises(openai.NotFoundError) as missing:
        client.files.retrieve(file.id)
    assert ("not_found", None, "invalid_request_error") == (
        missing.value.code,
        missing.value.param,
        missing.value.type,
    )


@pytest.mark.parametrize("contract", [contract for contract in MOUNTS if contract != "boardwalk"])
def test_a_list_of_files(world: World, contract: str) -> None:
    """Each once, whatever a page holds, in both orders, and of one purpose."""
    client = world.openai(contract=contract)
    made = [client.files.create(file=("requests.jsonl", CONTENT), purpose="batch").id for _ in range(5)]
    assert made[::-1] == [file.id for file in client.files.list(limit=2)]
    assert made == [file.id for file in client.files.list(limit=2, order="asc", purpose="batch")]
    assert [] == list(client.files.list(purpose="batch_output"))


@pytest.mark.parametrize("contract", MOUNTS)
def test_uploads(world: World, contract: str, tmp_path: Path) -> None:
    """In parts that the caller makes, in parts that the SDK makes, and given up."""
    client = world.openai(contract=contract)
    begun: dict[str, Any] = {
        "filename": "requests.jsonl",
        "purpose": "batch",
        "bytes": len(CONTENT),
        "mime_type": "application/jsonl",
    }
    upload = client.uploads.create(**begun)
    parts = [client.uploads.parts.create(upload.id, data=data).id for data in (CONTENT[:100], CONTENT[100:])]
    done = client.uploads.complete(upload.id, part_ids=parts)
    assert done.file
    assert ("completed", CONTENT) == (done.status, client.files.content(done.file.id).content)

    (tmp_path / "requests.jsonl").write_bytes(CONTENT)
    chunked = client.uploads.upload_file_chunked(
        file=tmp_path / "requests.jsonl", mime_type="application/jsonl", purpose="batch", part_size=150
    )
    assert chunked.file
    assert len(CONTENT) == chunked.file.bytes
    assert "cancelled" == client.uploads.cancel(client.uploads.create(**begun).id).status


@pytest.mark.parametrize("contract", MOUNTS)
def test_a_batch_to_its_end(world: World, contract: str) -> None:
    """Polled as the references do, its results match the requests by custom_id."""
    client = world.openai(contract=contract)
    batch = client.batches.retrieve(created(world, contract).id)
    assert batch.status in {"validating", "in_progress"}
    assert (None, None) == (batch.output_file_id, batch.error_file_id)

    Run(world, contract, batch.id).begin().answer_all(bad=["task-3"]).end()

    batch = client.batches.retrieve(batch.id)
    assert "completed" == batch.status
    assert batch.output_file_id
    assert batch.error_file_id
    good, bad = (
        [json.loads(row) for row in client.files.content(file_id).text.splitlines()]
        for file_id in (batch.output_file_id, batch.error_file_id)
    )
    assert {"task-0", "task-1", "task-2"} == {row["custom_id"] for row in good}
    assert ["task-3"] == [row["custom_id"] for row in bad]
    assert batch.usage
    assert (6, 3) == (batch.usage.input_tokens, batch.usage.output_tokens)


@pytest.mark.parametrize("contract", MOUNTS)
def test_a_batch_is_cancelled_and_listed(world: World, contract: str) -> None:
    """What is cancelled twice is cancelled once; a list shows each batch once."""
    client = world.openai(contract=contract)
    made = [created(world, contract, key=f"run-{number}").id for number in range(2)]
    assert "cancelling" == client.batches.cancel(made[0]).status
    assert "cancelling" == client.batches.cancel(made[0]).status
    assert made[::-1] == [batch.id for batch in client.batches.list(limit=1)]


@pytest.mark.parametrize("contract", MOUNTS)
def test_models(world: World, contract: str) -> None:
    """Each that is listed is shown, and no other one."""
    client = world.openai(contract=contract)
    listed = [model.id for model in client.models.list()]
    assert "tide-7b" in listed
    assert listed == [client.models.retrieve(name).id for name in listed]
    for name in ("resting", "gpt-4o"):
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve(name)
