"""What `shared.ports.BatchStore` and `OpenBatches` promise."""

from itertools import count

import pytest
from msgspec.structs import replace

from shared.core.errors import Conflict, Full, Illegal, Limit, NotFound
from shared.core.ids import BatchRef, Space
from shared.core.records import Batch, Counts, Cursor, Ending, File, Status, Usage
from shared.ports import IdempotencyKey, Terms
from tests.contracts.conftest import Stores
from tests.contracts.samples import ELSEWHERE, REF, SPACE, at_once, batch, file

KEY = IdempotencyKey("once", "hash-a")


@pytest.fixture(autouse=True)
def _input(stores: Stores) -> None:
    stores.files.put(file())


def ended(batch: Batch) -> Batch:
    """End a batch."""
    return replace(batch, status=Status.COMPLETED, completed_at=1_800_000_100, output_file_id="file-out")


def test_a_batch_comes_back_as_it_was_created(stores: Stores) -> None:
    """Every field is kept; the input is held from now on."""
    assert batch() == stores.batches.create(batch(), None)
    assert batch() == stores.batches.get(REF)
    assert ("batch_1",) == stores.files.get(SPACE, "file-1").held_by


def test_no_batch_is_made_of_a_file_that_is_not_there(stores: Stores) -> None:
    """Nothing of it is kept, nor is the idempotency key used up."""
    with pytest.raises(NotFound):
        stores.batches.create(batch(input_file_id="file-gone"), KEY)
    with pytest.raises(NotFound):
        stores.batches.get(REF)
    assert "batch_2" == stores.batches.create(batch("batch_2"), KEY).id


@pytest.mark.parametrize("space", ELSEWHERE)
def test_no_batch_is_made_of_a_foreign_file(stores: Stores, space: Space) -> None:
    """A foreign file is a missing file."""
    with pytest.raises(NotFound):
        stores.batches.create(batch(space=space), None)


def test_a_retry_holds_the_file_that_names_its_lines_too(stores: Stores) -> None:
    """Neither can be deleted while it lives; both are let go with its end, and only the input's time changes with it."""
    stores.files.put(file("file-lines"))
    retry = replace(batch(), retry_of="batch_0", lines_file_id="file-lines")
    assert retry == stores.batches.create(retry, None, Terms(input_until=1_900_000_000))
    for file_id, until in (("file-1", 1_900_000_000), ("file-lines", None)):
        held = stores.files.get(SPACE, file_id)
        assert (("batch_1",), until) == (held.held_by, held.expires_at)
        with pytest.raises(Conflict):
            stores.files.delete(SPACE, file_id)
    stores.batches.finish(REF, ended, (), input_until=1_850_000_000)
    for file_id, until in (("file-1", 1_850_000_000), ("file-lines", None)):
        free = stores.files.get(SPACE, file_id)
        assert ((), until) == (free.held_by, free.expires_at)
        stores.files.delete(SPACE, file_id)


@pytest.mark.parametrize("gone", ["file-1", "file-lines"])
def test_no_retry_is_made_of_files_of_which_one_is_not_there(stores: Stores, gone: str) -> None:
    """Nothing of it is kept: no batch, no key, no hold on the other file."""
    stores.files.put(file("file-lines"))
    stores.files.delete(SPACE, gone)
    with pytest.raises(NotFound):
        stores.batches.create(replace(batch(), retry_of="batch_0", lines_file_id="file-lines"), KEY)
    with pytest.raises(NotFound):
        stores.batches.get(REF)
    (other,) = {"file-1", "file-lines"} - {gone}
    assert () == stores.files.get(SPACE, other).held_by
    stores.files.delete(SPACE, other)


def test_a_key_gives_back_the_batch_that_it_made(stores: Stores) -> None:
    """As it is now; and nothing new is made."""
    stores.batches.create(batch(), KEY)
    changed = stores.batches.update(REF, lambda batch: replace(batch, token="t"))
    assert changed == stores.batches.create(batch("batch_2"), KEY)
    with pytest.raises(NotFound):
        stores.batches.get(REF._replace(id="batch_2"))
    assert ("batch_1",) == stores.files.get(SPACE, "file-1").held_by


def test_a_key_gives_back_its_batch_after_the_input_is_gone(stores: Stores) -> None:
    """The key is looked at first."""
    stores.batches.create(batch(), KEY)
    stores.batches.finish(REF, ended, ())
    stores.files.delete(SPACE, "file-1")
    assert REF == stores.batches.create(batch("batch_2"), KEY).ref


