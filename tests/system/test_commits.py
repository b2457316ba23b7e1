"""Exactly once: rows are committed by one owner at a time, whatever arrives late, twice, or never."""

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from shared.core.errors import Fenced
from shared.core.ids import BatchRef
from shared.core.records import Counts, Status
from shared.core.window import TICK
from shared.services.leases import take_back
from tests.fakes import Call, Fault, fail, lose_answer, ok, then
from tests.system.engine import after
from tests.system.slow import LEASE, Slow
from tests.system.tide import WHO
from tests.system.verdict import assert_exactly_once
from tests.system.weather import before, swallow
from tests.system.world import World


def prompts(number: int) -> list[str]:
    """Give so many prompts."""
    return [f"prompt {n}" for n in range(number)]


def took(world: World, ref: BatchRef) -> int:
    """Give how many seconds a batch took."""
    batch = world.batch(ref)
    return (batch.completed_at or 0) - batch.created_at


async def planned(world: World, number: int = 5) -> BatchRef:
    """Create a batch and wait until its shards are there and Run waits, before any worker has started."""
    ref = world.create(prompts(number))
    await world.until(lambda: world.batch(ref).token)
    return ref


async def test_a_batch_is_answered(world: World) -> None:
    """Without any weather every line has its answer, each was asked once, and one execution did it."""
    ref = world.create(prompts(23))
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Status.COMPLETED is batch.status
    assert Counts(total=23, completed=23) == batch.counts
    assert Counter(prompts(23)) == Counter(prompt for hand in world.hands for prompt in hand.engine.seen)
    assert (1, 1) == (world.executions.most, len(world.ended))
    assert not world.jobs.errors


async def test_a_zombies_late_put_after_its_successor_committed_counts_for_nothing(world: World) -> None:
    """The zombie's object arrives, its commit does not: the epoch is another's."""
    gate = asyncio.Event()
    world.script["prompt 4"] = after(gate)
    ref = world.create(prompts(5))
    await world.until(lambda: world.hands and len(world.hands[0].engine.seen) == 5)
    zombie = world.hands[0]
    world.tide.latency = lambda: 300.0 if WHO.get() == zombie.name else 0.0
    await asyncio.sleep(11)  # its commit is under way
    world.jobs.kill(zombie.job)
    await world.until(lambda: list(world.memory.chunks.of(ref)))
    await world.until(lambda: len(world.bucket.keys("orgs/acme/batches")) == 3)  # the plan, the chunk, the zombie's
    gate.set()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=5, completed=5) == batch.counts
    assert 1 not in {chunk.epoch for chunk in world.memory.chunks.of(ref)}  # which was the zombie's
    assert 2 == len(world.hands)


@pytest.mark.parametrize(
    "faults",
    [[fail], [lose_answer], [fail, lose_answer, fail], [lose_answer, lose_answer]],
    ids=["before its effect", "after its effect", "again and again", "twice"],
)
async def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_counted_twice(
    world: World, faults: list[Fault]
) -> None:
    """The worker finds out what became of its commit, and nobody runs a line again."""
    world.weather.script("chunks.commit", *faults)
    ref = world.create(prompts(5))
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=5, completed=5) == batch.counts
    assert prompts(5) == sorted(world.hands[0].engine.seen)
    assert 1 == len(world.hands)
    assert took(world, ref) < TICK


async def test_a_commit_whose_fate_stays_unknown_is_left_to_the_next_lease(world: World) -> None:
    """The answer was lost, and so was every look: the worker lets go, and whoever comes next sees what counts."""
    down: list[Fault] = []

    def storm(call: Call) -> None:
        down.append(fail)
        lose_answer(call)

    world.weather.script("chunks.commit", storm)
    world.weather.rule = lambda name: down[0] if down and name.startswith("chunks.") else ok
    ref = world.create(prompts(5))
    await world.until(lambda: down)
    await asyncio.sleep(LEASE)
    down.clear()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=5, completed=5) == batch.counts


async def test_a_commit_just_before_close_is_delivered(world: World) -> None:
    """Close comes second: Finalize finds the rows."""
    ref = await planned(world)
    slow = Slow(world, ref)
    world.cancel(ref)
    world.weather.script("shards.close", before(lambda: slow.commit([0, 2])))
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Status.CANCELLED is batch.status
    assert Counts(total=5, completed=2) == batch.counts


async def test_a_commit_just_after_close_counts_for_nothing(world: World) -> None:
    """Close comes first: the worker is fenced, and its lines have the rows of lines that never ran."""
    ref = await planned(world)
    slow = Slow(world, ref)
    slow.commit([1])
    world.cancel(ref)
    fenced: list[Fenced] = []

    def too_late() -> None:
        try:
            slow.commit([0, 2])
        except Fenced as error:
            fenced.append(error)

    world.weather.script("shards.close", then(too_late))
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert 1 == len(fenced)
    assert Counts(total=5, completed=1) == batch.counts


