"""Files when stores fail half-way: no record without its bytes, no bytes without need."""

import pytest

from shared.adapters.memory import Memory
from shared.core import paths
from shared.core.errors import NotFound, Refused, Unavailable
from tests.fakes import Fault, Hostile, fail, lose_answer, ok, then
from tests.services.world import ACME, OPENAI, World, lines


def test_nothing_can_be_seen_of_a_file_before_it_is_whole() -> None:
    """The record comes last."""
    world = World()
    intake = world.files.begin(ACME, OPENAI, "a.jsonl")
    intake.write(lines(2))

    assert [] == world.files.page(ACME, after=None, limit=10).items
    file = intake.finish(purpose="batch")
    assert [file] == list(world.files.page(ACME, after=None, limit=10).items)


@pytest.mark.parametrize("written", [lines(2), lines(80_000)])
def test_an_aborted_intake_leaves_nothing(written: bytes) -> None:
    """Neither objects nor unfinished uploads, small or large."""
    world = World()
    intake = world.files.begin(ACME, OPENAI, "a.jsonl")
    intake.write(written)

    intake.abort()

    assert [] == world.memory.blobs.keys()
    assert {} == world.memory.blobs._uploads


@pytest.mark.parametrize("script", [[fail], [ok, fail], [lose_answer], [ok, lose_answer]])
def test_an_intake_whose_objects_could_not_be_written_leaves_nothing(script: list[Fault]) -> None:
    """Whichever of the two writes failed, and whether or not it took effect."""
    memory = Memory()
    world = World(memory, blobs=Hostile(memory.blobs, {"put": script}).port)
    intake = world.files.begin(ACME, OPENAI, "a.jsonl")
    intake.write(lines(2))

    with pytest.raises(Unavailable):
        intake.finish(purpose="batch")
    intake.abort()

    assert [] == memory.blobs.keys()


@pytest.mark.parametrize("first", [fail, lose_answer])
def test_a_record_whose_answer_was_lost_is_written_once(first: Fault) -> None:
    """A second put of the same record settles it."""
    memory = Memory()
    world = World(memory, file_store=Hostile(memory.files, {"put": [first]}).port)

    file = world.take_in()

    assert file == memory.files.get(ACME, file.id)


def test_bytes_stay_while_a_record_may_point_to_them() -> None:
    """The write of the record is in doubt: the bytes are kept, whatever is aborted afterwards."""
    memory = Memory()
    world = World(memory, file_store=Hostile(memory.files, {"put": [lose_answer, fail]}).port)
    intake = world.files.begin(ACME, OPENAI, "a.jsonl")
    intake.write(lines(2))

    with pytest.raises(Unavailable):
        intake.finish(purpose="batch")
    intake.abort()

    (file,) = memory.files.page(ACME, after=None, limit=10, newest_first=True)
    assert lines(2) == b"".join(world.files.read(file, 0, file.bytes))


def test_a_file_that_a_batch_takes_while_it_is_being_deleted_is_kept() -> None:
    """The store decides, not the look before: the batch was faster."""
    memory = Memory()
    quick = World(memory)
    file = quick.take_in()
    create = then(lambda: quick.batches.create(ACME, OPENAI, quick.request(input_file_id=file.id)))
    world = World(memory, file_store=Hostile(memory.files, {"get": [create]}).port)

    with pytest.raises(Refused, match="input of a batch"):
        world.files.delete(ACME, file.id)

    assert memory.blobs.stat(paths.file("acme", file.id)).size


def test_no_batch_is_made_of_a_file_that_is_being_deleted() -> None:
    """The delete was faster."""
    memory = Memory()
    quick = World(memory)
    file = quick.take_in()
    delete = then(lambda: quick.files.delete(ACME, file.id))
    world = World(memory, file_store=Hostile(memory.files, {"get": [delete]}).port)

    with pytest.raises(NotFound):
        world.batches.create(ACME, OPENAI, world.request(input_file_id=file.id))

    assert [] == list(memory.batches.open())
