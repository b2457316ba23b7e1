r"""Storms: small batches in a world where anything may fail at any moment. A storm is its seed; the same seed is the same storm.

For some minutes calls are lost before or after their effect, delivered twice, refused and late; S3 and DynamoDB go away for a minute, or throttle; task
states and workers are killed, told to stop, robbed of their leases; engines die, hang and do not start; clocks jump; batches are cancelled; in some
storms a day passes at once (`tests.system.storm`). Then it is calm, and everything must have come to its one end.

    SLACKWATER_STORMS=500 .venv/bin/python -m pytest -n auto tests/system/test_storms.py    more of them
    .venv/bin/python -m pytest "tests/system/test_storms.py::test_after_any_storm_every_line_has_its_one_row[77]"       one again
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest

from gpu_job.engine import EngineFailed
from gpu_job.upstream import Reply
from shared.core.contracts import CONTRACTS
from shared.core.errors import Conflict, Refused, Unavailable
from shared.core.ids import BatchRef
from shared.core.lifecycle import is_terminal
from tests.system.engine import (
    Act,
    ScriptedEngine,
    crash,
    garbage,
    hang,
    lingering,
    overloaded,
    refuse,
    sicken,
    slowly,
    stall,
)
from tests.system.storm import STORM, Storm, rage
from tests.system.tide import Tide
from tests.system.verdict import (
    assert_exactly_once,
    assert_never_began,
    assert_undisturbed_by_zombies,
    never_ran,
    rows,
)
from tests.system.world import World

SEEDS = range(int(os.environ.get("SLACKWATER_STORMS", "100")))
KILLERS = (*range(12), 103, 125, 191)
"""In the last ones, stalled shards come to lie beside others."""
ACTS: tuple[Act, ...] = (crash, garbage, hang, overloaded, refuse, sicken, stall)
EXPECTED = {"Unavailable", "Unknown"}
"""What may end an execution: a store that is away for longer than retries last, and a kill."""
BLAMELESS = ("The engine died", "The request took longer")
"""What may be said of a line that is no trouble: of an engine that dies or hangs by itself nobody can tell whose fault it was."""


@asynccontextmanager
async def world_of(seed: int) -> AsyncIterator[World]:
    """Give the world of a seed, when its storm is over and its batches have ended."""
    draw = Random(seed)
    async with World(shard_lines=3, max_workers=3, in_flight=4, row_seconds=60) as world:
        refs = [create(world, draw, contract) for contract in draw.sample(sorted(CONTRACTS), 3)]
        storm = Storm(world, seed)
        await asyncio.gather(rage(world, draw), *(cancel(world, draw, ref) for ref in refs))
        storm.calm()
        while not all(ref_ended(world, ref) for ref in refs):
            world.sweep()
            await asyncio.sleep(60)
        await world.until_ended(*refs)
        yield world


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_any_storm_every_line_has_its_one_row(seed: int) -> None:
    """Whatever happened, in whatever order."""
    async with world_of(seed) as world:
        for ref in world.prompts:
            await assert_well_ended(world, ref)
        for ref in world.prompts:
            await assert_undisturbed_by_zombies(world, ref)
        assert set(world.executions.failed.values()) <= EXPECTED
        assert [] == [error for error in causes(world.jobs.errors) if not isinstance(error, Unavailable | EngineFailed)]


async def story(seed: int) -> tuple[float, list[str]]:
    """Give how long a storm's world went on, and every call that was made in it."""
    async with world_of(seed) as world:
        return world.tide.now, world.weather.calls


@pytest.mark.parametrize("seed", range(5))
def test_a_storm_is_its_seed(seed: int) -> None:
    """One that has failed can be looked at again: the same calls are made in the same order."""
    stories = []
    for _ in range(2):
        with asyncio.Runner(loop_factory=Tide) as runner:
            stories.append(runner.run(story(seed)))
    assert stories[0] == stories[1]


@pytest.mark.parametrize("seed", KILLERS)
async def test_only_lines_that_take_workers_down_are_given_up(seed: int) -> None:
    """However many there are, wherever they stand, and whoever is leased beside them."""
    draw = Random(seed)
    async with World(
        shard_lines=draw.choice((3, 8, 20)), max_workers=draw.choice((1, 2, 3)), in_flight=draw.choice((1, 4, 16))
    ) as world:
        refs = [create_with_killers(world, draw, number) for number in range(draw.choice((1, 2, 3)))]
        await world.until_ended(*refs)
        given_up = set()
        for ref in refs:
            batch = await assert_exactly_once(world, ref)
            given_up |= {world.prompts[ref][row["custom_id"]] for row in rows(world, batch, batch.error_file_id)}
        assert {prompt for prompt, act in world.script.items() if act is not slowly} == given_up


def create_with_killers(world: World, draw: Random, number: int) -> BatchRef:
    """Create a batch with up to two lines that take every worker down, some of them only after a while."""
    seconds = draw.choice((0.0, 0.01, 0.2, 3.0))

    async def take_down(engine: ScriptedEngine, _prompt: str) -> Reply:
        await asyncio.sleep(seconds)
        world.jobs.kill(next(hand.job for hand in world.hands if hand.engine is engine))
        return await asyncio.Future()

    prompts = [f"{number}.{line}" for line in range(draw.randint(1, 40))]
    world.script |= {prompt: slowly for prompt in prompts if draw.random() < 0.5}
    world.script |= dict.fromkeys(draw.sample(prompts, min(len(prompts), draw.choice((0, 1, 2)))), take_down)
    return world.create(prompts)


def create(world: World, draw: Random, contract: str) -> BatchRef:
    """Create a batch of some lines, some of which take their time, and some are trouble."""
    prompts = [f"{contract} {line}" for line in range(draw.randint(1, 9))]
    world.script |= {prompt: lingering(draw.uniform(0, 40)) for prompt in prompts if draw.random() < 0.3}
    world.script |= {prompt: draw.choice(ACTS) for prompt in prompts if draw.random() < 0.1}
    return world.create(prompts, org=draw.choice(("acme", "rival")), contract=contract)


async def cancel(world: World, draw: Random, ref: BatchRef) -> None:
    """Cancel a batch at some time, or do not."""
    after, wanted = draw.uniform(0, STORM), draw.random() < 0.3
    if wanted:
        await asyncio.sleep(after)
        with suppress(Conflict, Refused, Unavailable):
            world.cancel(ref)


def ref_ended(world: World, ref: BatchRef) -> bool:
    """Whether the batch has ended."""
    return is_terminal(world.batch(ref))


async def assert_well_ended(world: World, ref: BatchRef) -> None:
    """Assert that the batch has all of its rows, or that it never began and says so; no line is blamed for what it cannot have done."""
    if world.batch(ref).shards is None:
        await assert_never_began(world, ref)
        return
    batch = await assert_exactly_once(world, ref)
    for row in rows(world, batch, batch.error_file_id):
        prompt = world.prompts[ref][row["custom_id"]]
        if world.script.get(prompt) not in ACTS and not never_ran(row, batch.ending):
            assert row["error"] is not None
            assert row["error"]["message"].startswith(BLAMELESS)


def causes(errors: Iterable[BaseException]) -> Iterator[BaseException]:
    """Give the errors inside of groups."""
    for error in errors:
        if isinstance(error, BaseExceptionGroup):
            yield from causes(error.exceptions)
        else:
            yield error
