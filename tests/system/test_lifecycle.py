"""Nothing is stuck, and nothing happens twice: the states of a batch, each of them repeated, raced by a cancel, killed, and broken."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from functions.tasks.messages import Message
from functions.tasks.sweep import EAGER
from shared.core.contracts import CONTRACTS
from shared.core.errors import Refused
from shared.core.ids import BatchRef
from shared.core.records import Batch, Counts, ShardState, Status
from shared.core.window import TICK
from shared.services.pipeline import ROUNDS
from tests.fakes import Fault, duplicate, fail, lose_answer, ok, then
from tests.system.aws import BOOT
from tests.system.engine import STARTING, brood, slowly
from tests.system.slow import Slow
from tests.system.tasks import TASKS
from tests.system.verdict import assert_exactly_once, assert_never_began, assert_undisturbed_by_zombies
from tests.system.weather import Step, before, broken, fair, killed, killed_after, throttle
from tests.system.world import IDLE, World

DAY = 86400.0
START_OF_WORK = BOOT + STARTING + 2
TRIES = 3
"""How often a state is tried that fails for a reason of its own."""
STATES = ["Validate", "Admit", "Plan", "Run", "Reconcile", "Drain", "Close", "Finalize"]
BEFORE_THE_RUN = STATES[:3]
BEFORE_THE_FENCE = STATES[:5]
AFTER_THE_RUN = STATES[5:]


def prompts(number: int = 7) -> list[str]:
    """Give so many prompts."""
    return [f"prompt {n}" for n in range(number)]


async def waiting(world: World, number: int = 7, window: str = "24h") -> BatchRef:
    """Create a batch and wait until its Run waits, before any worker has started."""
    ref = world.create(prompts(number), window=window)
    await world.until(lambda: world.batch(ref).token)
    return ref


def cancel(world: World, ref: BatchRef) -> None:
    """Cancel a batch, if that can still be done."""
    with suppress(Refused):
        world.cancel(ref)


@pytest.mark.parametrize("state", STATES)
async def test_a_cancel_at_any_step_of_a_state_is_honoured_or_comes_too_late(state: str) -> None:
    """Before each single call that the state makes: until the run is over the batch ends as cancelled, afterwards as it would have."""
    endings: list[Status] = []
    reached = True
    while reached:
        async with World() as world:
            ref = world.create(prompts())
            step = Step(world.weather, state, len(endings), before(partial(cancel, world, ref)))
            await world.until_ended(ref)
            endings.append((await assert_exactly_once(world, ref)).status)
            assert ({}, 1) == (world.executions.failed, world.executions.most)
            assert "Fail" not in world.executions.visited
            reached = step.reached
    cancelled = [Status.CANCELLED] * (len(endings) - 1)
    completed = [Status.COMPLETED] * (len(endings) - 1)
    if state in AFTER_THE_RUN:
        assert completed == endings[:-1]
    elif state == "Reconcile":
        assert Status.CANCELLED is endings[0]
    else:
        assert cancelled == endings[:-1]
    assert Status.COMPLETED is endings[-1]


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
async def test_every_contract_runs_to_its_end_and_is_cancelled(world: World, contract: str) -> None:
    """The states are the same for all; where a contract judges earlier, Validate has nothing to do."""
    done, cancelled = (world.create(prompts(), contract=contract) for _ in range(2))
    world.cancel(cancelled)
    await world.until_ended(done, cancelled)
    batch = await assert_exactly_once(world, done)
    assert (Status.COMPLETED, Counts(total=7, completed=7)) == (batch.status, batch.counts)
    batch = await assert_exactly_once(world, cancelled)
    assert (Status.CANCELLED, Counts(total=7)) == (batch.status, batch.counts)


async def test_a_cancel_wakes_a_batch_that_waits(world: World) -> None:
    """It does not wait for the tick, nor for a worker."""
    ref = await waiting(world)
    await asyncio.sleep(2)
    world.cancel(ref)
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=7) == batch.counts
    assert (batch.cancelled_at or 0) - (batch.cancelling_at or 0) < 5


async def test_a_cancel_of_a_bad_file_ends_as_cancelled(world: World) -> None:
    """The caller's word came first; the errors are there all the same."""
    ref = world.create(prompts(), model="nobody")
    world.cancel(ref)
    await world.until_ended(ref)
    assert Status.CANCELLED is (await assert_never_began(world, ref)).status