def test_a_key_of_another_request_is_a_conflict(stores: Stores) -> None:
    """The hash says that something else was asked for."""
    stores.batches.create(batch(), KEY)
    with pytest.raises(Conflict):
        stores.batches.create(batch("batch_2"), IdempotencyKey("once", "hash-b"))
    with pytest.raises(NotFound):
        stores.batches.get(REF._replace(id="batch_2"))


def test_keys_of_two_organizations_are_two_keys(stores: Stores) -> None:
    """What one organization sends as a key says nothing to another."""
    rival = Space("rival", "openai")
    stores.files.put(file(space=rival))
    stores.batches.create(batch(), KEY)
    assert "batch_2" == stores.batches.create(batch("batch_2", space=rival), KEY).id


def test_a_create_may_be_repeated(stores: Stores) -> None:
    """With or without a key, the very same batch again changes nothing."""
    assert batch() == stores.batches.create(batch(), None)
    assert batch() == stores.batches.create(batch(), None)
    assert batch("batch_2") == stores.batches.create(batch("batch_2"), KEY)
    assert batch("batch_2") == stores.batches.create(batch("batch_2"), KEY)
    assert ("batch_1", "batch_2") == stores.files.get(SPACE, "file-1").held_by


def test_twenty_creates_with_one_key_make_one_batch(stores: Stores) -> None:
    """All of them are told the same batch."""
    made = at_once(20, lambda number: stores.batches.create(batch(f"batch_{number}"), KEY))
    ids = {answer.id for answer in made if isinstance(answer, Batch)}
    assert 20 == len(made)
    assert 1 == len(ids)
    assert ids == {batch.id for batch in stores.batches.page(SPACE, after=None, limit=99)}
    assert tuple(ids) == stores.files.get(SPACE, "file-1").held_by


@pytest.mark.parametrize("space", ELSEWHERE)
def test_a_foreign_batch_is_a_missing_batch(stores: Stores, space: Space) -> None:
    """Neither another organization nor another mount of the same one sees it, by any method."""
    stores.batches.create(batch(), None)
    ref = BatchRef(*space, "batch_1")
    with pytest.raises(NotFound):
        stores.batches.get(ref)
    with pytest.raises(NotFound):
        stores.batches.update(ref, ended)
    with pytest.raises(NotFound):
        stores.batches.finish(ref, ended, ())
    assert [] == stores.batches.page(space, after=None, limit=10)


def test_a_change_is_applied_to_the_latest_record(stores: Stores) -> None:
    """The version counts the writes; nested records and lists are values like others."""
    stores.batches.create(batch(), None)
    change = {
        "usage": Usage(input_tokens=5, output_tokens=10**13),
        "cursor": Cursor(phase="error", upload_id="u", part=3, output_bytes=7),
        "ending": Ending.COMPLETED,
        "errors": (),
        "metadata": None,
    }
    after = stores.batches.update(REF, lambda batch: replace(batch, **change))
    assert replace(batch(), version=1, **change) == after
    assert after == stores.batches.get(REF)


def test_a_change_that_changes_nothing_writes_nothing(stores: Stores) -> None:
    """The version stays."""
    stores.batches.create(batch(), None)
    assert batch() == stores.batches.update(REF, lambda batch: batch)
    assert batch() == stores.batches.get(REF)


def test_what_a_change_raises_leaves_the_record_as_it_was(stores: Stores) -> None:
    """An illegal change moves nothing, also where it would have ended the batch."""

    def illegal(_: Batch) -> Batch:
        raise Illegal("no")

    stores.batches.create(batch(), None)
    with pytest.raises(Illegal):
        stores.batches.update(REF, illegal)
    with pytest.raises(Illegal):
        stores.batches.finish(REF, illegal, [file("file-out")])
    assert batch() == stores.batches.get(REF)
    with pytest.raises(NotFound):
        stores.files.get(SPACE, "file-out")


def test_changes_from_ten_threads_are_all_applied(stores: Stores) -> None:
    """No change is lost to another."""
    stores.batches.create(batch(), None)
    at_once(10, lambda _: stores.batches.update(REF, lambda batch: replace(batch, generation=batch.generation + 1)))
    assert replace(batch(), generation=11, version=10) == stores.batches.get(REF)


