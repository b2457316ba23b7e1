"""Races that a reader of results could lose rows in."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shared.core.lifecycle import Event
from shared.services.results import Results
from tests.api import dialects
from tests.api.runs import Run, running
from tests.api.world import World
from tests.fakes import Hostile, then


@pytest.fixture
def world() -> World:
    """Give a world with one mount."""
    return dialects.world(contracts=("openai",))


def read(
    world: World, run: Run, after: str | None = None, **hostile: Callable[[], object]
) -> tuple[list[str], str | None]:
    """Read a page, while something happens after a port (`shards`, `chunks`) was asked; give its custom_ids and the place behind it."""
    memory = world.memory
    ports: Any = {"shards": memory.shards, "chunks": memory.chunks}
    ports |= {name: Hostile(ports[name], {"of": [then(race)]}).port for name, race in hostile.items()}
    results = Results(batches=world.batches, files=world.files, blobs=memory.blobs, presigner=memory.blobs, **ports)
    page = results.page(run.ref, after=after, limit=100)
    return [msgspec.json.decode(row)["custom_id"] for row in page.rows], page.next


@pytest.mark.parametrize("port", ["shards", "chunks"])
def test_a_last_chunk_that_comes_while_a_page_is_read_is_not_lost(world: World, port: str) -> None:
    """A shard is taken for finished with only if it was over before its chunks were listed."""
    run = running(world, "openai", 3)
    run.commit(0, good=[0])

    first, after = read(world, run, **{port: lambda: run.commit(0, good=[1, 2])})

    second, _ = read(world, run, after)
    assert ["row-0", "row-1", "row-2"] == first + second


@pytest.mark.parametrize("port", ["shards", "chunks"])
def test_an_end_that_comes_while_a_page_is_read_repeats_nothing(world: World, port: str) -> None:
    """Nor loses it: the page is of the files then, and so is the next."""
    run = running(world, "openai", 6)
    run.commit(1, good=[0])
    _, before = read(world, run)
    run.commit(0, good=[2], bad=[0])

    def end() -> None:
        run.end(Event.CANCEL)

    first, after = read(world, run, before, **{port: end})

    second, last = (first, after) if after is None else read(world, run, after)
    rows = first if after is None else first + second
    assert ["row-0", "row-1", "row-2", "row-4", "row-5"] == sorted(rows)
    assert last is None


def test_a_worker_that_takes_over_goes_on_behind_what_was_given(world: World) -> None:
    """Chunks of a later lease come after those of the earlier one, whose late commits count for nothing."""
    run = running(world, "openai", 3)
    run.commit(0, good=[2])
    _, after = read(world, run)
    held = world.memory.shards.of(run.ref)[0]
    world.memory.shards.reclaim(held, world.time)
    run.commit(0, good=[0])

    rows, after = read(world, run, after)

    assert ["row-0"] == rows
    run.commit(0, good=[1])
    assert ["row-1"] == read(world, run, after)[0]