async def test_a_cancel_at_any_step_of_the_judgement_of_a_bad_file_is_honoured() -> None:
    """Before each single call of Validate; only a cancel that comes after all of them comes too late."""
    endings: list[Status] = []
    reached = True
    while reached:
        async with World() as world:
            ref = world.create(prompts(), model="nobody")
            step = Step(world.weather, "Validate", len(endings), before(partial(cancel, world, ref)))
            await world.until_ended(ref)
            endings.append((await assert_never_began(world, ref)).status)
            reached = step.reached
    assert [*[Status.CANCELLED] * (len(endings) - 1), Status.FAILED] == endings
    assert len(endings) > 3


async def test_a_file_with_errors_fails_the_batch_with_all_of_them(world: World) -> None:
    """Nothing of it is run."""
    ref = world.create(prompts(), model="nobody")
    await world.until_ended(ref)
    batch = await assert_never_began(world, ref)
    assert (Status.FAILED, 7) == (batch.status, batch.errors_total)
    assert [] == world.hands


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("fault", [killed, killed_after], ids=["before its effect", "after its effect"])
async def test_a_state_that_is_killed_at_any_step_is_run_again(state: str, fault: Fault) -> None:
    """At each single call that it makes; nobody can tell afterwards."""
    steps, reached = 0, True
    while reached:
        async with World() as world:
            ref = world.create(prompts())
            step = Step(world.weather, state, steps, fault)
            await world.until_ended(ref)
            batch = await assert_exactly_once(world, ref)
            assert (Status.COMPLETED, Counts(total=7, completed=7)) == (batch.status, batch.counts)
            assert ({}, 1) == (world.executions.failed, world.executions.most)
            assert "Fail" not in world.executions.visited
            steps, reached = steps + 1, step.reached
    assert steps > 1


async def test_every_state_may_be_delivered_twice(world: World) -> None:
    """The second time changes nothing."""
    world.weather.rule = lambda name: duplicate if name.startswith("task.") else ok
    ref = world.create(prompts())
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Counts(total=7, completed=7) == batch.counts
    assert 1 == len(world.executions.tasks)


@pytest.mark.parametrize("ending", ["completed", "cancelled", "expired", "rejected", "failed"])
async def test_a_late_invocation_of_any_state_after_the_end_changes_nothing(world: World, ending: str) -> None:
    """Zombies of every state come by, in any order; the batch, its files and the queue stay as they are."""
    if ending == "failed":
        world.weather.script("task.Reconcile", *[broken] * TRIES)
    ref = world.create(prompts(), model="nobody" if ending == "rejected" else "echo")
    if ending == "cancelled":
        world.cancel(ref)
    if ending == "expired":
        await world.until(lambda: world.batch(ref).token)
        world.tide.now += DAY
    await world.until_ended(ref)
    await assert_undisturbed_by_zombies(world, ref)


async def test_a_late_plan_of_a_batch_that_failed_unplanned_leaves_no_shards_to_work_at(world: World) -> None:
    """The zombie of the Plan that failed goes on after the batch has ended: nobody runs what it has cut."""
    refs: list[BatchRef] = []

    def meanwhile() -> None:
        world.services.pipeline.fail(refs[0])

    refs.append(world.create(prompts()))
    world.weather.script("shards.put", before(meanwhile))
    await world.until_ended(refs[0])
    await asyncio.sleep(TICK)
    await assert_never_began(world, refs[0])
    assert [] == world.hands


@pytest.mark.parametrize("state", BEFORE_THE_RUN)
async def test_an_error_before_the_batch_runs_fails_it_with_a_message(world: World, state: str) -> None:
    """There is nothing to deliver, and nobody works at what may have been planned already."""
    world.weather.script(f"task.{state}", *[broken] * TRIES)
    ref = world.create(prompts(12))
    await world.until_ended(ref)
    batch = await assert_never_began(world, ref)
    assert (Status.FAILED, "server_error") == (batch.status, batch.errors[0].code)
    assert {} == world.executions.failed


