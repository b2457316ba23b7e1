"""Ids and references."""

import pytest
from ulid import ULID

from shared.core import ids
from shared.core.ids import BatchRef, Space


def test_a_reference_survives_being_written_down() -> None:
    """What `str` writes, `parse` reads."""
    ref = BatchRef("acme", "openai", "batch_01")

    assert ref == BatchRef.parse(str(ref))
    assert Space("acme", "openai") == ref.space
    assert "acme/openai" == str(ref.space)


@pytest.mark.parametrize("text", ["", "acme", "acme/openai", "acme/openai/batch_01/x"])
def test_what_is_no_reference_is_not_read(text: str) -> None:
    """Too few or too many names are a ValueError."""
    with pytest.raises(ValueError, match="unpack"):
        BatchRef.parse(text)


@pytest.mark.parametrize("text", ["file-01", "file-" + "a" * 64, "file-a_B-9"])
def test_what_has_the_form_of_an_id_could_be_one(text: str) -> None:
    """A prefix and up to 64 letters, digits, dashes and underscores."""
    assert ids.could_be(ids.FILE, text)


@pytest.mark.parametrize(
    "text", ["", "file-", "batch_01", "xfile-01", "file-a/b", "file-..", "file-é", "file-01\n", "file-" + "a" * 65]
)
def test_what_has_not_the_form_is_nobodys(text: str) -> None:
    """Nothing that could leave its place in a key, and nothing endless, is looked up."""
    assert not ids.could_be(ids.FILE, text)


def test_a_derived_id_is_always_the_same_and_its_own() -> None:
    """The same names and time give the same id; any other name gives another."""
    one = ids.derived(ids.FILE, 1_000, "acme", "batch_1", "output")

    assert one == ids.derived(ids.FILE, 1_000, "acme", "batch_1", "output")
    assert ids.could_be(ids.FILE, one)
    assert 4 == len({one, *(ids.derived(ids.FILE, 1_000, *names) for names in (("a",), ("b",), ("a", "b")))})


def test_derived_ids_sort_by_the_time_they_are_made_at() -> None:
    """Their ULID carries the time, so that newest-first stays a key query."""
    early, late = (ids.derived(ids.FILE, at, "x") for at in (1_700_000_000, 1_700_000_001))

    assert early < late
    assert 1_700_000_000 == ULID.from_str(early.removeprefix(ids.FILE)).timestamp


def test_the_ids_of_a_row_tell_batch_and_line() -> None:
    """No record a row is needed to find it again."""
    assert "batch_req_01_7" == ids.row_id("batch_01", 7)
    assert "req_01_7" == ids.request_id("batch_01", 7)