def test_what_a_caller_does_to_its_copy_stays_its_own(stores: Stores) -> None:
    """Values are copied in and out, mutable ones too."""
    given = batch()
    stores.batches.create(given, None)
    for copy in (given, stores.batches.get(REF)):
        assert copy.metadata is not None
        copy.metadata["purpose"] = "changed"
    assert batch() == stores.batches.get(REF)


def test_the_end_of_a_batch_keeps_its_files_and_lets_its_input_go(stores: Stores) -> None:
    """All in one."""
    stores.batches.create(batch(), None)
    output = replace(file("file-out"), source_batch="batch_1")
    after = stores.batches.finish(REF, ended, [output, file("file-err")])
    assert replace(ended(batch()), version=1) == after
    assert after == stores.batches.get(REF)
    assert output == stores.files.get(SPACE, "file-out")
    assert file("file-err") == stores.files.get(SPACE, "file-err")
    assert () == stores.files.get(SPACE, "file-1").held_by
    stores.files.delete(SPACE, "file-1")


def test_an_end_may_be_repeated(stores: Stores) -> None:
    """A change that finds the batch ended changes nothing, and no file either."""

    def change(batch: Batch) -> Batch:
        return ended(batch) if batch.status is Status.VALIDATING else batch

    stores.batches.create(batch(), None)
    first = stores.batches.finish(REF, change, [file("file-out")])
    stores.files.delete(SPACE, "file-out")
    assert first == stores.batches.finish(REF, change, [file("file-out")])
    with pytest.raises(NotFound):
        stores.files.get(SPACE, "file-out")


def test_the_end_of_one_batch_leaves_the_input_to_the_other(stores: Stores) -> None:
    """A file is held as long as anybody holds it."""
    stores.batches.create(batch("batch_1"), None)
    stores.batches.create(batch("batch_2"), None)
    stores.batches.finish(REF, ended, ())
    with pytest.raises(Conflict):
        stores.files.delete(SPACE, "file-1")
    stores.batches.finish(REF._replace(id="batch_2"), ended, ())
    stores.files.delete(SPACE, "file-1")


def test_of_ten_endings_one_counts(stores: Stores) -> None:
    """Each of the ten sees the same end, and its files are of one."""
    numbers = count()

    def change(batch: Batch) -> Batch:
        if batch.status is Status.COMPLETED:
            return batch
        return replace(ended(batch), counts=Counts(total=3, completed=next(numbers)))

    stores.batches.create(batch(), None)
    answers = at_once(10, lambda _: stores.batches.finish(REF, change, [file("file-out")]))
    assert [stores.batches.get(REF)] * 10 == answers
    assert 1 == stores.batches.get(REF).version


def test_pages_walk_every_batch_once_newest_first(stores: Stores) -> None:
    """A page is full as long as there are more; keys and files are none of it."""
    for number in range(5):
        stores.batches.create(batch(f"batch_{number}"), IdempotencyKey(f"key-{number}", "hash"))
    first = stores.batches.page(SPACE, after=None, limit=2)
    second = stores.batches.page(SPACE, after=first[-1].id, limit=2)
    third = stores.batches.page(SPACE, after=second[-1].id, limit=2)
    assert [f"batch_{number}" for number in (4, 3, 2, 1, 0)] == [batch.id for batch in first + second + third]
    assert ["batch_1", "batch_0"] == [batch.id for batch in stores.batches.page(SPACE, after="batch_1z", limit=9)]


def test_a_batch_is_open_until_it_ends(stores: Stores) -> None:
    """Across organizations, and however it ends."""
    rival = Space("rival", "openai")
    stores.files.put(file(space=rival))
    stores.batches.create(batch("batch_1"), KEY)
    stores.batches.create(batch("batch_2"), None)
    stores.batches.create(batch("batch_3", space=rival), None)
    stores.batches.update(REF, lambda batch: replace(batch, status=Status.IN_PROGRESS))
    stores.batches.finish(REF._replace(id="batch_2"), ended, ())
    assert {REF, BatchRef(*rival, "batch_3")} == set(stores.open_batches.open())


def test_a_result_file_is_a_file_like_others(stores: Stores) -> None:
    """It can be changed and deleted."""
    stores.batches.create(batch(), None)
    stores.batches.finish(REF, ended, [file("file-out")])
    changed: File = stores.files.update(SPACE, "file-out", lambda file: replace(file, expires_at=1))
    assert 1 == changed.version
    stores.files.delete(SPACE, "file-out")