async def test_an_error_in_the_middle_of_plan_leaves_no_shards_to_work_at(world: World) -> None:
    """Workers of the revision may have seen the first shards; they are closed with the batch."""
    ref = world.create(prompts(12))
    world.weather.script(
        "batches.update", ok, ok, *[broken] * TRIES
    )  # Validate, Admit, and then Plan, with all shards written
    await world.until_ended(ref)
    await assert_never_began(world, ref)


@pytest.mark.parametrize("state", ["Run", "Reconcile"])
async def test_an_error_while_the_batch_runs_delivers_what_is_committed(world: World, state: str) -> None:
    """The other lines have `server_error` rows."""
    world.weather.script("task.Run", before(lambda: Slow(world, ref).commit([0, 2])))
    world.weather.script(f"task.{state}", *[broken] * TRIES)
    ref = world.create(prompts(10))
    await world.until(lambda: list(world.memory.chunks.of(ref)))
    world.executions.resume(world.batch(ref).token or "")
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert (Status.FAILED, Counts(total=10, completed=2)) == (batch.status, batch.counts)
    assert {} == world.executions.failed


@pytest.mark.parametrize("state", AFTER_THE_RUN)
async def test_an_error_after_the_run_costs_an_execution_and_not_the_batch(world: World, state: str) -> None:
    """The execution fails, and the next generation goes on where it stopped."""
    world.weather.script(f"task.{state}", *[broken] * 2 * TRIES)
    ref = world.create(prompts())
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert (Status.COMPLETED, Counts(total=7, completed=7)) == (batch.status, batch.counts)
    assert world.executions.failed
    assert 1 == world.executions.most


async def test_a_notification_that_fails_fails_nothing(world: World) -> None:
    """Whatever happens there, the batch has ended."""
    world.weather.script("task.Notify", *[broken] * TRIES)
    ref = world.create(prompts())
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert {} == world.executions.failed


@pytest.mark.parametrize("fault", [fail, lose_answer], ids=["before its effect", "after its effect"])
async def test_a_batch_whose_execution_could_not_be_started_is_revived_by_the_sweep(world: World, fault: Fault) -> None:
    """The create has succeeded all the same; and one that runs is left alone, however often the sweep comes by."""
    world.weather.script("workflow.start", fault)
    ref = world.create(prompts())
    await asyncio.sleep(10)
    for _ in range(3):
        world.sweep()
        await asyncio.sleep(2)
    await world.until_ended(ref)
    world.sweep()
    await assert_exactly_once(world, ref)
    assert (1, 1) == (world.executions.most, len(world.executions.tasks))


@pytest.mark.parametrize("after", [0, START_OF_WORK], ids=["from the start", "while it runs"])
@pytest.mark.parametrize("port", ["batches", "shards", "chunks", "blobs", "workers", "fleet", "workflow", "files"])
async def test_a_store_or_service_that_is_away_for_half_an_hour_fails_no_batch(
    world: World, port: str, after: float
) -> None:
    """It has a day: what cannot be done now is done later."""
    await assert_half_an_hour_is_waited_out(world, port, fail, after)


@pytest.mark.parametrize("port", ["batches", "blobs", "fleet", "workflow"])
async def test_a_store_or_service_that_throttles_for_half_an_hour_fails_no_batch(world: World, port: str) -> None:
    """To be turned away is to be told to come again, as often as it takes."""
    await assert_half_an_hour_is_waited_out(world, port, throttle, after=0)


async def assert_half_an_hour_is_waited_out(world: World, port: str, fault: Fault, after: float) -> None:
    """Let all calls of a port meet the fault, from some seconds after the create on, and assert that the batch completes all the same."""
    world.script |= dict.fromkeys(prompts(40), slowly)
    ref = world.create(prompts(40))
    await asyncio.sleep(after)
    world.weather.rule = lambda name: fault if name.startswith(f"{port}.") else ok
    await asyncio.sleep(1800)
    world.weather.rule = fair
    world.sweep()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert (Status.COMPLETED, Counts(total=40, completed=40)) == (batch.status, batch.counts)
    assert "Fail" not in world.executions.visited


