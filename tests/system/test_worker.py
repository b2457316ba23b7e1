"""One worker and its engine: whatever the engine does, each line gets its own row, and no neighbour is blamed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from gpu_job.engine import EngineFailed
from gpu_job.keeper import STARTS
from shared.core.ids import BatchRef
from shared.core.plan import STALLS
from shared.core.records import Counts, ShardState, Status
from shared.core.window import TICK
from tests.fakes import fail, lose_answer, ok
from tests.system.aws import BOOT
from tests.system.engine import (
    STARTING,
    Act,
    ScriptedEngine,
    after,
    brood,
    crash,
    echo,
    garbage,
    hang,
    lingering,
    nested,
    overloaded,
    refuse,
    sicken,
    slowly,
    stall,
)
from tests.system.slow import LEASE, Slow
from tests.system.verdict import assert_exactly_once, rows
from tests.system.weather import before, crowded, fair
from tests.system.world import IDLE, REVISION, Hand, World

CROWD = 200


@pytest.fixture
async def wide() -> AsyncIterator[World]:
    """A world of one worker with room for a crowd."""
    async with World(shard_lines=CROWD, max_workers=1, in_flight=64, row_seconds=120) as world:
        yield world


@pytest.fixture
async def lone() -> AsyncIterator[World]:
    """A world of one worker."""
    async with World(max_workers=1) as world:
        yield world


def crowd(number: int = CROWD) -> list[str]:
    """Give so many prompts, with `poison` in their midst."""
    return [f"prompt {n}" if n != number // 2 else "poison" for n in range(number)]


def errors(world: World, ref: BatchRef) -> list[Any]:
    """Give the rows of the error file."""
    batch = world.batch(ref)
    return rows(world, batch, batch.error_file_id)


async def answered_but_one(world: World, act: Act) -> Any:
    """Run a crowd with one poisonous line; assert that all others were answered, and give its row."""
    world.script["poison"] = act
    ref = world.create(crowd())
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Status.COMPLETED is batch.status
    assert Counts(total=CROWD, completed=CROWD - 1, failed=1) == batch.counts
    (row,) = errors(world, ref)
    assert f"c{CROWD // 2}" == row["custom_id"]
    assert not world.jobs.errors
    assert 1 == len(world.hands)
    return row


async def test_a_row_that_kills_the_engine_gets_an_error_row_and_all_others_their_answers(wide: World) -> None:
    """It dies four times of it: with all inside, with a company, and twice with this one alone."""
    row = await answered_but_one(wide, crash)
    assert (None, "server_error") == (row["response"], row["error"]["code"])
    assert 4 == wide.hands[0].engine.seen.count("poison")
    assert 5 == wide.hands[0].engine.generation


async def test_a_row_that_hangs_the_engine_gets_an_error_row_and_all_others_their_answers(wide: World) -> None:
    """Those who waited with it in vain run again, in the end each alone; only who hangs it alone is blamed."""
    row = await answered_but_one(wide, hang)
    assert (None, "server_error") == (row["response"], row["error"]["code"])
    assert 4 == wide.hands[0].engine.seen.count("poison")


async def test_a_row_that_never_ends_gets_an_error_row_and_the_engine_lives_on(wide: World) -> None:
    """It is tried once more, in company, and given up; nobody else runs twice."""
    row = await answered_but_one(wide, brood)
    assert (None, "server_error") == (row["response"], row["error"]["code"])
    assert {"poison": 2} == {prompt: n for prompt, n in Counter(wide.hands[0].engine.seen).items() if n > 1}
    assert 1 == wide.hands[0].engine.generation


@pytest.mark.parametrize("act", [garbage, nested])
async def test_a_row_whose_answer_is_garbage_gets_an_error_row(wide: World, act: Act) -> None:
    """NaN never leaves; nor does what nobody can read."""
    row = await answered_but_one(wide, act)
    assert (None, "server_error") == (row["response"], row["error"]["code"])
    assert 3 == wide.hands[0].engine.seen.count("poison")


async def test_a_row_that_finds_a_mistake_of_ours_gets_an_error_row_and_its_text_is_in_no_log(
    wide: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Its neighbours do not pay for it, nor does the engine that took minutes to start."""

    async def mistaken(_engine: ScriptedEngine, prompt: str) -> Any:
        raise LookupError(f"it was {prompt}")

    row = await answered_but_one(wide, mistaken)
    assert (None, "server_error") == (row["response"], row["error"]["code"])
    assert "LookupError" in caplog.text
    assert "poison" not in caplog.text


