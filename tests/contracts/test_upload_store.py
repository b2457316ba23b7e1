"""What `shared.ports.UploadStore` and `Expiries` promise, and what `FileStore` promises about storage."""

import pytest
from msgspec.structs import replace

from shared.core.errors import Conflict, Full, NotFound
from shared.core.expiry import LOST
from shared.core.ids import Space
from shared.core.records import Pending, Stored, Upload, UploadStatus
from shared.core.room import ENDLESS, Room
from shared.ports import Due
from tests.contracts.conftest import Stores
from tests.contracts.samples import ELSEWHERE, SPACE, at_once, batch, file

AT = 1_800_000_000
ONE = Stored(files=1, bytes=12, input_files=1, input_bytes=12)


def upload(id_: str = "upload_1", space: Space = SPACE) -> Upload:
    """Give an upload's record."""
    return Upload(
        id=id_,
        org=space.org,
        contract=space.contract,
        bytes=12,
        filename="in.jsonl",
        purpose="batch",
        created_at=AT,
        expires_at=AT + 3600,
    )


def test_an_upload_comes_back_as_it_was_put(stores: Stores) -> None:
    """Every field is kept; the same put again is harmless, another one a conflict."""
    full = replace(upload(), lifetime=3600, file_id="file-9", multipart="m")
    stores.uploads.put(full)
    stores.uploads.put(full)
    assert full == stores.uploads.get(SPACE, "upload_1")
    with pytest.raises(Conflict):
        stores.uploads.put(upload())


@pytest.mark.parametrize("space", ELSEWHERE)
def test_a_foreign_upload_is_a_missing_upload(stores: Stores, space: Space) -> None:
    """For another organization and for another mount; and uploads are no files."""
    stores.uploads.put(upload())
    with pytest.raises(NotFound):
        stores.uploads.get(space, "upload_1")
    with pytest.raises(NotFound):
        stores.uploads.update(space, "upload_1", lambda upload: upload)
    assert [] == stores.files.page(SPACE, after=None, limit=9, newest_first=False)


def test_completing_keeps_the_file_and_marks_the_upload(stores: Stores) -> None:
    """Both or nothing; again, it gives what is there."""
    stores.uploads.put(upload())
    done = stores.uploads.complete(upload(), file(), ENDLESS)
    assert (UploadStatus.COMPLETED, "file-1") == (done.status, done.file_id)
    assert file() == stores.files.get(SPACE, "file-1")
    assert done == stores.uploads.complete(upload(), file(), ENDLESS)
    assert ONE == stores.files.stored(SPACE)


def test_of_many_completions_one_wins(stores: Stores) -> None:
    """The others see its file, and leave none of their own."""
    stores.uploads.put(upload())
    answers = at_once(5, lambda number: stores.uploads.complete(upload(), file(f"file-{number}"), ENDLESS))
    assert 1 == len({answer.file_id for answer in answers if isinstance(answer, Upload)})
    assert 5 == sum(isinstance(answer, Upload) for answer in answers)
    assert ONE == stores.files.stored(SPACE)
    assert 1 == len(stores.files.page(SPACE, after=None, limit=9, newest_first=True))


def test_an_upload_that_has_ended_is_not_completed(stores: Stores) -> None:
    """A cancel that came first stays."""
    stores.uploads.put(upload())
    stores.uploads.update(SPACE, "upload_1", lambda it: replace(it, status=UploadStatus.CANCELLED))
    assert UploadStatus.CANCELLED == stores.uploads.complete(upload(), file(), ENDLESS).status
    with pytest.raises(NotFound):
        stores.files.get(SPACE, "file-1")


def test_a_completion_without_room_changes_nothing(stores: Stores) -> None:
    """The upload is pending still."""
    stores.uploads.put(upload())
    with pytest.raises(Full):
        stores.uploads.complete(upload(), file(), Room(bytes=11))
    assert upload() == stores.uploads.get(SPACE, "upload_1")
    assert Stored() == stores.files.stored(SPACE)


def test_removing_may_be_repeated(stores: Stores) -> None:
    """Gone is gone."""
    stores.uploads.put(upload())
    stores.uploads.remove(upload())
    stores.uploads.remove(upload())
    with pytest.raises(NotFound):
        stores.uploads.get(SPACE, "upload_1")