async def test_a_commit_while_finalize_reads_counts_for_nothing(world: World) -> None:
    """The fence stands before the first look of Finalize: what it has read cannot change."""
    ref = await planned(world)
    slow = Slow(world, ref)
    world.cancel(ref)

    def too_late() -> None:
        with suppress(Fenced):
            slow.commit([0, 2])

    world.weather.script("chunks.of", then(too_late))
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=5) == batch.counts
    assert [] == list(world.memory.chunks.of(ref))


async def test_a_last_commit_before_run_stored_its_token_is_seen_by_run(world: World) -> None:
    """Nobody could be woken: Run looks by itself, and does not wait for its tick."""
    ref = world.create(prompts(5))
    world.weather.script("task.Run", before(lambda: Slow(world, ref).commit(range(5))))
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert took(world, ref) < 10


async def test_a_last_commit_in_the_moment_before_the_token_is_stored_is_seen_by_run(world: World) -> None:
    """Run looks after it has stored the token: a look before would have missed it, and nobody was there to be woken."""
    ref = world.create(prompts(5))
    # The writes of Validate, Admit and Plan come before that of Run.
    world.weather.script("batches.update", ok, ok, ok, before(lambda: Slow(world, ref).commit(range(5))))
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert took(world, ref) < 10


async def test_a_last_commit_between_token_and_look_ends_the_run(world: World) -> None:
    """Both see it, and twice woken is once woken."""
    ref = world.create(prompts(5))
    # The writes of Validate, Admit and Plan come before that of Run.
    world.weather.script("batches.update", ok, ok, ok, then(lambda: Slow(world, ref).commit(range(5))))
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert took(world, ref) < 10


async def test_a_last_commit_while_run_waits_wakes_it(world: World) -> None:
    """Who commits the last line sends the token that Run has stored."""
    ref = await planned(world)
    await asyncio.sleep(1)
    Slow(world, ref).commit(range(5))
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert took(world, ref) < 10


async def test_a_lost_wake_up_is_made_up_for_by_the_tick(world: World) -> None:
    """Tokens that never arrive cost five minutes, not the batch."""
    world.weather.rule = lambda name: swallow if name == "workflow.resume" else ok
    ref = world.create(prompts(5))
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Status.COMPLETED is batch.status
    assert TICK <= took(world, ref) < TICK + 10


async def test_of_two_workers_on_an_expired_lease_the_second_owns_the_shard(world: World) -> None:
    """The first one wakes up again and commits what it has: nothing of it counts, and it goes on to other work."""
    gate = asyncio.Event()
    world.script["prompt 0"] = after(gate)
    ref = await planned(world)
    slow = Slow(world, ref)
    slow.commit([3])
    await world.until(lambda: world.memory.shards.of(ref)[0].owner not in {None, "slow"})
    with pytest.raises(Fenced):
        slow.commit([0, 1])
    gate.set()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=5, completed=5) == batch.counts
    assert 4 == sum(len(hand.engine.seen) for hand in world.hands)


async def test_a_lease_that_is_stolen_from_a_worker_at_work_costs_it_its_rows_and_nobody_a_line(world: World) -> None:
    """Somebody whose clock is ahead takes it back, and has committed nothing yet when the holder does: only the epoch tells them apart."""
    gate = asyncio.Event()
    world.script["prompt 4"] = after(gate)
    ref = world.create(prompts(5))
    await world.until(lambda: world.hands and len(world.hands[0].engine.seen) == 5)
    robbed = world.memory.shards.of(ref)
    take_back(world.memory.shards, robbed, world.clock() + 300)
    thief = Slow(world, ref)
    await asyncio.sleep(LEASE / 4)  # it has tried to commit, and forgets the lines
    assert [] == world.hands[0].engine.inside
    thief.commit([0, 4])
    gate.set()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=5, completed=5) == batch.counts
    assert robbed[0].epoch not in {chunk.epoch for chunk in world.memory.chunks.of(ref)}
    assert not world.jobs.errors


async def test_a_worker_that_froze_beyond_its_lease_commits_nothing_more_and_works_on(world: World) -> None:
    """Its rows are forgotten, those of its successor count; a later batch is answered by either."""
    gate = asyncio.Event()
    world.script["prompt 4"] = after(gate)
    ref = world.create(prompts(5))
    await world.until(lambda: world.hands and len(world.hands[0].engine.seen) == 5)
    frozen = world.hands[0]
    world.tide.latency = lambda: 70.0 if WHO.get() == frozen.name else 0.0
    second = world.create(prompts(6))  # another worker comes for it, and finds the lease run out
    await world.until(lambda: len(world.hands) == 2)
    await asyncio.sleep(3 * LEASE)
    world.tide.latency = lambda: 0.0
    gate.set()
    await world.until_ended(ref, second)
    await assert_exactly_once(world, ref)
    await assert_exactly_once(world, second)
    assert not world.jobs.errors
