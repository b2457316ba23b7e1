"""A batch that is followed, and retried, in any weather."""

import asyncio
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from shared.core.contracts import CONTRACTS
from shared.core.errors import Refused, Unavailable
from shared.core.ids import BatchRef
from shared.core.records import Counts
from tests.fakes import Fault, duplicate, fail, lose_answer, ok
from tests.system.engine import crash, refuse
from tests.system.verdict import assert_exactly_once, rows
from tests.system.weather import fair
from tests.system.world import World

LIMIT = 3
FAULTY = ("chunks.commit", "chunks.of", "shards.lease", "shards.renew", "blobs.put", "blobs.get")


class Follower:
    """Asks for results now and then, and goes on from where it was; asks again when an answer is lost."""

    def __init__(self, world: World, ref: BatchRef, chance: Random) -> None:
        self._world = world
        self._ref = ref
        self._chance = chance
        self.rows: list[Any] = []

    async def follow(self) -> None:
        """Go on to the end."""
        after: str | None = None
        while True:
            try:
                page = await asyncio.to_thread(self._world.api.results.page, self._ref, after=after, limit=LIMIT)
            except Unavailable:
                await asyncio.sleep(1)
                continue
            self.rows += [msgspec.json.decode(row) for row in page.rows]
            after = page.next
            if after is None:
                return
            if not page.has_more:
                await asyncio.sleep(self._chance.random() * 5)


@pytest.mark.parametrize("seed", range(6))
async def test_a_follower_sees_exactly_what_is_delivered(seed: int) -> None:
    """Engines crash, calls of the stores fail or lose their answers, the batch is cancelled or not: every row once."""
    async with World(shard_lines=4, max_workers=3) as world:
        chance = Random(seed)
        prompts = [f"p{number}" for number in range(30)]
        world.script |= {"p3": crash, "p11": refuse, "p20": refuse}
        ref = world.create(prompts)
        lost: list[str] = []

        def weather(name: str) -> Fault:
            if name not in FAULTY or chance.random() > 0.1:
                return ok
            lost.append(name)
            return chance.choice((fail, lose_answer, duplicate))

        world.weather.rule = weather
        followers = [Follower(world, ref, chance) for _ in range(2)]
        tasks = [asyncio.create_task(follower.follow()) for follower in followers]
        if seed % 2:
            await asyncio.sleep(15 + chance.random() * 15)
            with suppress(Refused):
                world.cancel(ref)
        await world.until_ended(ref)
        await asyncio.wait_for(asyncio.gather(*tasks), 600)
        world.weather.rule = fair
        assert lost
        batch = await assert_exactly_once(world, ref)
        delivered = rows(world, batch, batch.output_file_id) + rows(world, batch, batch.error_file_id)
        for follower in followers:
            assert Counter(row["id"] for row in delivered) == Counter(row["id"] for row in follower.rows)
            assert sorted(delivered, key=lambda row: row["id"]) == sorted(follower.rows, key=lambda row: row["id"])


async def test_a_retry_goes_the_whole_way() -> None:
    """What the engine refused, and what it died of, is answered when it can be; the two batches together have one answer a line."""
    async with World(shard_lines=3) as world:
        world.script |= {"p1": refuse, "p4": crash, "p7": refuse}
        ref = world.create([f"p{number}" for number in range(9)])
        await world.until_ended(ref)
        first = await assert_exactly_once(world, ref)
        assert Counts(total=9, completed=6, failed=3) == first.counts
        world.script.clear()
        rules = CONTRACTS["openai"]
        again = world.api.batches.retry(ref, rules, {}, "again").ref
        world.prompts[again] = {f"c{number}": f"p{number}" for number in (1, 4, 7)}
        assert again == world.api.batches.retry(ref, rules, {}, "again").ref
        await world.until_ended(again)
        second = await assert_exactly_once(world, again)
        assert Counts(total=3, completed=3) == second.counts
        assert first.error_file_id is not None
        assert () == world.memory.files.get(first.space, first.error_file_id).held_by
