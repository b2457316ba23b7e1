"""Batches of sectioned files, through the whole service: the engine gets whole requests, and each has its row."""

from collections import Counter
from typing import Any

import msgspec

from shared.core.contracts import CONTRACTS
from shared.core.ids import BatchRef, Space
from shared.core.records import Counts, Status
from shared.core.sectioned import expand
from tests.core.lines import CHAT, FORMAT, message, part, section
from tests.fakes import fail, ok
from tests.system.engine import crash, refuse
from tests.system.verdict import assert_exactly_once
from tests.system.world import World

SECTIONS = [
    section(name, CHAT, message(f"You are station {name}.", "system"), message("Hello."), temperature=0.5, max_tokens=8)
    for name in "stu"
]
REQUESTS = [
    part(f"c{n}", "stu"[n % 3], messages=[message(f"prompt {n}")], **({"temperature": n} if n % 2 else {}))
    for n in range(30)
]
PLAIN = [expand(next(of for of in SECTIONS if of["section"] == line["section"]), line) for line in REQUESTS]
FILES: dict[str, list[dict[str, Any]]] = {
    "all sections first": [FORMAT, *SECTIONS, *REQUESTS],
    "each before its first": [FORMAT, *(line for n in range(3) for line in (SECTIONS[n], REQUESTS[n])), *REQUESTS[3:]],
    "plain": PLAIN,
}


def create(world: World, lines: list[dict[str, Any]], contract: str = "openai") -> BatchRef:
    """Create a batch of these lines."""
    ref = world.api.create_of(lines, Space("acme", contract), "24h").ref
    world.prompts[ref] = {f"c{n}": f"prompt {n}" for n in range(30)}
    return ref


def engine_body(line: dict[str, Any]) -> bytes:
    """Give what the engine sees of a plain line."""
    return msgspec.json.encode(line["body"] | {"model": "engine"})


async def test_the_engine_gets_the_bodies_of_the_plain_file(world: World) -> None:
    """Byte by byte, wherever the sections stand; and every request has its answer under its own custom_id."""
    sent = {}
    for name, lines in FILES.items():
        before = [len(hand.engine.bodies) for hand in world.hands]
        ref = create(world, lines)
        await world.until_ended(ref)
        batch = await assert_exactly_once(world, ref)
        assert (Status.COMPLETED, Counts(total=30, completed=30)) == (batch.status, batch.counts)
        before += [0] * (len(world.hands) - len(before))
        sent[name] = sorted(
            body for hand, old in zip(world.hands, before, strict=True) for body in hand.engine.bodies[old:]
        )

    assert sent["plain"] == sent["all sections first"] == sent["each before its first"]
    assert sorted(map(engine_body, PLAIN)) == sent["plain"]


async def test_boardwalk_runs_them_too(world: World) -> None:
    """From the create on."""
    ref = create(world, FILES["all sections first"], "boardwalk")
    await world.until_ended(ref)

    assert Counts(total=30, completed=30) == (await assert_exactly_once(world, ref)).counts


async def test_what_a_worker_left_of_a_section_another_reads_again(world: World) -> None:
    """A line takes the engine down, the bucket does not answer now and then: the others of its section have their answers."""
    world.script["prompt 7"] = crash
    world.weather.script("blobs.get", ok, fail, ok, fail, fail)
    ref = create(world, FILES["each before its first"])
    await world.until_ended(ref)

    assert Counts(total=30, completed=29, failed=1) == (await assert_exactly_once(world, ref)).counts


async def test_a_retry_runs_whole_requests_again(world: World) -> None:
    """The lines that failed, with the sections that they are of."""
    failing = [f"prompt {n}" for n in (4, 7, 29)]
    world.script.update(dict.fromkeys(failing, refuse))
    ref = create(world, FILES["each before its first"])
    await world.until_ended(ref)
    assert Counts(total=30, completed=27, failed=3) == (await assert_exactly_once(world, ref)).counts
    sent = Counter(body for hand in world.hands for body in hand.engine.bodies)
    world.script.clear()

    again = world.api.batches.retry(ref, CONTRACTS["openai"], {}, "again").ref
    world.prompts[again] = {f"c{n}": f"prompt {n}" for n in (4, 7, 29)}
    await world.until_ended(again)

    assert Counts(total=3, completed=3) == (await assert_exactly_once(world, again)).counts
    sent_again = Counter(body for hand in world.hands for body in hand.engine.bodies) - sent
    assert Counter(engine_body(PLAIN[n]) for n in (4, 7, 29)) == sent_again
