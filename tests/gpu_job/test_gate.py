"""The gate: together or alone, and nobody who was taken out of it leaves it locked."""

import asyncio

from gpu_job.gate import Gate

CROWD = 20


async def steps(number: int) -> None:
    """Let everybody else go on, so many times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_rows_are_inside_together_or_one_is_alone() -> None:
    """Who wants to be alone waits for those inside, and goes before those who come later."""
    gate, order = Gate(), []
    leave = asyncio.Event()

    async def together(name: str) -> None:
        async with gate.together():
            order.append(name)
            await leave.wait()

    async def alone(name: str) -> None:
        async with gate.alone():
            order.append(name)
            await steps(5)
            order.append(f"{name} out")

    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(together(name))
        await steps(3)
        group.create_task(alone("x"))
        await steps(3)
        group.create_task(together("c"))
        group.create_task(alone("y"))
        await steps(10)
        assert ["a", "b"] == order
        leave.set()
    assert ["a", "b", "x", "x out", "y", "y out", "c"] == order


async def test_whoever_is_cancelled_however_often_leaves_the_gate_as_it_was() -> None:
    """A shard may be stopped and lost at once: its rows are then told twice to go, inside the gate or before it."""
    for began in range(1, CROWD):
        gate, leave = Gate(), asyncio.Event()

        async def alone(gate: Gate = gate, leave: asyncio.Event = leave) -> None:
            async with gate.alone():
                await leave.wait()

        async def together(gate: Gate = gate) -> None:
            async with gate.together():
                await asyncio.Event().wait()

        suspect = asyncio.create_task(alone())
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
        await asyncio.wait([suspect, *crowd])
        async with asyncio.timeout(5), gate.alone():
            pass