async def test_a_row_that_is_always_answered_503_gets_that_as_its_row(wide: World) -> None:
    """The engine's last word is the row's."""
    row = await answered_but_one(wide, overloaded)
    assert (503, "no room") == (row["response"]["status_code"], row["response"]["body"]["error"]["message"])
    assert row["error"] is None
    assert 6 == wide.hands[0].engine.seen.count("poison")


async def test_a_row_that_is_refused_gets_the_engines_reason(wide: World) -> None:
    """A refusal is final, and says which field is at fault."""
    row = await answered_but_one(wide, refuse)
    assert 400 == row["response"]["status_code"]
    expected = {
        "message": "temperature must not be negative", "type": "invalid_request_error", "param": "temperature",
        "code": "invalid_request",
    }  # fmt: skip
    assert expected == row["response"]["body"]["error"]
    assert 1 == wide.hands[0].engine.seen.count("poison")


async def test_a_row_that_fails_now_and_then_is_answered_in_the_end(wide: World) -> None:
    """Two bad answers are tried again; the third is good."""
    acts = [overloaded, garbage, echo]

    async def moody(engine: ScriptedEngine, prompt: str) -> Any:
        return await acts.pop(0)(engine, prompt)

    wide.script["poison"] = moody
    ref = wide.create(crowd(10))
    await wide.until_ended(ref)
    assert Counts(total=10, completed=10) == (await assert_exactly_once(wide, ref)).counts


def is_at(engine: ScriptedEngine, generation: int) -> bool:
    """Whether the engine was started so many times."""
    return engine.generation == generation


async def serving(world: World) -> Hand:
    """Wait until the first worker has its engine running."""
    await world.until(lambda: world.hands and world.hands[0].engine.generation)
    return world.hands[0]


async def test_an_engine_that_dies_with_nothing_inside_three_times_ends_its_worker(world: World) -> None:
    """No row is to blame, so the machine is: the worker ends badly, and another takes its place."""
    ref = world.create(["a", "b"])
    await world.until(lambda: world.hands)
    hand = world.hands[0]
    world.weather.rule = lambda name: fail if name == "shards.ready" else ok  # nothing to do for now
    for generation in (1, 2, 3):
        await world.until(partial(is_at, hand.engine, generation))
        hand.engine.die()
    await world.until(lambda: world.jobs.errors)
    world.weather.rule = fair
    assert isinstance(world.jobs.errors[0], EngineFailed)
    await world.until_ended(ref)
    assert Counts(total=2, completed=2) == (await assert_exactly_once(world, ref)).counts
    assert 2 == len(world.hands)


async def test_an_engine_that_fails_to_start_once_is_started_again(world: World) -> None:
    """The memory of the one that died may not be free yet."""
    world.script["a"] = crash
    ref = world.create(["a", "b"])
    hand = await serving(world)
    hand.engine.broken = 2
    await world.until_ended(ref)
    assert Counts(total=2, completed=1, failed=1) == (await assert_exactly_once(world, ref)).counts
    assert not world.jobs.errors


async def test_an_engine_that_never_starts_ends_its_worker(world: World) -> None:
    """After three tries; the batch waits for another worker."""
    ref = world.create(["a"])
    await world.until(lambda: world.hands)
    world.hands[0].engine.broken = 3
    await world.until_ended(ref)
    assert Counts(total=1, completed=1) == (await assert_exactly_once(world, ref)).counts
    assert 1 == len(world.jobs.errors)
    assert 2 == len(world.hands)


async def test_a_worker_whose_engine_cannot_be_kept_alive_commits_what_is_finished_and_gives_the_rest_back(
    world: World,
) -> None:
    """As one that is told to stop: the loss counts against no shard, and nobody waits for the lease to run out."""

    async def crash_later(engine: ScriptedEngine, prompt: str) -> Any:
        await asyncio.sleep(1)
        return await crash(engine, prompt)

    world.script["c"] = crash_later
    ref = world.create(["a", "b", "c", "d"])
    hand = await serving(world)
    hand.engine.broken = STARTS
    await world.until(lambda: world.jobs.errors)
    (shard,) = world.memory.shards.of(ref)
    assert (3, 0, ShardState.READY) == (shard.completed, shard.stalls, shard.state)
    assert isinstance(world.jobs.errors[0], EngineFailed)
    world.script.clear()
    await world.until_ended(ref)
    assert Counts(total=4, completed=4) == (await assert_exactly_once(world, ref)).counts
    assert 2 == len(world.hands)


