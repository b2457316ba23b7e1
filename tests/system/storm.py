"""The weather of a storm, drawn from its seed, and the mishaps of its workers: all that may go wrong, at any moment.

What a call meets follows from the seed, the call's name and its number alone; outages follow from the seed and the time.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import NamedTuple

from shared.core import merge
from shared.core.errors import SlackwaterError
from shared.services.leases import take_back
from tests.fakes import Fault, duplicate, fail, lose_answer, ok
from tests.system.slow import Slow
from tests.system.tide import WHO
from tests.system.weather import crowded, fair, killed, killed_after, throttle
from tests.system.world import REVISION, Hand, World

STORM = 300.0
RATE = 0.08
"""The part of all calls that meet a fault."""
DAY = 86400.0
AWAY = 60.0
"""Seconds that a store is away, or turns every call away."""
STORES = {"S3": ("blobs",), "DynamoDB": ("batches", "shards", "chunks", "workers", "files")}
SHARED = {
    "batches.update",
    "chunks.commit",
    "shards.close",
    "shards.drain",
    "shards.lease",
    "shards.reclaim",
    "shards.release",
    "shards.renew",
    "workers.update",
}
"""Calls that change a record which others change, too: they may be refused for that."""
KILL_AFTER = 30.0
"""Seconds from the SIGTERM of AWS Batch to its SIGKILL."""
NOTICE = 120.0
"""Seconds from the notice of a Spot host, which its workers get as a SIGTERM (`infra/spot-notice.sh`), to its end."""
JUMPS = (2.0, 40.0, 400.0)
"""How far clocks jump at most, in seconds: by less than a heartbeat, a lease, a tick of the lifecycle; and by more."""


class Outage(NamedTuple):
    """A minute in which all calls of some ports meet one fault."""

    begins: float
    ports: tuple[str, ...]
    fault: Fault


class Storm:
    """The weather of one seed."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._seed = seed
        self._numbers: Counter[str] = Counter()
        self._outages = self._drawn_outages()
        world.weather.rule = self._fault
        world.tide.latency = self._latency

    def calm(self) -> None:
        """End the storm."""
        self._world.weather.rule = fair
        self._world.tide.latency = lambda: 0.0

    def _drawn_outages(self) -> list[Outage]:
        draw = Random(f"{self._seed}/outages")
        choices = [*STORES.values(), (*STORES["S3"], *STORES["DynamoDB"])]
        return [
            Outage(draw.uniform(0, STORM), draw.choice(choices), draw.choice((fail, throttle)))
            for _ in range(draw.choice((0, 1, 2)))
        ]

    def _draw(self, name: str) -> Random:
        self._numbers[name] += 1
        return Random(f"{self._seed}/{name}/{self._numbers[name]}")

    def _fault(self, name: str) -> Fault:
        for outage in self._outages:
            if outage.begins <= self._world.tide.now < outage.begins + AWAY and name.startswith(outage.ports):
                return outage.fault
        faults = (killed, killed_after, duplicate) if name.startswith("task.") else (fail, lose_answer, duplicate)
        if name in SHARED:
            faults = (*faults, crowded, throttle)
        draw = self._draw(name)
        return draw.choice(faults) if draw.random() < RATE else ok

    def _latency(self) -> float:
        draw = self._draw(f"latency of {WHO.get()}")
        return draw.uniform(0, draw.choice((0.1, 1.0, 90.0))) if draw.random() < 0.1 else 0.0


async def rage(world: World, draw: Random) -> None:
    """Let mishap follow mishap, and the sweep come by; in some storms let a day pass at once."""
    a_day_passes = draw.random() < 0.15
    under_way: list[asyncio.Task[None]] = []
    while world.tide.now < STORM:
        await asyncio.sleep(draw.uniform(3, 30))
        world.sweep()
        live = [hand for hand in world.hands if hand.job in world.jobs.live]
        if live:
            mishap = draw.choice(MISHAPS)(world, Random(draw.random()), draw.choice(live))
            under_way.append(asyncio.ensure_future(mishap))
    await asyncio.gather(*under_way)
    if a_day_passes:
        world.tide.now += DAY


async def host_is_lost(world: World, _draw: Random, hand: Hand) -> None:
    """End a worker at once."""
    world.jobs.kill(hand.job)


async def is_told_to_stop(world: World, draw: Random, hand: Hand) -> None:
    """Send a SIGTERM, and end what is left of the worker after a while: AWS Batch ends its job, or Spot takes its host."""
    stopping = asyncio.create_task(hand.worker.stop())
    await asyncio.sleep(draw.choice((KILL_AFTER, NOTICE)))
    await stopping
    if hand.job in world.jobs.live:
        world.jobs.kill(hand.job)


async def engine_dies(_world: World, _draw: Random, hand: Hand) -> None:
    """Let an engine die of itself."""
    hand.engine.die()


async def engine_hangs(_world: World, _draw: Random, hand: Hand) -> None:
    """Let an engine answer nothing any more."""
    hand.engine.well = False


async def engine_loses_its_core(_world: World, _draw: Random, hand: Hand) -> None:
    """Let an engine fail whatever is or comes in."""
    if not hand.engine.core.done():
        hand.engine.core.set_result(None)


async def gpu_hangs(_world: World, _draw: Random, hand: Hand) -> None:
    """Let an engine answer nothing any more, and not even end when it is killed."""
    hand.engine.well = False
    hand.engine.clings = True


async def engine_is_away(_world: World, _draw: Random, hand: Hand) -> None:
    """Let an engine take no connection any more."""
    hand.engine.away = True


async def disk_is_full(_world: World, draw: Random, hand: Hand) -> None:
    """Let an engine die, and not start for a while, or not on this host any more: it has no room for what it writes."""
    hand.engine.broken = draw.randint(1, 4)
    hand.engine.die()


async def clock_jumps(world: World, draw: Random, hand: Hand) -> None:
    """Set the clock of a host, to the right time or to any other."""
    world.clocks[hand.name] = draw.choice((0.0, *JUMPS)) * draw.uniform(-1, 1)


async def lease_is_stolen(world: World, draw: Random, _hand: Hand) -> None:
    """Take a lease away from a worker whose work goes on, by a clock that is ahead; somebody else leases the shard, commits some rows, and is gone."""
    leased = world.memory.shards.leased(REVISION)
    if not leased:
        return
    shard = draw.choice(leased)
    take_back(world.memory.shards, [shard], shard.lease_until + 1)
    with suppress(SlackwaterError):
        thief = Slow(world, shard.ref, shard.index, "thief")
        left = merge.missing(shard.lines, world.memory.chunks.of(shard.ref, shard.index))
        await asyncio.sleep(draw.uniform(0, 20))
        thief.commit(draw.sample(left, draw.randint(1, len(left))))


Mishap = Callable[[World, Random, Hand], Awaitable[None]]

MISHAPS: tuple[Mishap, ...] = (
    host_is_lost,
    is_told_to_stop,
    engine_dies,
    engine_hangs,
    engine_loses_its_core,
    gpu_hangs,
    engine_is_away,
    disk_is_full,
    clock_jumps,
    lease_is_stolen,
)
