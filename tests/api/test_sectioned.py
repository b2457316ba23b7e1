"""Sectioned files over HTTP: two contracts take them, two refuse them at the moment when they judge files."""

import json
from typing import Any

import msgspec
import pytest

from shared.core.sectioned import expand
from tests.api import dialects
from tests.api.dialects import CHAT, chat, create, error, jsonl, of_section, sectioned, upload
from tests.api.world import World

B = "boardwalk"
FORMAT = {"batchrouter_input_format": "sectioned.v1"}
EMBEDDINGS = {"section": "e", "method": "POST", "url": "/v1/embeddings", "body": {"model": "shells"}}


@pytest.fixture
def world() -> World:
    """Give a world with several models."""
    return dialects.world()


def refused(answer: Any) -> tuple[int, str, str | None, str]:
    """Give status, code, param and message of a refusal."""
    return *error(answer), answer.json()["error"]["message"]


@pytest.mark.parametrize("contract", ["openai", B])
def test_a_sectioned_file_makes_a_batch_of_its_requests(world: World, contract: str) -> None:
    """The format and the sections do not count, and the file comes back as it went up."""
    content = sectioned(of_section("a"), of_section("b", max_tokens=7))
    told = create(world, contract, content, key="k").json()
    assert {"total": 2, "completed": 0, "failed": 0} == told["request_counts"]
    back = world.http(contract=contract).get(f"files/{told['input_file_id']}/content")
    assert content == back.content


def test_the_official_sdk_uploads_one(world: World) -> None:
    """As any file."""
    client = world.openai()
    file = client.files.create(file=("requests.jsonl", sectioned()), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
    assert batch.request_counts is not None
    assert 1 == batch.request_counts.total


@pytest.mark.parametrize(
    ("lines", "expected", "said"),
    [
        ([of_section("a", "nobody")], "invalid_request", "Line 3: no line before names this `section`"),
        ([of_section(), {"section": "tides"}], "missing_required_parameter", "Line 4: the section has no `method`"),
        ([of_section(), {**EMBEDDINGS, "section": "tides"}], "invalid_request", "Line 4: lines 2 and 4 are sections"),
        ([EMBEDDINGS, of_section("a", "e", messages=..., input="x")], "url_mismatch", "Line 4: "),
        ([of_section(), of_section()], "duplicate_custom_id", "Line 4: lines 3 and 4 have"),
        ([of_section("a", model="moon-1b"), of_section("b")], "mismatched_model", "Line 4: "),
        ([of_section("a", max_tokens=None)], "missing_required_parameter", "Line 3: `body` must have `max_tokens`"),
        ([of_section("x" * 129)], "invalid_request", "Line 3: `custom_id`"),
        ([chat()], "missing_required_parameter", "Line 3: the line has no `section`"),
        ([of_section(), {"format": "batchrouter.sectioned.v1"}], "invalid_request", "Line 4: `format` stands in"),
    ],
)
def test_a_bad_line_of_a_sectioned_file_refuses_the_upload(
    world: World, lines: list[dict[str, Any]], expected: str, said: str
) -> None:
    """Where uploads are judged: with the line's code, and nothing is kept."""
    for line in lines:
        line["body"] = {name: value for name, value in line.get("body", {}).items() if value is not ...}
    *what, message = refused(upload(world, B, sectioned(*lines)))
    assert [400, expected, "file"] == what
    assert message.startswith(said)
    assert [] == world.memory.blobs.keys("")


def test_as_many_requests_as_in_a_plain_file(world: World) -> None:
    """Sections come on top."""
    lines = [of_section(str(number)) for number in range(1001)]
    assert 200 == upload(world, B, sectioned(*lines[:-1])).status_code
    assert (400, "too_many_requests_in_file", "file") == error(upload(world, B, sectioned(*lines)))


def test_metadata_that_says_sectioned_is_held_against_the_file(world: World) -> None:
    """A file that is sectioned need not be called so; one that is not must not be."""
    assert FORMAT == create(world, B, sectioned(), key="a", metadata=FORMAT).json()["metadata"]
    assert 200 == create(world, B, sectioned(), key="b").status_code
    field = "metadata.batchrouter_input_format"
    assert (400, "invalid_request", field) == error(create(world, B, jsonl(chat()), key="c", metadata=FORMAT))
    assert 200 == create(world, B, jsonl(chat()), key="c").status_code  # the refusal has not used the key up


def test_gridline_refuses_the_upload(world: World) -> None:
    """It judges batches in validation: what no batch could take does not become a file."""
    answer = upload(world, "gridline", sectioned())
    assert (400, "invalid_file_format", "file") == error(answer)
    assert answer.json()["error"]["message"].startswith("sectioned files are not taken here")
    assert [] == world.memory.blobs.keys("")


def test_gridline_refuses_it_in_parts_too(world: World) -> None:
    """When the upload is completed."""
    http, content = world.http(contract="gridline"), sectioned()
    body = {"filename": "a.jsonl", "purpose": "batch", "bytes": len(content), "mime_type": "application/jsonl"}
    upload_id = http.post("uploads", json=body).json()["id"]
    part = http.post(f"uploads/{upload_id}/parts", files={"data": ("part", content)}).json()
    answer = http.post(f"uploads/{upload_id}/complete", json={"part_ids": [part["id"]]})
    assert (400, "invalid_file_format", "file") == error(answer)


def test_token360_refuses_the_create(world: World) -> None:
    """As for any file that it cannot run."""
    answer = create(world, "token360", sectioned())
    assert (400, "batch_invalid_jsonl", "input_file_id") == error(answer)
    assert "is a sectioned one" in answer.json()["error"]["message"]


def dry_run(world: World, contract: str, content: bytes, **fields: Any) -> Any:
    """Upload a file, and ask what would become of a batch of it."""
    body = {
        "input_file_id": upload(world, contract, content).json()["id"],
        "endpoint": CHAT,
        "completion_window": "24h",
    }
    return world.http(contract=contract).post("batches/validate", json=body | fields)


@pytest.mark.parametrize("contract", ["openai", B])
def test_a_dry_run_bounds_whole_requests(world: World, contract: str) -> None:
    """What a sectioned file can use and cost at most is what the plain file can that says the same."""
    lines = [of_section("a"), of_section("b", max_tokens=7, n=2)]
    section = json.loads(sectioned().split(b"\n")[1])
    plain = b"".join(msgspec.json.encode(expand(section, line)) + b"\n" for line in lines)

    told, expected = (dry_run(world, contract, content).json() for content in (sectioned(*lines), plain))

    assert (True, 2) == (told["valid"], told["requests"])
    assert expected | {"input_file_id": told["input_file_id"]} == told


def test_a_dry_run_tells_of_all_bad_lines(world: World) -> None:
    """Sections among them."""
    told = dry_run(world, "openai", sectioned({"section": "tides"}, of_section("a"), of_section("b", "nobody"))).json()
    assert (False, 3) == (told["valid"], told["requests"])
    assert [(3, "method"), (5, "section")] == [(error["line"], error["param"]) for error in told["errors"]["data"]]


def test_a_dry_run_is_refused_as_the_create_would_be(world: World) -> None:
    """For a format that is not taken, and for a word about it that is wrong."""
    assert (400, "batch_invalid_jsonl", "input_file_id") == error(dry_run(world, "token360", sectioned()))
    field = "metadata.batchrouter_input_format"
    assert (400, "invalid_request", field) == error(dry_run(world, B, jsonl(chat()), metadata=FORMAT))
    assert dry_run(world, B, sectioned(), metadata=FORMAT).json()["valid"]