@pytest.mark.parametrize("trouble", [hang, stall, sicken])
async def test_a_worker_whose_engine_cannot_be_ended_gives_its_leases_back(world: World, trouble: Act) -> None:
    """Its GPU hangs, and the kernel waits for it: the worker does not, and no line is blamed."""
    world.script["c"] = trouble
    ref = world.create(["a", "b", "c", "d"])
    hand = await serving(world)
    hand.engine.clings = True
    await world.until(lambda: world.jobs.errors)
    (shard,) = world.memory.shards.of(ref)
    assert (0, 0, ShardState.READY) == (shard.answered, shard.stalls, shard.state)
    assert isinstance(world.jobs.errors[0], EngineFailed)
    world.script.clear()
    await world.until_ended(ref)
    assert Counts(total=4, completed=4) == (await assert_exactly_once(world, ref)).counts


async def test_a_worker_whose_engine_is_lost_and_the_stores_as_well_still_ends(world: World) -> None:
    """It cannot give its leases back: they run out."""
    world.script["c"] = crash
    ref = world.create(["a", "b", "c", "d"])
    hand = await serving(world)
    hand.engine.broken = STARTS
    await world.until(hand.engine.exited)
    world.weather.rule = lambda name: fail if name.startswith(("chunks.", "shards.", "blobs.")) else ok
    await world.until(lambda: world.jobs.errors)
    assert isinstance(world.jobs.errors[0], EngineFailed)
    world.weather.rule = fair
    world.script.clear()
    await world.until_ended(ref)
    assert Counts(total=4, completed=4) == (await assert_exactly_once(world, ref)).counts


@pytest.mark.parametrize("seconds", [-3600.0, 3600.0])
async def test_a_clock_that_jumps_keeps_no_row_waiting_and_costs_no_time_of_a_gpu(world: World, seconds: float) -> None:
    """How long something takes is not told by the clock: rows are committed when they are old, and what was not served is not charged."""
    gate = asyncio.Event()
    world.script |= {"c": after(gate), "d": lingering(1.5)}
    ref = world.create(["a", "b", "c", "d"])
    hand = await serving(world)
    await world.until(lambda: len(hand.engine.seen) == 4)
    await asyncio.sleep(1)
    world.clocks[hand.name] = seconds
    await asyncio.sleep(12)
    (shard,) = world.memory.shards.of(ref)
    assert 3 == shard.completed
    gate.set()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=4, completed=4) == batch.counts
    assert batch.gpu_ms < 30_000
    assert 1 == len(world.hands)


async def test_a_worker_whose_clock_is_behind_keeps_its_shard_beside_one_that_has_nothing_to_do(world: World) -> None:
    """Its leases seem to have run out, but it renews them: it is not robbed again and again, until lines are given up that nobody has tried."""
    gates = [asyncio.Event() for _ in range(2)]
    world.script |= {"prompt 0": after(gates[0]), "prompt 5": after(gates[1])}
    ref = world.create([f"prompt {n}" for n in range(10)])
    await world.until(lambda: len(world.hands) == 2)
    for hand, seconds in zip(world.hands, (-300.0, 300.0), strict=True):
        world.clocks[hand.name] = seconds
    await asyncio.sleep(2 * LEASE)
    assert [1, 1] == [shard.epoch for shard in world.memory.shards.of(ref)]
    gates[0].set()
    gates[1].set()
    await world.until_ended(ref)
    assert Counts(total=10, completed=10) == (await assert_exactly_once(world, ref)).counts


async def test_a_worker_whose_clock_is_set_back_keeps_its_shard_beside_one_that_has_nothing_to_do(world: World) -> None:
    """By its clock the lease that it has runs for long enough; its heartbeats are seen all the same."""
    gate = asyncio.Event()
    world.script |= {"prompt 0": after(gate), "prompt 5": after(gate)}
    ref = world.create([f"prompt {n}" for n in range(10)])
    await world.until(lambda: 2 == sum(len(hand.engine.inside) == 1 for hand in world.hands))
    world.clocks[world.hands[0].name] = -300.0
    await asyncio.sleep(3 * LEASE)
    assert [1, 1] == [shard.epoch for shard in world.memory.shards.of(ref)]
    gate.set()
    await world.until_ended(ref)
    assert Counts(total=10, completed=10) == (await assert_exactly_once(world, ref)).counts


