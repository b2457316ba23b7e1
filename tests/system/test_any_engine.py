r"""Rows and an engine that does anything: each row gets its one answer, and none is given up for its neighbours.

SLACKWATER_ENGINES=2000 .venv/bin/python -m pytest tests/system/test_any_engine.py    more of them
"""

import asyncio
import os
from random import Random

import pytest

from gpu_job.row import Finished
from gpu_job.upstream import Reply
from tests import dispatching
from tests.system.engine import (
    Act,
    ScriptedEngine,
    crash,
    echo,
    garbage,
    hang,
    lingering,
    overloaded,
    refuse,
    sicken,
    slowly,
    stall,
)
from tests.system.test_dispatch import STALL, row

SEEDS = range(int(os.environ.get("SLACKWATER_ENGINES", "40")))
HOUR = 3600.0
TROUBLE: tuple[Act, ...] = (crash, garbage, hang, refuse, sicken, stall)


async def fail(_engine: ScriptedEngine, _prompt: str) -> Reply:
    """Answer 500, and be well."""
    return Reply(500, b"{}")


def at_first(times: int, act: Act) -> Act:
    """Do this so many times, and answer then."""
    left = times

    async def either(engine: ScriptedEngine, prompt: str) -> Reply:
        nonlocal left
        left -= 1
        return await (act if left >= 0 else echo)(engine, prompt)

    return either


def passing(draw: Random) -> Act:
    """Give an act that has an answer in the end: before the watchdog takes it for none."""
    first = (at_first(2, fail), at_first(2, garbage), at_first(draw.randint(1, 5), overloaded))
    return draw.choice((slowly, lingering(draw.uniform(0, 0.8 * STALL)), *first))


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_row_has_its_answer_and_only_trouble_is_given_up(seed: int) -> None:
    """Some rows are told to go meanwhile; the engine does not start now and then, and dies by itself once."""
    draw = Random(seed)
    most, share = draw.choice((1, 2, 3, 8, 20, 64)), draw.choice((0, 0.02, 0.1))
    prompts = [f"prompt {number}" for number in range(draw.choice((1, 5, 40, 150)))]
    engine = ScriptedEngine({prompt: passing(draw) for prompt in prompts if draw.random() < 0.3})
    trouble = {prompt: draw.choice(TROUBLE) for prompt in prompts if draw.random() < share}
    engine.script |= trouble
    dispatcher = dispatching.dispatcher(engine, engine, row_seconds=HOUR, stall_seconds=STALL, max_in_flight=most)
    slots = asyncio.Semaphore(most)

    async def answer(prompt: str) -> Finished:
        async with slots:
            return await dispatcher.answer(row(prompt))

    async def mishaps() -> None:
        dies = draw.randint(0, 20)
        for number in range(100):
            await asyncio.sleep(draw.uniform(1, STALL))
            engine.broken = int(not engine.exited() and draw.random() < 0.25)
            if number == dies:
                engine.die()
            if draw.random() < 0.3:
                draw.choice(list(answers.values())).cancel()

    keeper = asyncio.create_task(dispatcher.keep_alive())
    answers = {prompt: asyncio.create_task(answer(prompt)) for prompt in prompts}
    disturbing = asyncio.create_task(mishaps())
    async with asyncio.timeout(HOUR * (len(prompts) + 10 * len(trouble) + 10)):
        await asyncio.wait(answers.values())
    assert not keeper.done()
    for task in (keeper, disturbing):
        task.cancel()
    await asyncio.gather(keeper, disturbing, return_exceptions=True)
    done = {prompt: task.result().ok for prompt, task in answers.items() if not task.cancelled()}
    assert {prompt: prompt not in trouble for prompt in done} == done
    assert [] == engine.inside
