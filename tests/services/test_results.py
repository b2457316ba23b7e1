"""Races that a reader of results could lose rows in."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from shared.core.ids import BatchRef
from shared.core.lifecycle import Event
from shared.core.records import Chunk
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


class WatchedChunks:
    """The chunks, and which of them were read."""

    def __init__(self, world: World) -> None:
        self._chunks = world.memory.chunks
        self.read: list[tuple[int, int]] = []

    def of(self, ref: BatchRef, shard: int | None = None, *, first: int = 0) -> Iterator[Chunk]:
        """Give them."""
        for chunk in self._chunks.of(ref, shard, first=first):
            self.read.append((chunk.shard, chunk.seq))
            yield chunk


def follower(world: World, chunks: Any) -> Results:
    """Give what reads pages, over other chunks."""
    memory = world.memory
    return Results(
        batches=world.batches,
        files=world.files,
        blobs=memory.blobs,
        presigner=memory.blobs,
        shards=memory.shards,
        chunks=chunks,
    )


def test_while_a_batch_runs_records_of_shards_that_lie_behind_are_not_read(world: World) -> None:
    """A poll costs what is new, however much there was before."""
    run = running(world, "openai", 9)
    run.commit(0, good=[0, 1, 2])
    run.commit(1, good=[0])
    run.commit(2, good=[0, 1, 2])
    chunks = WatchedChunks(world)
    results = follower(world, chunks)
    after = results.page(run.ref, after=None, limit=100).next
    chunks.read.clear()
    run.commit(1, good=[1])

    page = results.page(run.ref, after=after, limit=100)

    assert ["row-4"] == [msgspec.json.decode(row)["custom_id"] for row in page.rows]
    assert [(1, 0), (1, 1), (2, 0)] == chunks.read
    assert [] == results.page(run.ref, after=page.next, limit=100).rows


def test_once_a_batch_has_ended_its_records_are_read_once_for_all_pages(world: World) -> None:
    """Until somebody reads another batch in between."""
    run, other = running(world, "openai", 6), running(world, "openai", 3)
    for each in (run, other):
        each.commit(0, good=[2], bad=[0, 1])
        each.end(Event.CANCEL)
    chunks = WatchedChunks(world)
    results = follower(world, chunks)

    rows, after = [], None
    while page := results.page(run.ref, after=after, limit=1):
        rows += page.rows
        if (after := page.next) is None:
            break

    assert 6 == len(rows)
    assert [(0, 0)] == chunks.read
    assert 3 == len(results.page(other.ref, after=None, limit=100).rows)
    assert 6 == len(results.page(run.ref, after=None, limit=100).rows)
    assert [(0, 0)] * 3 == chunks.read