async def test_a_worker_whose_clock_is_behind_keeps_its_shard_when_the_lifecycle_looks(lone: World) -> None:
    """At a tick its lease seems to have run out long ago."""
    gate = asyncio.Event()
    lone.script["a"] = after(gate)
    ref = lone.create(["a", "b"])
    hand = await serving(lone)
    lone.clocks[hand.name] = -200.0
    await asyncio.sleep(TICK + 60)
    (shard,) = lone.memory.shards.of(ref)
    assert (1, hand.name) == (shard.epoch, shard.owner)
    gate.set()
    await lone.until_ended(ref)
    assert Counts(total=2, completed=2) == (await assert_exactly_once(lone, ref)).counts


async def test_a_worker_that_is_stopped_commits_what_is_finished_and_gives_the_rest_back(world: World) -> None:
    """SIGTERM: finished rows count, the lease is free at once and no stall is counted, another worker does the rest."""
    gate = asyncio.Event()
    world.script |= dict.fromkeys(["c", "d"], after(gate))
    ref = world.create(["a", "b", "c", "d"])
    hand = await serving(world)
    await world.until(lambda: len(hand.engine.seen) == 4)
    started = world.tide.now
    await hand.worker.stop()
    await world.until(lambda: hand.job not in world.jobs.live)
    assert world.tide.now - started < 20
    (shard,) = world.memory.shards.of(ref)
    assert (2, 0, ShardState.READY) == (shard.completed, shard.stalls, shard.state)
    gate.set()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=4, completed=4) == batch.counts
    assert {"a": 1, "b": 1, "c": 2, "d": 2} == Counter(prompt for hand in world.hands for prompt in hand.engine.seen)


async def test_a_worker_that_is_stopped_while_it_takes_a_shard_gives_it_back(world: World) -> None:
    """The order to stop comes between the lease and the work."""
    ref = world.create(["a", "b"])
    stops: list[asyncio.Task[None]] = []

    def stop() -> None:
        stops.append(world.tide.create_task(world.hands[0].worker.stop()))

    world.weather.script("shards.lease", before(stop))
    world.script |= dict.fromkeys(["a", "b"], brood)
    await world.until(lambda: stops)
    await world.until(lambda: world.hands[0].job not in world.jobs.live)
    assert [] == world.hands[0].engine.seen
    (shard,) = world.memory.shards.of(ref)
    assert (0, ShardState.READY) == (shard.stalls, shard.state)
    world.script.clear()
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)


async def test_a_cancelled_batch_keeps_what_finishes_within_the_grace(world: World) -> None:
    """The worker hears of it with its next heartbeat; rows that finish until the end of the drain are delivered."""
    gate = asyncio.Event()
    world.script |= {"b": after(gate), "c": brood}
    ref = world.create(["a", "b", "c"])
    hand = await serving(world)
    await world.until(lambda: len(hand.engine.seen) == 3)
    world.cancel(ref)
    await world.until(lambda: world.memory.shards.of(ref)[0].draining)
    await asyncio.sleep(10)
    gate.set()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Status.CANCELLED is batch.status
    assert Counts(total=3, completed=2) == batch.counts
    assert (batch.cancelled_at or 0) - (batch.cancelling_at or 0) < 25


async def test_a_lease_that_is_lost_in_the_middle_of_a_shard_stops_its_rows(world: World) -> None:
    """Nothing more of it is committed or sent, and the engine is told to forget what it has."""
    world.script |= dict.fromkeys(["b", "c"], brood)
    ref = world.create(["a", "b", "c"])
    hand = await serving(world)
    await world.until(lambda: world.memory.shards.of(ref)[0].completed == 1)
    world.memory.shards.close(world.memory.shards.of(ref)[0])
    await asyncio.sleep(16)
    assert [] == hand.engine.inside
    world.cancel(ref)
    await world.until_ended(ref)
    assert Counts(total=3, completed=1) == (await assert_exactly_once(world, ref)).counts
    assert not world.jobs.errors


@pytest.mark.parametrize("port", ["blobs", "chunks", "shards", "batches", "workers", "workflow"])
async def test_a_store_that_is_away_for_a_minute_costs_a_worker_time_and_nothing_else(world: World, port: str) -> None:
    """Whatever it was just doing, it does later."""
    prompts = [f"prompt {n}" for n in range(120)]
    world.script |= dict.fromkeys(prompts, slowly)
    ref = world.create(prompts)
    await serving(world)
    await asyncio.sleep(4)
    assert world.memory.shards.open("echo@1")
    world.weather.rule = lambda name: fail if name.startswith(f"{port}.") else ok
    await asyncio.sleep(60)
    world.weather.rule = fair
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=120, completed=120) == batch.counts
    assert not world.jobs.errors


