"""Uploads: files in parts, with the official SDK and with what it does not know."""

import hashlib
from pathlib import Path
from typing import Any

import openai
import pytest

from shared.core import paths, scan
from shared.core.ids import BatchRef
from shared.core.window import Timing
from tests.api.world import ACME, OTHER_KEY, READ_KEY, START, World, lines

MIB = 1 << 20


def begin(world: World, size: int, **fields: Any) -> str:
    """Begin an upload of so many bytes and give its id."""
    upload = world.openai().uploads.create(
        **{"filename": "requests.jsonl", "purpose": "batch", "bytes": size, "mime_type": "application/jsonl"} | fields
    )
    return upload.id


def add(world: World, upload_id: str, data: bytes) -> str:
    """Add a part and give its id."""
    return world.openai().uploads.parts.create(upload_id, data=data).id


def scanned(world: World, file_id: str) -> list[str | None]:
    """Give the custom_ids of a file's scan."""
    return [entry.custom_id for entry in scan.entries(world.memory.blobs.stream(paths.scan("acme", file_id)))]


@pytest.mark.parametrize("part_size", [None, 4 * MIB, 1 * MIB])
def test_the_sdk_uploads_a_file_in_parts(world: World, tmp_path: Path, part_size: int | None) -> None:
    """`upload_file_chunked` with its own part size, and with those that pass through a Lambda."""
    content = lines(90_000)
    path = tmp_path / "big.jsonl"
    path.write_bytes(content)

    upload = world.openai().uploads.upload_file_chunked(
        file=path, mime_type="application/jsonl", purpose="batch", part_size=part_size
    )

    assert ("upload", "completed", "big.jsonl", len(content)) == (
        upload.object,
        upload.status,
        upload.filename,
        upload.bytes,
    )
    assert upload.file is not None
    assert upload.file == world.openai().files.retrieve(upload.file.id)
    assert ("processed", len(content)) == (upload.file.status, upload.file.bytes)
    assert content == world.memory.blobs.get(paths.file("acme", upload.file.id))
    assert 90_000 == len(scanned(world, upload.file.id))
    assert [] == world.memory.blobs.keys(paths.upload("acme", upload.id))


def test_a_file_of_an_upload_makes_a_batch(world: World) -> None:
    """It is a file like any other."""
    content = lines(3)
    upload_id = begin(world, len(content))

    upload = world.openai().uploads.complete(upload_id, part_ids=[add(world, upload_id, content)])

    assert upload.file is not None
    assert 3 == world.batches.get(BatchRef(*ACME, world.create(upload.file.id))).counts.total


def test_an_upload_is_shown_as_it_stands(world: World) -> None:
    """Pending for an hour, and without a file."""
    upload_id = begin(world, 100)

    shown = world.http().get(f"uploads/{upload_id}").json()

    assert {
        "id": upload_id,
        "object": "upload",
        "bytes": 100,
        "created_at": int(START),
        "expires_at": int(START) + 3600,
        "filename": "requests.jsonl",
        "purpose": "batch",
        "status": "pending",
        "file": None,
    } == shown


def test_the_order_of_the_completion_is_the_order_of_the_file(world: World) -> None:
    """Whichever part came first."""
    content = lines(4)
    upload_id = begin(world, len(content))
    behind, front = add(world, upload_id, content[100:]), add(world, upload_id, content[:100])

    upload = world.openai().uploads.complete(upload_id, part_ids=[front, behind])

    assert upload.file is not None
    assert content == world.openai().files.content(upload.file.id).content


def test_a_part_that_is_not_named_is_not_in_the_file(world: World) -> None:
    """A part whose answer was lost is sent again; the lost one does not matter."""
    content = lines(2)
    upload_id = begin(world, len(content))
    add(world, upload_id, content)

    upload = world.openai().uploads.complete(upload_id, part_ids=[add(world, upload_id, content)])

    assert upload.file is not None
    assert content == world.openai().files.content(upload.file.id).content
    assert [] == world.memory.blobs.keys(paths.upload("acme", upload_id))


def test_a_completion_may_be_repeated(world: World) -> None:
    """Its answer may be lost: the file is the one that the first made."""
    content = lines(2)
    upload_id = begin(world, len(content))
    part_id = add(world, upload_id, content)

    first = world.openai().uploads.complete(upload_id, part_ids=[part_id])
    second = world.openai().uploads.complete(upload_id, part_ids=[part_id])

    assert first == second
    assert 1 == len(world.openai().files.list().data)


