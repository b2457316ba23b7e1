"""Reading ahead: order, and how much is under way."""

from collections.abc import Iterator

import pytest

from shared.services.ahead import HELD_BYTES, READERS, ahead


def most_behind(sizes: list[int]) -> tuple[list[int], int, int]:
    """Take things of these sizes; give them, and how many of them, and bytes, were begun behind the one at work, at most."""
    begun: list[int] = []

    def begin() -> Iterator[tuple[int, int]]:
        for number, size in enumerate(sizes):
            begun.append(number)
            yield number, size

    taken, things, held = [], 0, 0
    for number in ahead(begin()):
        taken.append(number)
        behind = begun[number + 1 :]
        things, held = max(things, len(behind)), max(held, sum(sizes[each] for each in behind))
    return taken, things, held


@pytest.mark.parametrize("sizes", [[], [0], [0] * 100, [1, 9 << 20] * 9, [HELD_BYTES] * 5, [100 << 20] * 4])
def test_things_come_in_order_each_once(sizes: list[int]) -> None:
    """However large they are."""
    assert list(range(len(sizes))) == most_behind(sizes)[0]


def test_what_holds_nothing_is_begun_by_as_many_as_there_are_readers() -> None:
    """Copies inside the store, for one."""
    assert READERS == most_behind([0] * 100)[1]


@pytest.mark.parametrize("size", [1 << 20, 5 << 20, HELD_BYTES, 20 << 20])
def test_behind_the_one_at_work_there_is_one_part_in_memory(size: int) -> None:
    """Or several that are no more together."""
    _, things, held = most_behind([size] * 50)
    assert things >= 1
    assert held <= max(size, HELD_BYTES)