async def test_a_worker_whose_roster_is_away_when_its_engine_is_ready_serves_all_the_same(world: World) -> None:
    """The roster only counts failures."""
    ref = world.create(["a", "b"])
    await world.until(lambda: world.hands)
    await asyncio.sleep(1)
    world.weather.rule = lambda name: fail if name.startswith("workers.") else ok
    await world.until(lambda: world.hands[0].engine.seen)
    world.weather.rule = fair
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert not world.jobs.errors


@pytest.mark.parametrize(
    "method",
    [
        "shards.ready",
        "shards.leased",
        "shards.lease",
        "shards.renew",
        "shards.release",
        "shards.reclaim",
        "workers.update",
    ],
)
async def test_a_record_that_too_many_change_at_once_ends_no_worker(world: World, method: str) -> None:
    """Another has the shard, or it is tried again, or the lease runs out."""
    gate = asyncio.Event()
    world.script["prompt 4"] = after(gate)
    ref = world.create([f"prompt {n}" for n in range(8)])
    lapsed = Slow(world, await planned(world, ref))
    hand = await serving(world)
    world.weather.script(method, *[crowded] * 3)
    await asyncio.sleep(2 * LEASE)
    gate.set()
    await asyncio.sleep(1)
    await hand.worker.stop()
    await world.until_ended(ref)
    assert Counts(total=8, completed=8) == (await assert_exactly_once(world, ref)).counts
    assert not world.jobs.errors
    assert "slow" == lapsed.shard.owner


async def planned(world: World, ref: BatchRef) -> BatchRef:
    """Wait until a batch is planned."""
    await world.until(lambda: world.batch(ref).token)
    return ref


async def test_a_lease_whose_answer_is_lost_is_not_left_lying(world: World) -> None:
    """The worker has it after all, and works at it at once."""
    world.weather.script("shards.lease", lose_answer)
    ref = world.create(["a", "b"])
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert (batch.completed_at or 0) - batch.created_at < 25


async def test_a_line_that_takes_worker_after_worker_down_is_given_up_and_the_rest_answered(wide: World) -> None:
    """The bites shrink until it stands alone; then it is the line, and nobody else."""
    world = wide

    async def take_down(engine: ScriptedEngine, _prompt: str) -> Any:
        await asyncio.sleep(0.01)
        world.jobs.kill(next(hand.job for hand in world.hands if hand.engine is engine))
        return await asyncio.get_running_loop().create_future()

    world.script["poison"] = take_down
    ref = world.create(crowd())
    bites = [CROWD]
    await world.until(lambda: world.memory.shards.of(ref))
    while bites[-1] != 1:
        await world.until(lambda: (world.memory.shards.of(ref)[0].bite or CROWD) < bites[-1])
        bites.append(world.memory.shards.of(ref)[0].bite or CROWD)
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert [CROWD, CROWD // 8, 3, 1] == bites
    starts = len(world.hands) * (BOOT + STARTING + 1)
    assert (batch.completed_at or 0) - batch.created_at < starts + 10  # no bite waits for more rows
    assert Counts(total=CROWD, completed=CROWD - 1, failed=1) == batch.counts
    (row,) = errors(world, ref)
    assert (f"c{CROWD // 2}", "server_error") == (row["custom_id"], row["error"]["code"])


async def test_two_lines_of_one_shard_that_take_workers_down_are_both_given_up(lone: World) -> None:
    """The row that gives the first one up is committed before the second one has its turn."""
    world = lone

    async def take_down(engine: ScriptedEngine, _prompt: str) -> Any:
        world.jobs.kill(next(hand.job for hand in world.hands if hand.engine is engine))
        return await asyncio.get_running_loop().create_future()

    world.script |= dict.fromkeys(["b", "d"], take_down)
    ref = world.create(["a", "b", "c", "d"])
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=4, completed=2, failed=2) == batch.counts
    assert {"c1", "c3"} == {row["custom_id"] for row in errors(world, ref)}