def test_a_right_md5_is_fine_and_a_wrong_one_leaves_the_upload_as_it_was(world: World) -> None:
    """The caller may send the right bytes after all."""
    content = lines(2)
    upload_id = begin(world, len(content))
    part_id = add(world, upload_id, content)

    with pytest.raises(openai.BadRequestError) as refused:
        world.openai().uploads.complete(upload_id, part_ids=[part_id], md5="0" * 32)
    assert "md5" == refused.value.param
    assert [] == world.openai().files.list().data
    assert "pending" == world.http().get(f"uploads/{upload_id}").json()["status"]
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    assert "completed" == world.openai().uploads.complete(upload_id, part_ids=[part_id], md5=digest).status


def test_the_parts_must_have_the_bytes_that_were_announced(world: World) -> None:
    """No more and no fewer."""
    content = lines(2)
    upload_id = begin(world, len(content) + 1)

    with pytest.raises(openai.BadRequestError) as refused:
        world.openai().uploads.complete(upload_id, part_ids=[add(world, upload_id, content)])

    assert "part_ids" == refused.value.param


@pytest.mark.parametrize("part_ids", [["part_00000000000000000000000000"], [], ["part_1", "part_1"]])
def test_parts_that_are_not_there_are_refused(world: World, part_ids: list[str]) -> None:
    """Unknown, none, or one twice."""
    answer = world.http().post(f"uploads/{begin(world, 10)}/complete", json={"part_ids": part_ids})

    assert (400, "part_ids") == (answer.status_code, answer.json()["error"]["param"])


def test_a_file_that_the_scan_refuses_is_refused_at_the_completion(world: World) -> None:
    """With the same code as in a simple upload, and nothing stays but the parts."""
    content = lines(2).decode().encode("utf-16")
    upload_id = begin(world, len(content))

    with pytest.raises(openai.BadRequestError) as refused:
        world.openai().uploads.complete(upload_id, part_ids=[add(world, upload_id, content)])

    assert "invalid_encoding" == refused.value.code
    assert [] == world.memory.blobs.keys("orgs/acme/files/")


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"purpose": "fine-tune"}, 400, "purpose"),
        ({"bytes": 0}, 400, "bytes"),
        ({"bytes": True}, 400, "bytes"),
        ({"bytes": 10.5}, 400, "bytes"),
        ({"bytes": "10"}, 400, "bytes"),
        ({"bytes": 5 * 10**9 + 1}, 413, "bytes"),
        ({"filename": "a.csv"}, 400, "filename"),
        ({"filename": "a" * 250 + ".jsonl"}, 400, "filename"),
        ({"filename": 7}, 400, "filename"),
        ({"mime_type": None}, 400, "mime_type"),
        ({"surprise": 1}, 400, "surprise"),
        ({"expires_after": {"anchor": "created_at", "seconds": 1}}, 400, "expires_after[seconds]"),
        ({"expires_after": {"anchor": "last", "seconds": 3600}}, 400, "expires_after"),
        ({"expires_after": 3600}, 400, "expires_after"),
    ],
)
def test_a_wrong_create_names_the_field(world: World, fields: dict[str, Any], status: int, param: str) -> None:
    """What is wrong is said before a byte is sent."""
    body = {"filename": "a.jsonl", "purpose": "batch", "bytes": 10, "mime_type": "application/jsonl"} | fields

    answer = world.http().post("uploads", json=body)

    assert (status, param) == (answer.status_code, answer.json()["error"]["param"])


def test_a_whole_number_with_a_point_is_an_integer(world: World) -> None:
    """JSON has one kind of numbers, and some clients write all of them so."""
    body = {"filename": "a.jsonl", "purpose": "batch", "bytes": 10.0, "mime_type": "application/jsonl"}
    answer = world.http().post("uploads", json={**body, "expires_after": {"anchor": "created_at", "seconds": 3600.0}})
    assert (200, 10) == (answer.status_code, answer.json()["bytes"])


def test_the_file_lives_as_long_as_the_upload_asked_for(world: World) -> None:
    """From the file's own creation on."""
    content = lines(1)
    upload_id = begin(world, len(content), expires_after={"anchor": "created_at", "seconds": 7200})
    world.time += 100

    upload = world.openai().uploads.complete(upload_id, part_ids=[add(world, upload_id, content)])

    assert upload.file is not None
    assert int(START) + 7300 == upload.file.expires_at


