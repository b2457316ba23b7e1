"""Rows and an engine that comes and goes, without a worker around them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec
import pytest

from gpu_job.dispatch import FAILURES, PAUSES, Dispatcher
from gpu_job.engine import EngineFailed
from gpu_job.keeper import BARREN, START_PAUSE
from gpu_job.row import Row, prepare
from gpu_job.upstream import EngineTimeout, Reply
from shared.core import request_line
from shared.core.models import Model
from shared.core.plan import PlanLine, ShardPlan
from shared.core.request_line import RequestLine
from tests import dispatching
from tests.system.engine import (
    STARTING,
    RemoteEngine,
    ScriptedEngine,
    after,
    brood,
    crash,
    echo,
    hang,
    lingering,
    overloaded,
    refuse,
    sicken,
    slowly,
    stall,
)

URL = "/v1/chat/completions"
MODEL = Model(id="echo", revision="echo@1", source="", engine="echo", endpoints=(URL,), context=99, max_output=9)
ADAPTER = msgspec.structs.replace(MODEL, id="ft:echo:a", revision="a@1", source="/a", base="echo", rank=8)
SECONDS = 60.0
STALL = 300.0


def row(prompt: str, model: str = "echo") -> Row:
    """Give a row that asks this."""
    body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
    raw = msgspec.json.encode({"custom_id": prompt, "method": "POST", "url": URL, "body": body})
    request = request_line.parse(raw, 1)
    assert isinstance(request, RequestLine)
    plan = ShardPlan("batch_1", "acme", "openai", "", URL, [PlanLine(1, 0, len(raw), prompt)])
    return prepare(plan, 0, request, MODEL)


class Mute(ScriptedEngine):
    """An engine that has no metrics."""

    async def metrics(self) -> dict[str, float]:
        """As `Upstream.metrics`."""
        return {}


class Mumbling(ScriptedEngine):
    """An engine that tells its metrics every other time."""

    silent = False

    async def metrics(self) -> dict[str, float]:
        """As `Upstream.metrics`."""
        self.silent = not self.silent
        if self.silent:
            raise EngineTimeout("not in time")
        return await super().metrics()


@asynccontextmanager
async def kept_alive(
    engine: ScriptedEngine, row_seconds: float = SECONDS, adapters: Mapping[str, Model] | None = None
) -> AsyncIterator[tuple[Dispatcher, "asyncio.Task[None]"]]:
    """Give a dispatcher whose engine is ready, and the task that keeps it so."""
    dispatcher = dispatching.dispatcher(engine, engine, row_seconds=row_seconds, stall_seconds=STALL, adapters=adapters)
    keeper = asyncio.create_task(dispatcher.keep_alive())
    await dispatcher.ready()
    yield dispatcher, keeper
    keeper.cancel()
    await asyncio.gather(keeper, return_exceptions=True)


async def test_no_row_is_sent_while_nobody_starts_the_engine_that_died() -> None:
    """A worker that is about to end starts no engine any more: its rows wait, and do not knock at a closed door all the time."""
    engine = ScriptedEngine({})
    async with kept_alive(engine) as (dispatcher, keeper):
        keeper.cancel()
        engine.die()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await dispatcher.answer(row("hello"))
    assert [] == engine.seen


async def test_an_engine_that_somebody_else_runs_takes_rows_again_when_it_is_well_again() -> None:
    """It cannot be restarted; who waited in vain is tried once more."""
    engine = RemoteEngine({"hello": hang})
    async with kept_alive(engine) as (dispatcher, _):
        answer = asyncio.create_task(dispatcher.answer(row("hello")))
        await asyncio.sleep(SECONDS - 1)
        engine.script["hello"] = echo
        await asyncio.sleep(2)
        engine.well = True
        finished = await answer
    assert finished.ok
    assert ["hello", "hello"] == engine.seen


async def test_rows_that_fail_wait_for_an_engine_that_somebody_else_runs_to_be_well_again() -> None:
    """Behind a balancer it takes connections though it is not there: no row is given up for the minutes in which it is started again."""
    engine = RemoteEngine({})
    async with kept_alive(engine) as (dispatcher, _):
        engine.core.set_result(None)
        answers = [asyncio.create_task(dispatcher.answer(row(f"prompt {n}"))) for n in range(100)]
        await asyncio.sleep(600)
        engine.core = asyncio.Future()
        finished = await asyncio.gather(*answers)
    assert all(one.ok for one in finished)


async def test_rows_wait_for_an_engine_that_somebody_else_runs_to_come_back() -> None:
    """It takes no connection for ten minutes: they were never sent, so nothing is known against them."""
    engine = RemoteEngine({})
    async with kept_alive(engine) as (dispatcher, _):
        engine.away = True
        answers = [asyncio.create_task(dispatcher.answer(row(f"prompt {n}"))) for n in range(5)]
        await asyncio.sleep(600)
        engine.away = False
        finished = await asyncio.gather(*answers)
    assert all(one.ok for one in finished)


async def test_an_engine_of_ours_that_takes_no_connection_any_more_is_restarted() -> None:
    """Its process runs, but nobody gets in: after a while it is ended, and no row is blamed."""
    engine = ScriptedEngine({})
    async with kept_alive(engine) as (dispatcher, _):
        engine.away = True
        finished = await asyncio.gather(*(dispatcher.answer(row(f"prompt {n}")) for n in range(5)))
    assert all(one.ok for one in finished)
    assert 2 == engine.generation


async def test_rows_that_waited_in_vain_for_an_unwell_engine_are_not_given_up_for_its_second_death() -> None:
    """They run again in companies; who had to wait beside the one that hangs the engine runs alone then."""
    engine = ScriptedEngine({"poison": hang})
    async with kept_alive(engine) as (dispatcher, _):
        rows = [row("poison"), *(row(f"prompt {n}") for n in range(20))]
        finished = await asyncio.gather(*map(dispatcher.answer, rows))
    assert [False] + 20 * [True] == [one.ok for one in finished]


async def test_a_row_is_not_given_up_for_an_engine_that_dies_by_itself_once_it_is_alone() -> None:
    """It was beside one that kills engines, twice; now somebody else ends the engine under it."""
    tries: list[str] = []

    async def unlucky(engine: ScriptedEngine, prompt: str) -> Reply:
        tries.append(prompt)
        return await (crash if len(tries) == 3 else slowly)(engine, prompt)

    engine = ScriptedEngine({"poison": crash, "unlucky": unlucky})
    async with kept_alive(engine) as (dispatcher, _):
        finished = await asyncio.gather(*map(dispatcher.answer, [row("poison"), row("unlucky")]))
    assert [False, True] == [one.ok for one in finished]


async def test_an_engine_is_not_ended_for_what_was_found_of_the_one_before() -> None:
    """Health checks of one that hangs take long: a row hears of the last one when another row has had the engine ended, and the next one is up."""

    class Late(ScriptedEngine):
        async def alive(self) -> bool:
            said = await super().alive()
            await asyncio.sleep(2 * STARTING)
            return said

    engine = Late({"poison": hang})
    async with kept_alive(engine) as (dispatcher, _):
        poison = asyncio.create_task(dispatcher.answer(row("poison")))
        await asyncio.sleep(1.2 * STARTING)
        assert (await dispatcher.answer(row("hello"))).ok
        assert not (await poison).ok
    assert 4 == engine.generation


async def test_an_engine_whose_core_is_dead_is_restarted_though_its_server_runs_on() -> None:
    """It fails whatever comes, and would do so for every line that there is: they are no more to blame than those inside of one that ends."""
    engine = ScriptedEngine({"poison": sicken})
    async with kept_alive(engine) as (dispatcher, _):
        rows = [row("poison"), *(row(f"prompt {n}") for n in range(200))]
        finished = await asyncio.gather(*map(dispatcher.answer, rows))
    assert [False] + 200 * [True] == [one.ok for one in finished]
    assert 5 == engine.generation


async def test_an_engine_with_rows_inside_that_computes_nothing_is_restarted() -> None:
    """It says that it is well, and rows might take hours: only what it has computed tells."""
    engine = ScriptedEngine({"poison": stall})
    async with kept_alive(engine, row_seconds=86400) as (dispatcher, _):
        began = asyncio.get_running_loop().time()
        rows = [row("poison"), *(row(f"prompt {n}") for n in range(20))]
        finished = await asyncio.gather(*map(dispatcher.answer, rows))
        assert asyncio.get_running_loop().time() - began < 5 * STALL
    assert [False] + 20 * [True] == [one.ok for one in finished]
    assert 5 == engine.generation


async def test_an_engine_that_does_not_tell_its_metrics_any_more_is_restarted() -> None:
    """It takes rows and answers nothing at all."""
    engine = ScriptedEngine({"poison": hang})
    async with kept_alive(engine, row_seconds=86400) as (dispatcher, _):
        assert not (await dispatcher.answer(row("poison"))).ok
        assert asyncio.get_running_loop().time() < 5 * STALL
    assert 4 == engine.generation


async def test_an_engine_that_computes_nothing_and_tells_its_metrics_now_and_then_is_restarted() -> None:
    """What it told before it was silent is what it tells now."""
    engine = Mumbling({"poison": stall})
    async with kept_alive(engine, row_seconds=86400) as (dispatcher, _):
        assert not (await dispatcher.answer(row("poison"))).ok
        assert asyncio.get_running_loop().time() < 5 * STALL


async def test_a_row_that_is_forgotten_leaves_others_waiting_for_its_adapter() -> None:
    """It was the first to ask for it."""
    engine, loaded = ScriptedEngine({}), asyncio.Event()
    engine.loading = loaded.wait
    async with kept_alive(engine, adapters={ADAPTER.id: ADAPTER}) as (dispatcher, _):
        first, second = (asyncio.create_task(dispatcher.answer(row("hello", ADAPTER.id))) for _ in range(2))
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.sleep(1)
        loaded.set()
        assert (await second).ok
    assert first.cancelled()


async def test_an_adapter_is_not_blamed_for_the_engine_that_cannot_load_it_as_its_core_is_dead() -> None:
    """The server answers as it does where the adapter is damaged."""
    engine = ScriptedEngine({"poison": sicken})
    async with kept_alive(engine, adapters={ADAPTER.id: ADAPTER}) as (dispatcher, _):
        poison = asyncio.create_task(dispatcher.answer(row("poison")))
        await asyncio.sleep(0.01)
        assert engine.core.done()
        assert (await dispatcher.answer(row("hello", ADAPTER.id))).ok
        assert not (await poison).ok


async def test_an_engine_that_is_not_well_for_a_moment_is_not_ended() -> None:
    """It fails a row, and misses a health check at that."""
    engine = ScriptedEngine({"hello": sicken})
    async with kept_alive(engine) as (dispatcher, _):
        answer = asyncio.create_task(dispatcher.answer(row("hello")))
        await asyncio.sleep(1)
        engine.core, engine.script["hello"] = asyncio.Future(), echo
        assert (await answer).ok
    assert 1 == engine.generation


async def test_an_engine_that_gets_on_however_slowly_is_left_alone() -> None:
    """One row broods for half a day beside others that come and go; and afterwards nothing is inside for as long."""
    gate = asyncio.Event()
    engine = ScriptedEngine({"long": after(gate)})
    async with kept_alive(engine, row_seconds=86400) as (dispatcher, _):
        long = asyncio.create_task(dispatcher.answer(row("long")))
        for number in range(200):
            assert (await dispatcher.answer(row(f"prompt {number}"))).ok
            await asyncio.sleep(0.8 * STALL)
        gate.set()
        assert (await long).ok
        await asyncio.sleep(43200)
    assert 1 == engine.generation


async def test_an_engine_that_refuses_row_after_row_is_left_alone() -> None:
    """It computes nothing: all lines of a batch may be too long for it, and each takes its time to be found so."""

    async def refuse_later(engine: ScriptedEngine, prompt: str) -> Reply:
        await asyncio.sleep(20)
        return await refuse(engine, prompt)

    engine = ScriptedEngine(dict.fromkeys("abcd", refuse_later))
    async with kept_alive(engine) as (dispatcher, _):
        for _ in range(30):
            await asyncio.gather(*(dispatcher.answer(row(prompt)) for prompt in "abcd"))
    assert 1 == engine.generation


async def test_an_engine_that_hangs_and_turns_others_away_is_restarted() -> None:
    """To say that there is no room is no way of getting on."""
    engine = ScriptedEngine({"poison": brood, "hello": overloaded})
    async with kept_alive(engine, row_seconds=86400) as (dispatcher, _):
        poison = asyncio.create_task(dispatcher.answer(row("poison")))
        while not poison.done():
            await dispatcher.answer(row("hello"))
        assert not poison.result().ok
    assert 5 == engine.generation


async def test_an_engine_without_metrics_has_the_time_of_its_rows() -> None:
    """Whether it gets on is not known."""
    engine = Mute({"poison": stall})
    async with kept_alive(engine, row_seconds=10 * STALL) as (dispatcher, _):
        assert not (await dispatcher.answer(row("poison"))).ok
    assert 1 == engine.generation


async def test_an_engine_that_has_too_much_to_do_is_waited_for() -> None:
    """One that somebody else runs may limit how much it takes a minute."""
    engine = ScriptedEngine({"hello": overloaded})
    async with kept_alive(engine) as (dispatcher, _):
        answer = asyncio.create_task(dispatcher.answer(row("hello")))
        await asyncio.sleep(40)
        engine.script["hello"] = echo
        assert (await answer).ok


class Limited(RemoteEngine):
    """An engine that takes eight requests at a time, and turns others away."""

    taken = 0

    async def post(self, url_path: str, body: bytes, *, timeout: float) -> Reply:  # noqa: ASYNC109 - the port's own
        """As `Upstream.post`."""
        if self.taken == 8:
            await asyncio.sleep(0.01)
            return await overloaded(self, "")
        self.taken += 1
        try:
            return await super().post(url_path, body, timeout=timeout)
        finally:
            self.taken -= 1


@pytest.mark.parametrize("seconds", [1, 5, 30])
async def test_no_row_is_given_up_while_a_busy_engine_answers_others(seconds: float) -> None:
    """It takes an eighth of what is sent to it, for as long as there are rows."""
    engine = Limited({f"prompt {n}": lingering(seconds) for n in range(300)})
    slots = asyncio.Semaphore(64)
    async with kept_alive(engine, row_seconds=3600) as (dispatcher, _):

        async def answer(number: int) -> bool:
            async with slots:
                return (await dispatcher.answer(row(f"prompt {number}"))).ok

        assert all(await asyncio.gather(*map(answer, range(300))))
        assert asyncio.get_running_loop().time() < 1.5 * (seconds + PAUSES[FAILURES - 1]) * 300 / 8


async def test_a_row_that_is_turned_away_for_as_long_as_a_row_may_take_is_given_up() -> None:
    """Though others are answered: there are engines that have never room for some."""
    engine = RemoteEngine({"too large": overloaded})
    async with kept_alive(engine, row_seconds=600) as (dispatcher, _):
        turned_away = asyncio.create_task(dispatcher.answer(row("too large")))
        while not turned_away.done():
            assert (await dispatcher.answer(row("hello"))).ok
            await asyncio.sleep(1)
        assert not turned_away.result().ok
        assert 600 < asyncio.get_running_loop().time() < 700


async def test_rows_that_were_in_a_dead_engine_do_not_go_one_by_one() -> None:
    """Each takes a second: alone they would take a minute after every death."""
    engine = ScriptedEngine({f"prompt {n}": slowly for n in range(64)})
    async with kept_alive(engine) as (dispatcher, _):
        rows = [asyncio.create_task(dispatcher.answer(row(f"prompt {n}"))) for n in range(64)]
        await asyncio.sleep(0.5)
        engine.die()
        await asyncio.sleep(STARTING + 10)
        assert all(task.done() for task in rows)
        assert all(task.result().ok for task in rows)


async def test_an_engine_that_does_not_start_is_tried_three_times() -> None:
    """With a rest between two; and its own error says why."""
    engine = ScriptedEngine({})
    engine.broken = 3
    began = asyncio.get_running_loop().time()
    with pytest.raises(EngineFailed, match="the test wants it so"):
        await dispatching.dispatcher(engine, engine, row_seconds=SECONDS).keep_alive()
    assert 0 == engine.broken
    assert 3 * STARTING + 2 * START_PAUSE == asyncio.get_running_loop().time() - began


async def test_an_engine_that_served_may_die_more_often_than_an_idle_one() -> None:
    """A death with rows inside is theirs; the count of blameless deaths begins anew."""
    engine = ScriptedEngine({})
    async with kept_alive(engine) as (dispatcher, keeper):
        for _ in range(5):
            engine.die()
            await asyncio.sleep(0)
            await asyncio.sleep(SECONDS)
            assert (await dispatcher.answer(row("hello"))).ok
        assert not keeper.done()
    assert 6 == engine.generation


class ShortLived(ScriptedEngine):
    """An engine that dies as soon as it is ready."""

    async def start(self) -> None:
        """As `Engine.start`."""
        await super().start()
        self.die()


async def test_an_engine_that_dies_before_anything_reaches_it_is_not_started_for_ever() -> None:
    """No row is blamed, since none was sent; and nobody waits for it without end."""
    engine = ShortLived({})
    async with kept_alive(engine) as (dispatcher, keeper):
        answers = [asyncio.create_task(dispatcher.answer(row(f"prompt {n}"))) for n in range(5)]
        with pytest.raises(EngineFailed):
            await keeper
        assert not any(answer.done() for answer in answers)
        for answer in answers:
            answer.cancel()
    assert [] == engine.seen
    assert BARREN >= engine.generation


async def test_on_a_host_where_every_row_kills_the_engine_few_are_given_up() -> None:
    """Whether it is the rows' fault or the host's is not known; another host will tell of the rest."""
    engine = ScriptedEngine({f"prompt {n}": crash for n in range(100)})
    async with kept_alive(engine) as (dispatcher, keeper):
        answers = [asyncio.create_task(dispatcher.answer(row(f"prompt {n}"))) for n in range(100)]
        with pytest.raises(EngineFailed, match="before it answered"):
            await keeper
        assert 0 < sum(answer.done() for answer in answers) <= BARREN // 2
        for answer in answers:
            answer.cancel()
    assert BARREN == engine.generation