def test_unfinished_batches_fill_the_places_of_their_space(stores: Stores) -> None:
    """One too many makes nothing, uses no key up, and is told the limit; an end makes room."""
    terms = Terms(account_most=9, space_most=2)
    stores.batches.create(batch("batch_1"), None, terms)
    stores.batches.create(batch("batch_2"), KEY, terms)
    with pytest.raises(Full) as full:
        stores.batches.create(batch("batch_3"), IdempotencyKey("twice", "hash"), terms)
    assert Limit("open_batches", 2, 2) == full.value.limit
    assert ("batch_1", "batch_2") == stores.files.get(SPACE, "file-1").held_by
    assert "batch_2" == stores.batches.create(batch("batch_3"), KEY, terms).id
    stores.batches.finish(REF, ended, ())
    assert "batch_3" == stores.batches.create(batch("batch_3"), IdempotencyKey("twice", "hash"), terms).id


def test_the_places_of_an_account_are_shared_by_its_spaces(stores: Stores) -> None:
    """Those of one space are its own, and another organization has others."""
    elsewhere, rival = ELSEWHERE
    terms = Terms(account_most=2, space_most=2)
    for space in (elsewhere, rival):
        stores.files.put(file(space=space))
    stores.batches.create(batch("batch_1"), None, terms)
    stores.batches.create(batch("batch_2", space=elsewhere), None, terms)
    stores.batches.create(batch("batch_3", space=rival), None, terms)
    with pytest.raises(Full) as full:
        stores.batches.create(batch("batch_4"), None, terms)
    assert Limit("open_batches", 2, 2) == full.value.limit
    assert "batch_4" == stores.batches.create(batch("batch_4"), None, Terms(space_most=2)).id


def test_a_repetition_takes_one_place(stores: Stores) -> None:
    """The same create again, and the same end."""
    terms = Terms(account_most=2)
    for _ in range(3):
        stores.batches.create(batch("batch_1"), None, terms)
    stores.batches.create(batch("batch_2"), None, terms)
    for _ in range(3):
        stores.batches.finish(REF, ended, ())
    stores.batches.create(batch("batch_3"), None, terms)
    with pytest.raises(Full):
        stores.batches.create(batch("batch_4"), None, terms)


def test_twenty_creates_at_once_fill_three_places(stores: Stores) -> None:
    """No more are made, and the others are told so."""
    terms = Terms(space_most=3)
    answers = at_once(20, lambda number: stores.batches.create(batch(f"batch_{number}"), None, terms))
    made = [answer for answer in answers if isinstance(answer, Batch)]
    assert len(made) == len(stores.batches.page(SPACE, after=None, limit=99)) <= 3
    while len(made) < 3:  # a store that was too busy may have turned more away
        made.append(stores.batches.create(batch(f"batch_more{len(made)}"), None, terms))
    with pytest.raises(Full):
        stores.batches.create(batch("batch_late"), None, terms)


def test_a_batch_decides_how_long_its_input_stays(stores: Stores) -> None:
    """At its creation and at its end, where they say so."""
    stores.batches.create(batch("batch_1"), None, Terms(input_until=1_800_500_000))
    assert 1_800_500_000 == stores.files.get(SPACE, "file-1").expires_at
    stores.batches.create(batch("batch_2"), None)
    stores.batches.finish(REF._replace(id="batch_2"), ended, ())
    assert 1_800_500_000 == stores.files.get(SPACE, "file-1").expires_at
    stores.batches.finish(REF, ended, (), input_until=1_800_000_100)
    assert (1_800_000_100, ()) == (
        stores.files.get(SPACE, "file-1").expires_at,
        stores.files.get(SPACE, "file-1").held_by,
    )


def test_metadata_is_kept_as_the_json_it_was(stores: Stores) -> None:
    """Whatever is in it: numbers of both kinds, empty keys, more levels than a store's own values have."""
    deep: dict[str, object] = {}
    for _ in range(60):
        deep = {"": deep}
    metadata = {"whole": 1, "float": 1.0, "large": 2**63 - 1, "small": 1e-200, "none": None, "deep": deep}
    stores.batches.create(replace(batch(), metadata=metadata), None)
    kept = stores.batches.update(REF, lambda batch: replace(batch, token="t")).metadata
    assert metadata == kept == stores.batches.get(REF).metadata
    assert kept is not None
    assert isinstance(kept["float"], float)
