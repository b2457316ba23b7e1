"""The gate: all together, in companies, or alone; and nobody who was taken out of it leaves it locked."""

import asyncio

from gpu_job.gate import Gate

CROWD = 20
MOST = 9
"""Three of a company."""


async def steps(number: int) -> None:
    """Let everybody else go on, so many times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_the_more_deaths_the_fewer_are_inside_together() -> None:
    """Who wants less company waits for those inside, and goes before those who come later."""
    gate, order, leave = Gate(MOST), [], asyncio.Event()

    async def go(name: str, deaths: int, event: asyncio.Event | None = None) -> None:
        async with gate.inside(deaths):
            order.append(name)
            await (event.wait() if event else steps(5))
            order.append(f"{name} out")

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(go(name, 0, leave))
        await steps(3)
        for name in ("p", "q", "r", "s"):
            group.create_task(go(name, 1))
        for name in ("x", "y"):
            group.create_task(go(name, 2))
        await steps(3)
        group.create_task(go("c", 0))
        await steps(10)
        assert ["a", "b"] == order
        leave.set()
    alone, company = ["x", "x out", "y", "y out"], ["p", "q", "r", "p out"]
    assert ["a", "b", "a out", "b out", *alone, *company] == order[:12]
    assert {"s", "q out", "r out", "s out"} == {*order[12:16]}
    assert ["c", "c out"] == order[16:]


async def test_whoever_is_cancelled_however_often_leaves_the_gate_as_it_was() -> None:
    """A shard may be stopped and lost at once: its rows are then told twice to go, inside the gate or before it."""
    for began in range(1, CROWD):
        gate, leave = Gate(MOST), asyncio.Event()

        async def suspected(deaths: int, gate: Gate = gate, leave: asyncio.Event = leave) -> None:
            async with gate.inside(deaths):
                await leave.wait()

        async def together(gate: Gate = gate) -> None:
            async with gate.inside(0):
                await asyncio.Event().wait()

        suspects = [asyncio.create_task(suspected(deaths)) for deaths in (1, 2)]
        await steps(3)
        crowd = [asyncio.create_task(together()) for _ in range(CROWD)]
        await steps(3)
        leave.set()
        await steps(began)  # some are inside by now
        for _ in range(3):
            for task in crowd[::2]:
                task.cancel()
            await steps(1)
        for task in crowd:
            task.cancel()
        await asyncio.wait([*suspects, *crowd])
        async with asyncio.timeout(5), gate.inside(2):
            pass


async def test_who_waited_behind_one_that_is_told_to_go_enters_at_once() -> None:
    """Beside those inside, however long these take."""
    gate, leave, entered = Gate(MOST), asyncio.Event(), asyncio.Event()

    async def stay(deaths: int, event: asyncio.Event) -> None:
        async with gate.inside(deaths):
            event.set()
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(stay(0, asyncio.Event()))
        await steps(3)
        suspected = group.create_task(stay(1, asyncio.Event()))
        await steps(3)
        group.create_task(stay(0, entered))
        await steps(3)
        assert not entered.is_set()
        suspected.cancel()
        async with asyncio.timeout(5):
            await entered.wait()
        leave.set()
