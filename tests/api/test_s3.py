"""Files from elsewhere in S3, and results to there."""

from typing import Any

import pytest
from msgspec.structs import replace

from shared.core import paths
from shared.core.ids import BatchRef
from shared.core.records import File
from tests.api.world import ACME, KEY, OTHER_KEY, World, lines
from tests.fakes import Hostile, fail, lose_answer
from tests.services import world as services

URI = "s3://lake/acme/in/requests.jsonl"


def take(world: World, secret: str = KEY, **fields: Any) -> Any:
    """Ask for a file by its URI."""
    return world.http(secret).post("files", json={"purpose": "batch", "s3_uri": URI} | fields)


def test_a_file_in_s3_is_taken_in(world: World) -> None:
    """Copied and scanned before the answer, as an upload of its size would be."""
    world.memory.blobs.put(URI, lines(3))

    file = take(world).json()

    assert ("processed", "requests.jsonl", len(lines(3))) == (file["status"], file["filename"], file["bytes"])
    assert lines(3) == world.openai().files.content(file["id"]).content
    assert 3 == world.files.get(ACME, file["id"]).requests
    world.create(file["id"])


def test_a_large_file_in_s3_is_scanned_later() -> None:
    """It is `uploaded` at once."""
    world = World(prompt_bytes=100)
    world.memory.blobs.put(URI, lines(30))

    file = take(world).json()

    assert "uploaded" == file["status"]
    assert [(ACME, file["id"])] == world.memory.scans.started
    world.scans.advance(ACME, file["id"], until=world.time + 1)
    assert "processed" == world.openai().files.retrieve(file["id"]).status


def test_a_file_that_changes_while_it_is_copied_is_refused() -> None:
    """The batch is made of what was looked at, or of nothing."""
    world = World(prompt_bytes=100)
    world.memory.blobs.put(URI, lines(30))
    file_id = take(world).json()["id"]
    world.memory.blobs.put(URI, lines(31))

    file = world.scans.advance(ACME, file_id, until=world.time + 1)

    assert "error" == file.status
    assert file.refusal is not None
    assert "s3_uri" == file.refusal.param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"s3_uri": "s3://lake/acme/none.jsonl"}, "s3_uri"),
        ({"s3_uri": "s3://lake/other/in.jsonl"}, "s3_uri"),
        ({"s3_uri": "s3://lake/acme-evil/in.jsonl"}, "s3_uri"),
        ({"s3_uri": "s3://elsewhere/acme/in.jsonl"}, "s3_uri"),
        ({"s3_uri": "s3://forbidden/in.jsonl"}, "s3_uri"),
        ({"s3_uri": "https://lake/acme/in.jsonl"}, "s3_uri"),
        ({"s3_uri": "s3://lake/acme/"}, "s3_uri"),
        ({"s3_uri": f"s3://lake/acme/{'日' * 400}.jsonl"}, "s3_uri"),
        ({"s3_uri": 7}, "s3_uri"),
        ({"s3_uri": None}, "s3_uri"),
        ({"s3_uri": "s3://lake/acme/in.csv"}, "file"),
        ({"purpose": "fine-tune"}, "purpose"),
        ({"more": 1}, "more"),
    ],
)
def test_what_may_not_be_taken_in_is_refused(world: World, fields: dict[str, Any], param: str) -> None:
    """Missing, forbidden, foreign and malformed ones, each with the field's name; nothing stays."""
    world.memory.blobs.put("s3://lake/acme/in.csv", lines(1))

    answer = take(world, **fields)

    assert (400, param) == (answer.status_code, answer.json()["error"]["param"])
    assert ["s3://lake/acme/in.csv"] == world.memory.blobs.keys()


def test_a_place_of_one_organization_is_not_open_to_another(world: World) -> None:
    """A prefix may name the organization."""
    world.memory.blobs.put(URI, lines(1))

    assert 400 == take(world, OTHER_KEY).status_code


def test_a_bad_file_in_s3_is_refused_as_an_upload_would_be(world: World) -> None:
    """And is gone again."""
    world.memory.blobs.put(URI, lines(2).decode().encode("utf-16"))

    answer = take(world)

    assert "invalid_encoding" == answer.json()["error"]["code"]
    assert [URI] == world.memory.blobs.keys()
    assert [] == world.openai().files.list().data


def ended(world: services.World, prefix: str) -> BatchRef:
    """Make a batch that wants its results below a prefix, and end it with an output file; give it."""
    body = world.request() | {"output_s3_prefix": prefix}
    ref = world.batches.create(ACME, services.OPENAI, body).ref
    result = File(
        id="file-result", org="acme", contract="openai", bytes=5, filename="x", purpose="batch_output", created_at=0
    )
    world.memory.blobs.put(paths.file("acme", result.id), b"rows\n")
    world.memory.batches.finish(ref, lambda batch: replace(batch, output_file_id=result.id), [result])
    return ref


def test_results_are_copied_to_where_the_caller_wants_them(world: World) -> None:
    """Once, under the batch's name; the batch says so."""
    ref = ended(world, "s3://lake/acme/out")

    world.delivery.deliver(ref)
    world.delivery.deliver(ref)

    assert b"rows\n" == world.memory.blobs.get(f"s3://lake/acme/out/{ref.id}_output.jsonl")
    shown = world.http().get(f"batches/{ref.id}").json()
    assert ("s3://lake/acme/out", "copied") == (shown["output_s3_prefix"], shown["output_s3_status"])


def test_a_copy_that_fails_is_told_on_the_batch_and_nowhere_else(world: World) -> None:
    """Where we may not write."""
    ref = ended(world, "s3://forbidden/out/")
    assert "pending" == world.http().get(f"batches/{ref.id}").json()["output_s3_status"]

    world.delivery.deliver(ref)

    shown = world.http().get(f"batches/{ref.id}").json()
    assert ("failed", "file-result") == (shown["output_s3_status"], shown["output_file_id"])


@pytest.mark.parametrize(("faults", "status"), [([fail, lose_answer], "copied"), ([fail] * 3, "failed")])
def test_a_copy_is_tried_three_times(faults: list[Any], status: str) -> None:
    """A second copy is like the first."""
    plain = services.World()
    hostile = Hostile(plain.memory.elsewhere, {"deliver": faults})
    world = services.World(plain.memory, elsewhere=hostile.port)

    assert status == world.delivery.deliver(ended(world, "s3://lake/acme/out")).output_s3_status


def test_a_batch_without_a_wish_is_left_alone(world: World) -> None:
    """Nothing is shown of it either."""
    ref = BatchRef(*ACME, world.create())

    assert world.memory.batches.get(ref) == world.delivery.deliver(ref)
    assert "output_s3_prefix" not in world.http().get(f"batches/{ref.id}").json()


@pytest.mark.parametrize("prefix", ["s3://lake/other/out", "s3://nowhere", "out", 7, f"s3://lake/acme/{'x' * 980}"])
def test_a_prefix_that_is_not_open_is_refused_at_the_create(world: World, prefix: object) -> None:
    """400, naming the field."""
    body = world.request() | {"output_s3_prefix": prefix}

    answer = world.http().post("batches", json=body)

    assert (400, "output_s3_prefix") == (answer.status_code, answer.json()["error"]["param"])