async def test_a_batch_that_cannot_be_revived_now_keeps_the_sweep_from_no_other(world: World) -> None:
    """It comes by for all of them."""
    world.weather.script("workflow.start", *[fail] * 3)  # both creates, and the sweep at the first
    refs = [world.create(prompts(3)) for _ in range(2)]
    world.sweep()
    await asyncio.sleep(30)
    assert [f"{refs[1].id}-1"] == list(world.executions.tasks)
    await world.until_ended(*refs)  # the sweep itself is tried again
    for ref in refs:
        await assert_exactly_once(world, ref)


async def test_a_batch_whose_executions_all_fail_is_left_to_the_schedule(world: World) -> None:
    """A mistake in the code does not start one execution after the other, for ever; when it is mended, the batch goes on."""
    world.weather.rule = lambda name: broken if name == "task.Close" else ok
    ref = world.create(prompts())
    await asyncio.sleep(2 * 3600)
    assert EAGER == len(world.executions.tasks)
    world.sweep()
    await asyncio.sleep(600)
    assert EAGER + 1 == len(world.executions.tasks)
    world.weather.rule = fair
    world.sweep()
    await world.until_ended(ref)
    assert Status.COMPLETED is (await assert_exactly_once(world, ref)).status


async def test_an_event_of_a_failed_execution_that_arrives_twice_starts_one(world: World) -> None:
    """The second finds the next generation at work."""
    world.weather.script("task.Close", *[broken] * 2 * TRIES)
    world.weather.rule = lambda name: duplicate if name == "batches.update" else ok
    ref = world.create(prompts())
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert 1 == world.executions.most


async def test_a_deadline_that_passed_before_the_batch_began_expires_all_of_its_lines(world: World) -> None:
    """Nobody drove it for a day; it ends as expired, and nothing is run."""
    world.weather.script("workflow.start", fail)
    ref = world.create(prompts())
    world.tide.now += DAY
    world.sweep()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert (Status.EXPIRED, Counts(total=7)) == (batch.status, batch.counts)
    assert batch.in_progress_at is None
    assert [] == world.hands


async def test_a_deadline_ends_the_run_and_delivers_what_is_committed(world: World) -> None:
    """The batch ends within seconds of its deadline, whatever workers do."""
    ref = await waiting(world)
    Slow(world, ref).commit([1, 3])
    world.jobs.kill("job-1")
    world.jobs.kill("job-2")
    world.weather.rule = lambda name: fail if name == "fleet.submit" else ok  # no Spot capacity for a day
    world.tide.now += DAY - 400
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert (Status.EXPIRED, Counts(total=7, completed=2)) == (batch.status, batch.counts)
    assert (batch.expired_at or 0) - batch.expires_at < 60


async def test_a_long_run_is_handed_over_to_the_next_execution_once(world: World) -> None:
    """Before its history is full; also when the handing over is repeated, or its answer is lost."""
    world.weather.rule = lambda name: fail if name == "fleet.submit" else ok
    world.weather.rule = lambda name: duplicate if name == "task.Reconcile" else ok
    ref = await waiting(world, window="72h")
    world.script |= {}
    world.jobs.kill("job-1")
    world.jobs.kill("job-2")
    await handed_over(world, ref)
    world.weather.rule = lambda _: ok
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert Status.COMPLETED is batch.status
    assert [f"{ref.id}-1", f"{ref.id}-2"] == list(world.executions.tasks)


async def handed_over(world: World, ref: BatchRef) -> None:
    """Wake the run again and again until its first execution has ended."""
    first = world.executions.tasks[f"{ref.id}-1"]
    for _ in range(ROUNDS + 2):
        if first.done():
            return
        world.executions.resume(world.batch(ref).token or "")
        await asyncio.sleep(0.01)
    await world.until(first.done)