def test_a_cancelled_upload_is_over(world: World) -> None:
    """Its parts are gone; a second cancel changes nothing; it takes no part and no completion."""
    upload_id = begin(world, 10)
    part_id = add(world, upload_id, b"0123456789")

    assert "cancelled" == world.openai().uploads.cancel(upload_id).status
    assert "cancelled" == world.openai().uploads.cancel(upload_id).status
    assert [] == world.memory.blobs.keys()
    with pytest.raises(openai.ConflictError):
        world.openai().uploads.parts.create(upload_id, data=b"x")
    with pytest.raises(openai.ConflictError):
        world.openai().uploads.complete(upload_id, part_ids=[part_id])


def test_a_completed_upload_cannot_be_cancelled(world: World) -> None:
    """It is a file now, which can be deleted."""
    content = lines(1)
    upload_id = begin(world, len(content))
    world.openai().uploads.complete(upload_id, part_ids=[add(world, upload_id, content)])

    with pytest.raises(openai.ConflictError):
        world.openai().uploads.cancel(upload_id)


def test_an_upload_expires_after_an_hour_divided_by_the_scale_of_time() -> None:
    """Whether or not anybody sweeps it."""
    world = World(timing=Timing(scale=60))
    upload_id = begin(world, 10)
    world.time = START + 60

    assert "expired" == world.http().get(f"uploads/{upload_id}").json()["status"]
    with pytest.raises(openai.ConflictError):
        world.openai().uploads.parts.create(upload_id, data=b"x")
    with pytest.raises(openai.ConflictError):
        world.openai().uploads.cancel(upload_id)


def test_an_upload_is_nobody_elses(world: World) -> None:
    """Another organization's is a missing one, whatever is asked of it; a key that may only read changes nothing."""
    upload_id = begin(world, 10)

    for path in ("complete", "cancel", "parts", "urls"):
        body: dict[str, Any] = {"files": {"data": b"x"}} if path == "parts" else {"json": {}}
        if path == "complete":
            body = {"json": {"part_ids": ["part_1"]}}
        if path == "urls":
            body = {"json": {"count": 1}}
        assert 404 == world.http(OTHER_KEY).post(f"uploads/{upload_id}/{path}", **body).status_code
        assert 403 == world.http(READ_KEY).post(f"uploads/{upload_id}/{path}", **body).status_code
    assert 404 == world.http(OTHER_KEY).get(f"uploads/{upload_id}").status_code
    assert 404 == world.http().get("uploads/nonsense").status_code
    assert 200 == world.http(READ_KEY).get(f"uploads/{upload_id}").status_code


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({"other": b"x"}, "unknown_parameter"),
        ([("data", b"x"), ("data", b"y")], "invalid_request"),
        ({}, "unsupported_media_type"),
    ],
)
def test_a_form_with_anything_but_one_part_is_refused(world: World, files: Any, code: str) -> None:
    """And leaves nothing."""
    answer = world.http().post(f"uploads/{begin(world, 10)}/parts", files=files)

    assert code == answer.json()["error"]["code"]
    assert [] == world.memory.blobs.keys()


def test_a_part_over_64_mib_is_too_large(world: World) -> None:
    """413, before it is read to its end."""
    answer = world.http().post(f"uploads/{begin(world, 10)}/parts", files={"data": bytes(64 * MIB + 1)})

    assert (413, "body_too_large") == (answer.status_code, answer.json()["error"]["code"])
    assert [] == world.memory.blobs.keys()
    assert {} == world.memory.blobs._uploads


@pytest.fixture
def late() -> World:
    """Give a world in which files over 10,000 bytes are scanned after their upload was answered."""
    return World(prompt_bytes=10_000)


def test_a_large_file_is_uploaded_first_and_processed_later(late: World) -> None:
    """Its scan is asked for; its content is not there before it is put together."""
    content = lines(100)
    upload_id = begin(late, len(content))
    parts = [add(late, upload_id, content[at : at + 5000]) for at in range(0, len(content), 5000)]

    upload = late.openai().uploads.complete(upload_id, part_ids=parts)

    assert upload.file is not None
    assert ("uploaded", len(content)) == (upload.file.status, upload.file.bytes)
    assert [(ACME, upload.file.id)] == late.memory.scans.started
    with pytest.raises(openai.ConflictError):
        late.openai().files.content(upload.file.id)
    late.scans.advance(ACME, upload.file.id, until=START + 1)
    assert "processed" == late.openai().files.retrieve(upload.file.id).status
    assert content == late.openai().files.content(upload.file.id).content
    assert 100 == len(scanned(late, upload.file.id))
    assert [paths.file("acme", upload.file.id), paths.scan("acme", upload.file.id)] == late.memory.blobs.keys()