async def test_the_next_shard_is_sent_before_the_last_one_has_drained(lone: World) -> None:
    """The engine stays full across the border."""
    world = lone
    gate = asyncio.Event()
    world.script["prompt 4"] = after(gate)  # the last line of the first shard
    ref = world.create([f"prompt {n}" for n in range(10)])
    hand = await serving(world)
    await world.until(lambda: len(hand.engine.seen) >= 8)
    assert "prompt 4" in hand.engine.inside
    gate.set()
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)


async def test_no_more_rows_are_in_the_engine_than_it_has_room_for(world: World) -> None:
    """Eight, whatever the shards."""
    most = 0

    async def counting(engine: ScriptedEngine, prompt: str) -> Any:
        nonlocal most
        most = max(most, len(engine.inside))
        return await echo(engine, prompt)

    prompts = [f"prompt {n}" for n in range(40)]
    world.script |= dict.fromkeys(prompts, counting)
    ref = world.create(prompts)
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert 8 == most


async def test_rows_that_are_forgotten_before_they_began_leave_their_room_behind(lone: World) -> None:
    """A lease may be lost in the moment between a row's start and its first step: its place in the engine is free again."""
    world = lone

    def lose(steps: int) -> None:
        if steps:
            world.tide.call_soon(lose, steps - 1)
            return
        for run in world.hands[-1].worker._runs:
            run.lose()

    for steps in range(8):
        # A worker reads the plan of a shard and then its lines; from there on the loop makes a step at a time.
        world.weather.script("blobs.get", ok, before(partial(lose, steps)))
        ref = world.create([f"prompt {n}" for n in range(5)])
        await world.until_ended(ref)
        await assert_exactly_once(world, ref)
    assert {8} == {hand.worker._slots._value for hand in world.hands}


async def test_a_run_whose_commit_is_refused_ends_and_the_worker_goes_on(lone: World) -> None:
    """Nothing of it counts any more, so it sends no more lines, and a shard that is fed in bites does not wait for the commit for ever."""
    world = lone
    ref = world.create([f"prompt {n}" for n in range(5)])
    await world.until(lambda: world.memory.shards.open(REVISION))
    for _ in range(STALLS):
        (shard,) = world.memory.shards.open(REVISION)
        leased = world.memory.shards.lease(shard, "lost", world.clock() + LEASE)
        world.memory.shards.reclaim(leased, world.clock())
    world.weather.script("chunks.commit", crowded)
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=5, completed=5) == batch.counts


async def test_a_worker_that_finds_the_roster_away_works_all_the_same(lone: World) -> None:
    """When it comes, and when it goes: others say the same of it."""
    world = lone
    world.weather.script("workers.update", ok, ok, fail)  # it is asked for, its job is noted, and then it enters itself
    ref = world.create(["a", "b", "c"])
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    world.weather.rule = lambda name: fail if name == "workers.update" else ok
    await asyncio.sleep(2 * IDLE)
    world.weather.rule = fair
    await asyncio.sleep(2 * IDLE)
    assert (1, []) == (len(world.hands), world.jobs.errors)


async def test_batches_of_two_organizations_share_one_start_of_the_engine(lone: World) -> None:
    """Each gets its own answers, in its own files."""
    world = lone
    one = world.create(["a", "b", "c"], org="acme")
    other = world.create(["d", "e", "f"], org="rival")
    await world.until(lambda: world.memory.shards.open("echo@1"))
    await world.until_ended(one, other)
    await asyncio.sleep(IDLE / 2)
    late = world.create(["g"], org="rival")  # well within the time that an idle worker waits
    await world.until_ended(late)
    for ref in (one, other, late):
        await assert_exactly_once(world, ref)
    assert 1 == len(world.hands)
    assert 1 == world.hands[0].engine.generation


async def test_gpu_time_is_shared_out_among_the_batches_of_a_worker(lone: World) -> None:
    """Each has its part, whoever it belongs to; no moment is charged twice, also where commits lose their answers."""
    lone.script |= {f"prompt {n}": slowly for n in range(20)}
    refs = [lone.create([f"prompt {n}" for n in range(20)], org=org) for org in ("acme", "rival")]
    await serving(lone)
    began = lone.tide.now
    lone.weather.script("chunks.commit", lose_answer, ok, lose_answer)
    await lone.until(lambda: all(batch.finalizing_at for batch in map(lone.batch, refs)))
    ended = lone.tide.now
    await lone.until_ended(*refs)
    spent = [(await assert_exactly_once(lone, ref)).gpu_ms / 1000 for ref in refs]
    assert all(seconds > 1 for seconds in spent)
    assert sum(spent) <= ended - began + 0.1
    assert 1 == len(lone.hands)