@pytest.mark.parametrize(
    ("room", "taken"),
    [
        (Room(bytes=11), 0),
        (Room(bytes=24), 2),
        (Room(bytes=35), 2),
        (Room(files=0), 0),
        (Room(files=3), 3),
        (Room(files=3, bytes=24), 2),
        (Room(files=1, bytes=1000, inputs_only=True), 1),
    ],
)
def test_as_many_files_are_kept_as_there_is_room_for(stores: Stores, room: Room, taken: int) -> None:
    """In files and in bytes, whichever ends first; who comes too late is told so."""
    answers = at_once(5, lambda number: stores.files.put(file(f"file-{number}"), room))
    assert taken == sum(answer is None for answer in answers)
    assert 5 - taken == sum(isinstance(answer, Full) for answer in answers)
    assert Stored(files=taken, bytes=12 * taken, input_files=taken, input_bytes=12 * taken) == stores.files.stored(
        SPACE
    )


def test_a_put_that_is_repeated_is_counted_once(stores: Stores) -> None:
    """Even when there would be no room for it any more."""
    stores.files.put(file(), Room(files=1))
    stores.files.put(file(), Room(files=1))
    assert ONE == stores.files.stored(SPACE)


def test_a_deleted_file_makes_room(stores: Stores) -> None:
    """Once."""
    stores.files.put(file())
    stores.files.put(file("file-2"))
    answers = at_once(3, lambda _: stores.files.delete(SPACE, "file-1"))
    assert 1 == sum(answer is None for answer in answers)
    assert ONE == stores.files.stored(SPACE)


def test_spaces_are_counted_apart(stores: Stores) -> None:
    """An organization's mounts too."""
    stores.files.put(file())
    for space in ELSEWHERE:
        assert Stored() == stores.files.stored(space)


def test_results_count_as_files_but_not_as_inputs(stores: Stores) -> None:
    """They are kept whatever room there is, in the transaction that ends their batch."""
    stores.files.put(file())
    stores.batches.create(batch(), None)
    results = [replace(file(f"file-{number}"), purpose="batch_output", bytes=100) for number in (2, 3)]
    stores.batches.finish(batch().ref, lambda batch: replace(batch, errors_total=1), results)
    stores.batches.finish(batch().ref, lambda batch: batch, results)
    assert Stored(files=3, bytes=212, input_files=1, input_bytes=12) == stores.files.stored(SPACE)


def test_what_is_due_is_found_oldest_first(stores: Stores) -> None:
    """Files at their time, pending uploads at theirs, ended ones a day later; what has no end never."""
    stores.files.put(file("file-0"))
    stores.files.put(replace(file("file-1"), expires_at=AT + 7200))
    stores.files.put(replace(file("file-2", ELSEWHERE[0]), expires_at=AT + 60))
    stores.uploads.put(upload())
    stores.uploads.put(replace(upload("upload_2"), status=UploadStatus.CANCELLED))
    first, second, third = (
        Due(ELSEWHERE[0], "file-2"),
        Due(SPACE, "upload_1"),
        Due(SPACE, "file-1"),
    )
    assert [first, second, third] == list(stores.expiries.due(AT + 7201))
    assert [first, second] == list(stores.expiries.due(AT + 7200))
    assert [] == list(stores.expiries.due(AT + 60))
    assert Due(SPACE, "upload_2") in list(stores.expiries.due(AT + 3600 + 86401))


def test_a_file_with_work_left_is_due_while_nobody_does_it(stores: Stores) -> None:
    """Some minutes after it was made, or touched; when it is done, at its end."""
    stores.files.put(replace(file(), created_at=AT, expires_at=AT + 7200, status="uploaded", pending=Pending()))
    assert [] == list(stores.expiries.due(AT + LOST))
    assert [Due(SPACE, "file-1")] == list(stores.expiries.due(AT + LOST + 1))
    stores.files.update(SPACE, "file-1", lambda file: replace(file, pending=Pending(touched=AT + 60)))
    assert [] == list(stores.expiries.due(AT + LOST + 60))
    assert [Due(SPACE, "file-1")] == list(stores.expiries.due(AT + LOST + 61))
    stores.files.update(SPACE, "file-1", lambda file: replace(file, pending=None))
    assert [] == list(stores.expiries.due(AT + 7200))
    assert [Due(SPACE, "file-1")] == list(stores.expiries.due(AT + 7201))


def test_what_was_removed_expires_no_more(stores: Stores) -> None:
    """The index follows the records."""
    stores.files.put(replace(file(), expires_at=AT))
    stores.uploads.put(upload())
    stores.files.delete(SPACE, "file-1")
    stores.uploads.remove(upload())
    assert [] == list(stores.expiries.due(AT + 7200))