async def test_a_handing_over_whose_start_was_lost_is_made_up_for(world: World) -> None:
    """The record says which generation is next; whoever repeats the step starts that one."""
    ref = await waiting(world)
    world.weather.script("workflow.start", fail)
    await handed_over(world, ref)
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert [f"{ref.id}-1", f"{ref.id}-2"] == list(world.executions.tasks)


async def test_a_shard_that_arrives_while_a_worker_leaves_is_seen_by_it(world: World) -> None:
    """Whoever put it still counted the worker, and asked for no other: the worker looks once more before it goes."""
    ref = world.create(prompts(3))
    await world.until_ended(ref)
    (hand,) = world.hands
    late: list[BatchRef] = []

    def arrive() -> None:
        world.weather.script("workflow.start", fail)  # its execution comes later: here its first states run all at once
        late.append(world.create(prompts(2)))
        for state in ("Validate", "Admit", "Plan", "Run"):
            TASKS[state](world.services, Message(str(late[0]), token="token"))

    await asyncio.sleep(IDLE - 1)
    world.weather.script("workers.update", before(arrive))  # just before it is marked as closing
    await world.until(lambda: late)
    await asyncio.sleep(5)
    world.sweep()
    await world.until_ended(late[0])
    await assert_exactly_once(world, late[0])
    assert 1 == len(world.jobs.tasks)
    assert hand.engine.seen[-2:] == ["prompt 0", "prompt 1"]


async def test_a_shard_that_arrives_just_after_a_worker_was_marked_as_leaving_is_worked_at(world: World) -> None:
    """Whoever put it did not count the worker: somebody comes, be it this one or another."""
    first = world.create(prompts(3))
    await world.until_ended(first)
    late: list[BatchRef] = []
    await asyncio.sleep(IDLE - 1)
    world.weather.script("workers.update", then(lambda: late.append(world.create(prompts(2)))))
    await world.until(lambda: late)
    await world.until_ended(late[0])
    batch: Batch = await assert_exactly_once(world, late[0])
    assert (batch.completed_at or 0) - batch.created_at < TICK


async def test_a_lost_worker_is_replaced_at_once_and_its_leases_taken_back(world: World) -> None:
    """The end of its job says so; nobody waits for the lease to run out or for a tick."""
    world.script["prompt 4"] = brood
    ref = world.create(prompts(5))
    await world.until(lambda: world.hands and world.hands[0].engine.seen)
    world.jobs.kill(world.hands[0].job)
    world.script.clear()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert (batch.completed_at or 0) - batch.created_at < 50
    assert 2 == len(world.hands)


async def test_a_lost_worker_that_nobody_heard_of_is_found_by_the_tick(world: World) -> None:
    """The event of its end is lost as well."""
    world.script["prompt 4"] = brood
    ref = world.create(prompts(5))
    await world.until(lambda: world.hands and world.hands[0].engine.seen)
    world.weather.script("workers.update", *[fail] * 3)  # every delivery of the event
    world.jobs.kill(world.hands[0].job)
    world.script.clear()
    await world.until_ended(ref)
    batch = await assert_exactly_once(world, ref)
    assert TICK < (batch.completed_at or 0) - batch.created_at < TICK + 60


async def test_a_lease_that_ran_out_is_taken_back_by_the_tick_where_no_worker_can_be_had(world: World) -> None:
    """The shard is ready for whoever comes first."""
    world.weather.rule = lambda name: fail if name == "fleet.submit" else ok
    ref = world.create(prompts(5))
    await world.until(lambda: world.memory.shards.of(ref))
    Slow(world, ref)
    await asyncio.sleep(3 * TICK)
    assert [ShardState.READY] == [shard.state for shard in world.memory.shards.of(ref)]
    world.weather.rule = fair
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)


async def test_the_answer_of_a_submission_that_is_lost_brings_no_worker_too_many(world: World) -> None:
    """The worker enters itself when it starts, under the name that it was asked for by."""
    world.weather.script("fleet.submit", lose_answer)
    ref = world.create(prompts(5))
    await world.until_ended(ref)
    await assert_exactly_once(world, ref)
    assert 1 == len(world.jobs.tasks)