def test_a_large_file_that_the_scan_refuses_says_so(late: World) -> None:
    """Its status is `error`, and the details say why."""
    content = lines(100).decode().encode("utf-16")
    upload_id = begin(late, len(content))
    upload = late.openai().uploads.complete(upload_id, part_ids=[add(late, upload_id, content)])
    assert upload.file is not None

    late.scans.advance(ACME, upload.file.id, until=START + 1)

    file = late.openai().files.retrieve(upload.file.id)
    assert "error" == file.status
    assert "UTF-8" in (file.status_details or "")


def send_to_urls(world: World, upload_id: str, pieces: list[bytes]) -> list[str]:
    """Ask for URLs and do what a PUT to each would do; give the ETags."""
    urls = world.http().post(f"uploads/{upload_id}/urls", json={"count": len(pieces), "part_bytes": 5 * MIB}).json()
    upload = world.memory.uploads.get(ACME, upload_id)
    assert [number + 1 for number in range(len(pieces))] == [one["part_number"] for one in urls["data"]]
    assert upload.multipart is not None
    assert upload.file_id is not None
    key = paths.file("acme", upload.file_id)
    for number, piece in enumerate(pieces, 1):
        world.memory.blobs.part(key, upload.multipart, number, piece)
    return [info.etag for _, info in world.memory.blobs.parts(key, upload.multipart)]


def test_parts_may_go_straight_to_the_store(world: World) -> None:
    """By signed URLs; the completion names their ETags, and the file is scanned later."""
    content = lines(50_000)
    upload_id = begin(world, len(content))
    etags = send_to_urls(world, upload_id, [content[: 5 * MIB], content[5 * MIB :]])
    body = {"etags": etags, "md5": hashlib.md5(content, usedforsecurity=False).hexdigest()}

    first = world.http().post(f"uploads/{upload_id}/complete", json=body)
    second = world.http().post(f"uploads/{upload_id}/complete", json=body)

    assert 200 == first.status_code, first.text
    assert first.json() == second.json()
    file_id = first.json()["file"]["id"]
    assert "uploaded" == first.json()["file"]["status"]
    assert content == world.openai().files.content(file_id).content
    world.scans.advance(ACME, file_id, until=START + 1)
    assert "processed" == world.openai().files.retrieve(file_id).status
    assert 50_000 == len(scanned(world, file_id))


def test_etags_must_be_those_of_the_parts(world: World) -> None:
    """Nobody completes what did not arrive."""
    content = lines(10)
    upload_id = begin(world, len(content))
    etags = send_to_urls(world, upload_id, [content])

    for wrong in ([], ["nonsense"], [*etags, *etags]):
        answer = world.http().post(f"uploads/{upload_id}/complete", json={"etags": wrong})
        assert (400, "etags") == (answer.status_code, answer.json()["error"]["param"])
    assert 400 == world.http().post(f"uploads/{upload_id}/complete", json={}).status_code


def test_a_cancel_forgets_the_parts_that_went_to_the_store(world: World) -> None:
    """No multipart upload stays."""
    upload_id = begin(world, 10)
    send_to_urls(world, upload_id, [b"0123456789"])

    world.openai().uploads.cancel(upload_id)

    assert {} == world.memory.blobs._uploads
    assert [] == world.memory.blobs.keys()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"count": 0},
        {"count": 1001},
        {"count": "3"},
        {"part_numbers": [0]},
        {"part_numbers": [10_001]},
        {"part_numbers": 3},
        {"count": 1, "part_numbers": [1]},
        {"count": 1, "part_bytes": 1024},
        {"count": 1, "more": 1},
    ],
)
def test_a_wrong_request_for_urls_is_refused(world: World, body: dict[str, Any]) -> None:
    """1 to 1,000 parts at a time, of at least 5 MiB."""
    assert 400 == world.http().post(f"uploads/{begin(world, 10)}/urls", json=body).status_code
