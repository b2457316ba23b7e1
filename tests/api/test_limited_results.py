"""The results of a batch whose result files are limited in size, while it runs: no row is given as an answer that will not be delivered as one."""

import pytest

from shared.core.plan import PlanLine
from shared.core.records import Counts
from tests.api import dialects
from tests.api.runs import release, running
from tests.api.test_results import Reader, assert_all_of
from tests.api.world import World

BOARDWALK = "boardwalk"
LARGE = 6 << 20
"""Bytes of an answer, of which three fit."""


@pytest.fixture
def world() -> World:
    """Give a world with the mount that has the limit."""
    return dialects.world(contracts=(BOARDWALK,))


def large(_: PlanLine) -> str:
    """Give a large answer."""
    return "x" * LARGE


def test_answers_that_will_not_fit_are_errors_for_whoever_follows(world: World) -> None:
    """The first three are given while the batch runs; what becomes of the others is known at its end."""
    run = running(world, BOARDWALK, 6)
    reader = Reader(world, run)
    run.commit(0, good=[0], content=large)
    assert ["row-0"] == reader.catch_up()
    run.commit(1, good=[0], content=large)
    assert ["row-0"] == reader.catch_up(), "the first shard may have more"
    run.commit(0, good=[1, 2], content=large)
    assert ["row-0", "row-1", "row-2"] == reader.catch_up()
    run.commit(1, good=[1], bad=[2])
    assert 3 == len(reader.catch_up())
    run.end()

    assert_all_of(reader, run)
    assert_all_of(Reader(world, run, 1), run)
    assert Counts(total=6, completed=4, failed=2) == run.batch.counts
    codes = {row["custom_id"]: row["error"] and row["error"]["code"] for row in reader.rows}
    assert ("output_too_large", None) == (codes["row-3"], codes["row-4"])


def test_small_answers_of_a_later_shard_wait_for_the_first(world: World) -> None:
    """Its rows could still take their room."""
    run = running(world, BOARDWALK, 6)
    reader = Reader(world, run, 2)
    run.commit(1, good=[0, 1, 2])
    assert [] == reader.catch_up()
    run.commit(0, good=[0])
    release(world, run, 0)
    assert ["row-0"] == reader.catch_up()
    run.commit(0, good=[2], bad=[1])
    assert ["row-0", "row-2", "row-1", "row-3", "row-4", "row-5"] == reader.catch_up()
    run.end()
    assert_all_of(reader, run)
