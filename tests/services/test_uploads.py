"""Uploads under bad weather: lost answers, two completions at once, a cancel in between."""

from typing import Any

import pytest

from shared.core import paths
from shared.core.errors import Refused, Unavailable
from shared.core.ids import Space
from shared.core.records import UploadStatus
from shared.services.upload_records import Shown
from shared.services.uploads import NewUpload
from tests.contracts.samples import at_once
from tests.fakes import Call, Hostile, fail, lose_answer, then
from tests.services.world import ACME, OPENAI, World, lines

CONTENT = lines(500)


def begin(world: World, space: Space = ACME) -> tuple[str, list[str]]:
    """Begin an upload and add its parts; give their ids."""
    upload = world.uploads.create(space, OPENAI, NewUpload("a.jsonl", "batch", len(CONTENT), None)).upload
    part_ids = []
    for at in range(0, len(CONTENT), 10_000):
        part = world.uploads.begin_part(space, upload.id)
        part.write(CONTENT[at : at + 10_000])
        part_ids.append(part.finish().id)
    return upload.id, part_ids


def completion(world: World, upload_id: str, part_ids: list[str]) -> Shown:
    """Complete it."""
    return world.completions.of_parts(ACME, OPENAI, upload_id, part_ids=part_ids, digest=None)


def files(world: World) -> list[str]:
    """Give the keys of all objects of files."""
    return world.memory.blobs.keys("orgs/acme/files/")


@pytest.mark.parametrize("prompt_bytes", [1 << 20, 1000])
def test_of_two_completions_at_once_one_makes_the_file(prompt_bytes: int) -> None:
    """Both are told of the same file, and nothing of the other try stays."""
    world = World(prompt_bytes=prompt_bytes)
    upload_id, part_ids = begin(world)

    answers = at_once(4, lambda _: completion(world, upload_id, part_ids))

    assert 1 == len({answer.file.id for answer in answers if isinstance(answer, Shown) and answer.file})
    stored = world.memory.files.stored(ACME)
    assert (1, len(CONTENT)) == (stored.files, stored.bytes)
    assert len(files(world)) <= 1


@pytest.mark.parametrize("prompt_bytes", [1 << 20, 1000])
def test_a_cancel_that_comes_first_wins(prompt_bytes: int) -> None:
    """The completion finds out when it wants to write its record."""
    plain = World()
    upload_id, part_ids = begin(plain)

    def cancel() -> None:
        plain.uploads.cancel(ACME, upload_id)

    hostile = Hostile(plain.memory.uploads, {"get": [then(cancel)]})
    world = World(plain.memory, prompt_bytes=prompt_bytes, upload_store=hostile.port)

    with pytest.raises(Refused) as refused:
        completion(world, upload_id, part_ids)

    assert "upload_not_pending" == refused.value.code
    assert [] == files(world)
    assert 0 == world.memory.files.stored(ACME).files


@pytest.mark.parametrize("method", ["get", "stream"])
def test_a_completion_that_another_one_overtakes_gives_the_same_file(method: str) -> None:
    """The parts are gone under its hands; the file that they became is there, and that is the answer."""
    plain = World()
    upload_id, part_ids = begin(plain)
    first: list[Shown] = []

    def overtaken(call: Call) -> Any:
        found = call()
        first.append(completion(plain, upload_id, part_ids))
        return found

    records = Hostile(plain.memory.uploads, {"get": [overtaken]} if method == "get" else {})
    blobs = Hostile(plain.memory.blobs, {"stream": [overtaken]} if method == "stream" else {})
    world = World(plain.memory, upload_store=records.port, blobs=blobs.port)

    second = completion(world, upload_id, part_ids)

    assert first == [second]
    assert second.file is not None
    assert [paths.file("acme", second.file.id)] == files(world)


def test_a_completion_that_the_end_of_its_upload_overtakes_says_so() -> None:
    """It is the upload that is over, not a part that is missing."""
    plain = World()
    upload_id, part_ids = begin(plain)

    def overtaken(call: Call) -> Any:
        plain.time += 3601
        plain.expiries.sweep()
        return call()

    world = World(plain.memory, blobs=Hostile(plain.memory.blobs, {"stream": [overtaken]}).port)

    with pytest.raises(Refused) as refused:
        completion(world, upload_id, part_ids)

    assert "upload_not_pending" == refused.value.code
    assert [] == world.memory.blobs.keys()


def test_a_small_file_in_very_many_parts_is_refused_before_they_are_read() -> None:
    """A request a part takes longer than callers wait for an answer."""
    world = World()
    upload = world.uploads.create(ACME, OPENAI, NewUpload("a.jsonl", "batch", 501, None)).upload

    with pytest.raises(Refused) as refused:
        completion(world, upload.id, [f"part_{number}" for number in range(501)])

    assert ("invalid_request", "part_ids") == (refused.value.code, refused.value.param)
    assert "501" not in refused.value.message
    assert "500" in refused.value.message


def test_an_upload_goes_one_way_or_the_other() -> None:
    """Once URLs were asked for, the parts are where those lead; nothing of them is left behind."""
    world = World()
    upload_id, part_ids = begin(world)
    world.uploads.urls(ACME, OPENAI, upload_id, [1])

    with pytest.raises(Refused) as refused:
        completion(world, upload_id, part_ids)

    assert ("invalid_request", "part_ids") == (refused.value.code, refused.value.param)


def test_a_completion_whose_record_was_written_and_not_answered_is_known() -> None:
    """The intake writes it again, and finds it done."""
    plain = World()
    hostile = Hostile(plain.memory.uploads, {"complete": [lose_answer]})
    world = World(plain.memory, upload_store=hostile.port)
    upload_id, part_ids = begin(world)

    shown = completion(world, upload_id, part_ids)

    assert UploadStatus.COMPLETED == shown.upload.status
    assert shown.file is not None
    assert CONTENT == world.memory.blobs.get(paths.file("acme", shown.file.id))


def test_a_scan_that_cannot_be_asked_for_does_not_fail_the_completion() -> None:
    """It is done when a batch names the file."""
    plain = World()
    hostile = Hostile(plain.memory.scans, {"start": [fail]})
    world = World(plain.memory, prompt_bytes=1000, scan_starter=hostile.port)
    upload_id, part_ids = begin(world)

    shown = completion(world, upload_id, part_ids)

    assert shown.file is not None
    assert "uploaded" == shown.file.status


def test_a_part_whose_store_fails_is_not_there() -> None:
    """It can be added again."""
    plain = World()
    hostile = Hostile(plain.memory.blobs, {"put": [fail]})
    world = World(plain.memory, blobs=hostile.port)
    upload = world.uploads.create(ACME, OPENAI, NewUpload("a.jsonl", "batch", 10, None)).upload
    part = world.uploads.begin_part(ACME, upload.id)
    part.write(b"0123456789")

    with pytest.raises(Unavailable):
        part.finish()
    part.abort()

    assert [] == world.memory.blobs.keys()


def test_two_who_ask_for_urls_at_once_share_one_multipart_upload() -> None:
    """Or parts of one file would lie in two."""
    world = World()
    upload = world.uploads.create(ACME, OPENAI, NewUpload("a.jsonl", "batch", 10, None)).upload

    answers = at_once(4, lambda _: world.uploads.urls(ACME, OPENAI, upload.id, [1]))

    assert 1 == len({answer[0].url for answer in answers if isinstance(answer, list)})
    assert 1 == len(world.memory.blobs._uploads)
