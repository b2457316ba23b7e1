"""What entry points pass in as `NewId` and `Clock`."""

import time

from ulid import ULID

from shared.adapters.ids import Sequence, new_id, now
from tests.contracts.samples import at_once


def test_an_id_is_its_prefix_and_a_ulid() -> None:
    """Which tells when it was made."""
    id_ = new_id("batch_")
    assert id_.startswith("batch_")
    assert abs(ULID.from_str(id_.removeprefix("batch_")).timestamp - now()) < 60


def test_later_ids_sort_after_earlier_ones() -> None:
    """Within a millisecond too."""
    ids = [new_id("file-") for _ in range(1000)]
    assert sorted(set(ids)) == ids


def test_later_ids_sort_after_earlier_ones_when_the_clock_steps_back() -> None:
    """Time does not go back for ids."""
    sequence = Sequence()
    ids = [sequence.next("", at) for at in (5000, 5001, 4000, 5001, 4999, 5002)]
    assert sorted(set(ids)) == ids


def test_ids_of_many_threads_are_all_different_and_sorted_in_each() -> None:
    """The sequence is the process's, not a thread's."""
    lists = at_once(8, lambda _: [new_id("") for _ in range(200)])
    ids = [ids for ids in lists if isinstance(ids, list)]
    assert all(sorted(each) == each for each in ids)
    assert 1600 == len({id_ for each in ids for id_ in each})


def test_the_clock_is_the_system_clock() -> None:
    """In Unix seconds."""
    assert time.time() - 60 < now() <= time.time()
