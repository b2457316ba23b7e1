"""The sweep: what has expired goes with everything that belongs to it, and nothing else does."""

import pytest
from msgspec.structs import replace

from shared.core import paths
from shared.core.contract import LONGEST_LIFE
from shared.core.contracts import CONTRACTS
from shared.core.errors import NotFound, Unavailable
from shared.core.expiry import LOST
from shared.core.ids import Space
from shared.core.records import Pending, Status, Stored, UploadStatus
from shared.services.uploads import NewUpload
from tests.fakes import Hostile, fail
from tests.services.test_scans import CONTENT, uploaded
from tests.services.world import ACME, OPENAI, START, World, lines

DAY = 86400
THIRTY_DAYS = 30 * DAY


def begin(world: World, content: bytes) -> tuple[str, str]:
    """Begin an upload and add its one part; give both ids."""
    upload = world.uploads.create(ACME, OPENAI, NewUpload("a.jsonl", "batch", len(content), None)).upload
    part = world.uploads.begin_part(ACME, upload.id)
    part.write(content)
    return upload.id, part.finish().id


def test_an_expired_file_goes_with_its_bytes_and_makes_room() -> None:
    """Record, object, scan, and its place in what is stored; a younger file stays."""
    world = World()
    old = world.take_in()
    world.time = START + DAY
    young = world.take_in()
    world.time = START + THIRTY_DAYS + 1

    assert 1 == world.expiries.sweep()

    with pytest.raises(NotFound):
        world.memory.files.get(ACME, old.id)
    assert [paths.file("acme", young.id), paths.scan("acme", young.id)] == world.memory.blobs.keys()
    assert Stored(files=1, bytes=young.bytes, input_files=1, input_bytes=young.bytes) == world.memory.files.stored(ACME)


def test_a_file_that_a_live_batch_needs_stays() -> None:
    """Until the batch has ended."""
    world = World()
    file = world.take_in()
    world.batches.create(ACME, OPENAI, world.request(file.id))
    world.time = START + THIRTY_DAYS + 1

    assert 0 == world.expiries.sweep()

    assert lines(2) == world.memory.blobs.get(paths.file("acme", file.id))


def test_a_file_that_is_used_again_and_again_lives_for_a_year_and_no_longer() -> None:
    """Each use prolongs its life; the bucket's own rule, which goes by the age of an object, must never be the one that ends it."""
    world, space, gridline = World(), Space("acme", "gridline"), CONTRACTS["gridline"]
    intake = world.files.begin(space, gridline, "requests.jsonl")
    intake.write(lines(2))
    file = intake.finish(purpose="batch")
    lives = []
    for day in range(0, LONGEST_LIFE // DAY, 7):
        world.time = START + day * DAY
        made = world.batches.create(space, gridline, world.request(file.id))
        world.memory.batches.finish(made.ref, lambda batch: replace(batch, status=Status.CANCELLED), ())
        assert 0 == world.expiries.sweep()
        lives.append((world.memory.files.get(space, file.id).expires_at or 0) - START)
    assert [8 * DAY, 15 * DAY, 22 * DAY] == lives[:3]
    assert [LONGEST_LIFE, LONGEST_LIFE] == lives[-2:]
    world.time = START + LONGEST_LIFE + 1
    assert 1 == world.expiries.sweep()


def test_an_expired_upload_loses_its_parts_at_once_and_its_record_a_day_later() -> None:
    """In between it can be asked what became of it."""
    world = World()
    upload_id, _ = begin(world, lines(2))
    world.time = START + 3601

    world.expiries.sweep()

    assert [] == world.memory.blobs.keys()
    assert UploadStatus.EXPIRED == world.uploads.get(ACME, upload_id).upload.status
    world.time = START + 3601 + DAY
    world.expiries.sweep()
    with pytest.raises(NotFound):
        world.uploads.get(ACME, upload_id)


def test_parts_that_went_to_the_store_expire_as_well() -> None:
    """The multipart upload is aborted."""
    world = World()
    upload = world.uploads.create(ACME, OPENAI, NewUpload("a.jsonl", "batch", 10, None)).upload
    world.uploads.urls(ACME, OPENAI, upload.id, [1])
    world.time = START + 3601

    world.expiries.sweep()

    assert {} == world.memory.blobs._uploads


def test_a_completed_upload_is_forgotten_and_its_file_stays() -> None:
    """The file has a life of its own."""
    world = World()
    upload_id, part_id = begin(world, lines(2))
    file = world.completions.of_parts(ACME, OPENAI, upload_id, part_ids=[part_id], digest=None).file
    world.time = START + 3601 + DAY

    world.expiries.sweep()

    with pytest.raises(NotFound):
        world.uploads.get(ACME, upload_id)
    assert file is not None
    assert file == world.files.get(ACME, file.id)


def test_an_expired_file_that_is_still_to_be_scanned_goes_with_its_parts() -> None:
    """Legs, pieces, parts."""
    world = World(leg_bytes=100)
    file = uploaded(world, CONTENT)
    world.memory.files.update(ACME, file.id, lambda file: replace(file, expires_at=int(START) + 10))
    world.time = START + 11

    world.expiries.sweep()

    assert [] == world.memory.blobs.keys()


def test_a_file_whose_scan_was_never_begun_is_asked_for_again() -> None:
    """Though nobody names it in a batch: after some minutes, and until it is done."""
    world = World(leg_bytes=100)
    file = uploaded(world, CONTENT)
    world.time = START + LOST - 1
    world.expiries.sweep()
    assert [] == world.memory.scans.started

    world.time = START + LOST + 1
    assert 0 == world.expiries.sweep()

    assert [(ACME, file.id)] == world.memory.scans.started
    done = world.scans.advance(ACME, file.id, until=world.time + 1)
    assert "processed" == done.status
    world.time += LOST + 1
    world.expiries.sweep()
    assert [(ACME, file.id)] == world.memory.scans.started
    assert done == world.files.get(ACME, file.id)


def test_a_file_that_somebody_works_on_is_left_to_him() -> None:
    """A step a minute is enough."""
    world = World(leg_bytes=100)
    file = uploaded(world, CONTENT)
    pending = replace(file.pending or Pending(), touched=int(START) + LOST)
    world.memory.files.update(ACME, file.id, lambda file: replace(file, pending=pending))
    world.time = START + LOST + 1

    world.expiries.sweep()

    assert [] == world.memory.scans.started


def test_one_that_cannot_be_removed_now_keeps_no_other() -> None:
    """The sweep goes on behind it, and says in the end that something is left."""
    plain = World()
    old, other = plain.take_in(), plain.take_in()
    world = World(plain.memory, file_store=Hostile(plain.memory.files, {"delete": [fail]}).port)
    world.time = START + THIRTY_DAYS + 1

    with pytest.raises(Unavailable):
        world.expiries.sweep()

    assert [old.id] == [file.id for file in plain.memory.files.page(ACME, after=None, limit=9, newest_first=True)]
    assert [] == plain.memory.blobs.keys(paths.file("acme", other.id))
    assert 1 == world.expiries.sweep()
