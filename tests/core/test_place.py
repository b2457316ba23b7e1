"""Places in the results of a batch."""

import pytest

from shared.core import place
from shared.core.ids import BatchRef
from shared.core.place import ALL, START, Place

REF = BatchRef("acme", "openai", "batch_1")


@pytest.mark.parametrize("where", [START, Place(((3, ALL), (1, 2)), 3, 4096), Place(((10**6, ALL),), tail=5 << 30)])
def test_a_place_is_read_as_it_was_written(where: Place) -> None:
    """Of its own batch; the text may stand in a URL as it is."""
    text = place.encode(where, REF)

    assert where == place.decode(text, REF)
    assert text.replace("-", "").replace("_", "").isalnum()


@pytest.mark.parametrize(
    "other", [REF._replace(org="rival"), REF._replace(contract="gridline"), REF._replace(id="batch_2")]
)
def test_a_place_of_another_batch_is_none(other: BatchRef) -> None:
    """Nobody goes on in the wrong results."""
    with pytest.raises(ValueError, match="no batch"):
        place.decode(place.encode(START, REF), other)


def test_shards_are_told_apart() -> None:
    """Those behind the last run have nothing behind."""
    behind = Place(((2, ALL), (1, 5), (3, 1))).behind()

    assert [ALL, ALL, 5, 1, 1, 1, 0, 0] == [behind[shard] for shard in range(8)]


def test_equal_neighbours_are_one_run() -> None:
    """And what lies behind nothing is left out."""
    assert ((2, ALL), (1, 0), (1, 3)) == place.runs([ALL, ALL, 0, 3, 0, 0])
    assert () == place.runs([0, 0])


def test_a_place_in_a_large_batch_is_short() -> None:
    """Sixty-four workers at the front of a thousand shards: far from the longest URL."""
    values = [ALL] * 900 + [number % 7 for number in range(128)]

    assert len(place.encode(Place(place.runs(values), 901, 123_456), REF)) < 1000
