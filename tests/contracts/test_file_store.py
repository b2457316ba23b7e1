"""What `shared.ports.FileStore` promises."""

import pytest
from msgspec.structs import replace

from shared.core.errors import Conflict, Illegal, NotFound
from shared.core.ids import Space
from shared.core.records import File
from tests.contracts.conftest import Stores
from tests.contracts.samples import ELSEWHERE, SPACE, at_once, batch, file


def test_a_record_comes_back_as_it_was_put(stores: Stores) -> None:
    """Every field is kept, those that are None too."""
    full = replace(file(), expires_at=1_900_000_000, status="uploaded", requests=3, source_batch="batch_9")
    stores.files.put(full)
    stores.files.put(file("file-2"))
    assert full == stores.files.get(SPACE, "file-1")
    assert file("file-2") == stores.files.get(SPACE, "file-2")


def test_an_id_is_taken_once(stores: Stores) -> None:
    """Another record of the same id is a conflict, and changes nothing."""
    stores.files.put(file())
    with pytest.raises(Conflict):
        stores.files.put(replace(file(), bytes=13))
    assert file() == stores.files.get(SPACE, "file-1")


def test_a_put_may_be_repeated(stores: Stores) -> None:
    """The very same record again is no conflict: the first answer may have been lost."""
    stores.files.put(file())
    stores.files.put(file())
    assert file() == stores.files.get(SPACE, "file-1")


@pytest.mark.parametrize("space", ELSEWHERE)
def test_a_foreign_file_is_a_missing_file(stores: Stores, space: Space) -> None:
    """Neither another organization nor another mount of the same one sees it, by any method."""
    stores.files.put(file())
    with pytest.raises(NotFound):
        stores.files.get(space, "file-1")
    with pytest.raises(NotFound):
        stores.files.update(space, "file-1", lambda file: file)
    with pytest.raises(NotFound):
        stores.files.delete(space, "file-1")
    assert [] == stores.files.page(space, after=None, limit=10, newest_first=True)
    assert file() == stores.files.get(SPACE, "file-1")


def test_a_change_is_applied_to_the_latest_record(stores: Stores) -> None:
    """The version counts the writes."""
    stores.files.put(file())
    first = stores.files.update(SPACE, "file-1", lambda file: replace(file, requests=3))
    second = stores.files.update(SPACE, "file-1", lambda file: replace(file, status="uploaded"))
    assert replace(file(), requests=3, version=1) == first
    assert replace(file(), requests=3, status="uploaded", version=2) == second
    assert second == stores.files.get(SPACE, "file-1")


def test_a_field_can_be_taken_back(stores: Stores) -> None:
    """None is written like any other value."""
    stores.files.put(replace(file(), expires_at=1_900_000_000))
    stores.files.update(SPACE, "file-1", lambda file: replace(file, expires_at=None))
    assert replace(file(), version=1) == stores.files.get(SPACE, "file-1")


def test_what_a_change_raises_leaves_the_record_as_it_was(stores: Stores) -> None:
    """An illegal change moves nothing."""

    def illegal(_: File) -> File:
        raise Illegal("no")

    stores.files.put(file())
    with pytest.raises(Illegal):
        stores.files.update(SPACE, "file-1", illegal)
    assert file() == stores.files.get(SPACE, "file-1")


def test_changes_from_ten_threads_are_all_applied(stores: Stores) -> None:
    """No change is lost to another."""
    stores.files.put(file())
    at_once(10, lambda _: stores.files.update(SPACE, "file-1", lambda file: replace(file, bytes=file.bytes + 1)))
    assert replace(file(), bytes=22, version=10) == stores.files.get(SPACE, "file-1")


def test_a_deleted_file_is_gone(stores: Stores) -> None:
    """Deleting it again finds nothing."""
    stores.files.put(file())
    stores.files.delete(SPACE, "file-1")
    with pytest.raises(NotFound):
        stores.files.get(SPACE, "file-1")
    with pytest.raises(NotFound):
        stores.files.delete(SPACE, "file-1")


def test_a_file_that_a_live_batch_holds_cannot_be_deleted(stores: Stores) -> None:
    """It stays, record and all."""
    stores.files.put(file())
    stores.batches.create(batch(), None)
    with pytest.raises(Conflict):
        stores.files.delete(SPACE, "file-1")
    assert ("batch_1",) == stores.files.get(SPACE, "file-1").held_by


def test_a_hold_outlives_changes_of_the_record(stores: Stores) -> None:
    """An update writes the holders back as they are."""
    stores.files.put(file())
    stores.batches.create(batch("batch_1"), None)
    stores.batches.create(batch("batch_2"), None)
    changed = stores.files.update(SPACE, "file-1", lambda file: replace(file, requests=3))
    assert ("batch_1", "batch_2") == changed.held_by
    with pytest.raises(Conflict):
        stores.files.delete(SPACE, "file-1")


def test_a_delete_and_a_create_do_not_both_succeed(stores: Stores) -> None:
    """Whoever comes second sees the first."""
    for number in range(10):
        id_ = f"file-{number}"
        stores.files.put(file(id_))

        def race(caller: int, id_: str = id_, number: int = number) -> str:
            if caller:
                stores.files.delete(SPACE, id_)
                return "deleted"
            return stores.batches.create(batch(f"batch_{number}", input_file_id=id_), None).id

        assert 1 == sum(isinstance(answer, str) for answer in at_once(2, race))


def test_pages_walk_every_file_once_in_either_order(stores: Stores) -> None:
    """A page is full as long as there are more."""
    ids = [f"file-{number}" for number in range(5)]
    for id_ in ids:
        stores.files.put(file(id_))
    newest = stores.files.page(SPACE, after=None, limit=2, newest_first=True)
    older = stores.files.page(SPACE, after=newest[-1].id, limit=2, newest_first=True)
    oldest = stores.files.page(SPACE, after=older[-1].id, limit=2, newest_first=True)
    assert ids[::-1] == [file.id for file in newest + older + oldest]
    assert ids[3:] == [file.id for file in stores.files.page(SPACE, after="file-2", limit=9, newest_first=False)]


def test_a_page_goes_on_behind_a_file_that_is_gone(stores: Stores) -> None:
    """The cursor is a place in the order, not a record."""
    for id_ in ("file-1", "file-2", "file-3"):
        stores.files.put(file(id_))
    stores.files.delete(SPACE, "file-2")
    assert ["file-1"] == [file.id for file in stores.files.page(SPACE, after="file-2", limit=9, newest_first=True)]
    assert ["file-3"] == [file.id for file in stores.files.page(SPACE, after="file-2", limit=9, newest_first=False)]
