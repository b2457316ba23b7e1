"""How much an organization may store: counted with the files, never beside them."""

from dataclasses import replace

import pytest

from shared.core.errors import Refused
from shared.core.records import Stored
from shared.core.room import Room
from shared.services.uploads import NewUpload
from tests.contracts.samples import at_once
from tests.services.world import ACME, OPENAI, World, lines


def take_in(world: World, room: Room, content: bytes) -> str:
    """Take a file in under a contract with this room, and give its id."""
    intake = world.files.begin(ACME, replace(OPENAI, storage=room))
    intake.write(content)
    try:
        return intake.finish(purpose="batch").id
    finally:
        intake.abort()


def test_a_file_over_the_limit_of_bytes_is_refused_and_leaves_nothing() -> None:
    """The last one that fits is taken; deleting makes room."""
    world, room = World(), Room(bytes=3 * len(lines(1)))
    first = take_in(world, room, lines(2))

    with pytest.raises(Refused) as refused:
        take_in(world, room, lines(2))
    assert "storage_limit_exceeded" == refused.value.code
    assert 2 == len(world.memory.blobs.keys())
    take_in(world, room, lines(1))
    world.files.delete(ACME, first)
    take_in(world, room, lines(2))


def test_a_file_over_the_limit_of_files_is_refused() -> None:
    """However small it is."""
    world, room = World(), Room(files=2)
    take_in(world, room, lines(1))
    take_in(world, room, lines(1))

    with pytest.raises(Refused):
        take_in(world, room, lines(1))


def test_the_limit_of_the_account_counts_where_the_contract_has_none() -> None:
    """And only there."""
    world = World(account_bytes=len(lines(1)))

    with pytest.raises(Refused):
        take_in(world, Room(), lines(2))
    take_in(world, Room(bytes=1 << 20), lines(2))


def test_of_many_files_at_once_as_many_are_taken_as_fit() -> None:
    """Nobody slips through between the look and the write."""
    world, room = World(), Room(files=3)

    def one(_: int) -> str | None:
        try:
            return take_in(world, room, lines(1))
        except Refused:
            return None

    taken = [file_id for file_id in at_once(8, one) if file_id]

    assert 3 == len(taken)
    assert Stored(files=3, bytes=3 * len(lines(1)), input_files=3, input_bytes=3 * len(lines(1))) == (
        world.memory.files.stored(ACME)
    )


def test_a_refused_file_of_an_upload_leaves_the_upload_pending() -> None:
    """Once something is deleted, the same completion succeeds."""
    world = World()
    contract = replace(OPENAI, storage=Room(files=1))
    first = take_in(world, Room(), lines(1))
    content = lines(2)
    upload = world.uploads.create(ACME, contract, NewUpload("a.jsonl", "batch", len(content), None)).upload
    part = world.uploads.begin_part(ACME, upload.id)
    part.write(content)
    part_ids = [part.finish().id]

    with pytest.raises(Refused):
        world.completions.of_parts(ACME, contract, upload.id, part_ids=part_ids, digest=None)
    world.files.delete(ACME, first)
    shown = world.completions.of_parts(ACME, contract, upload.id, part_ids=part_ids, digest=None)

    assert shown.file is not None
    assert 2 == shown.file.requests
