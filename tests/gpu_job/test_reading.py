"""A shard's lines as a worker reads them: in few ranges, and whole where they are of a section."""

from random import Random
from threading import RLock
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_job import reading
from gpu_job.reading import READ_BYTES, READ_GAP, Line
from gpu_job.row import Row, prepare
from shared.adapters.memory import MemoryBlobs
from shared.core.errors import Refused
from shared.core.groups import grouped
from shared.core.models import Model
from shared.core.plan import PlanLine, ShardPlan, ShardSize, cut
from shared.core.request_line import Limits, LineError
from shared.core.scan import Entry, Scanner, entries
from tests.core.lines import CHAT, FORMAT, message, part, request, section, written
from tests.core.sections import Twins, files

MODEL = Model(id="echo", revision="echo@1", source="", engine="vllm", endpoints=(CHAT,), context=99, max_output=9)
MIB = 1 << 20


class CountedBlobs(MemoryBlobs):
    """A bucket that notes the ranges that are read."""

    def __init__(self) -> None:
        super().__init__(RLock())
        self.ranges: list[tuple[int, int | None]] = []

    def get(self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None) -> bytes:
        """As `Blobs.get`."""
        self.ranges.append((start, end))
        return super().get(key, start, end, etag=etag)


def planned(content: bytes) -> list[PlanLine]:
    """Scan a file, and give its good lines in the plan's order, as one shard has them."""
    scanner = Scanner(Limits())
    try:
        index = [*scanner.feed(content), *scanner.finish()]
    except Refused:  # an empty one
        return []
    good = (item for item in entries(index) if isinstance(item, Entry))
    return [line for shard in cut(grouped(good), ShardSize(lines=9_999, tokens=1 << 40), 1) for line in shard.lines]


async def read(blobs: CountedBlobs, content: bytes) -> tuple[list[PlanLine], list[Line]]:
    """Read all good lines of a file."""
    blobs.put("input", content)
    lines = planned(content)
    return lines, [line async for line in reading.lines(blobs, "input", list(enumerate(lines)))]


async def rows(content: bytes, contract: str) -> list[Row]:
    """Give what of a file goes to the engine."""
    lines, found = await read(CountedBlobs(), content)
    shard = ShardPlan("batch_1", "acme", contract, "input", CHAT, lines)
    made = []
    for line in found:
        parsed = line.request(lines[line.position].line)
        assert not isinstance(parsed, LineError)
        made.append(prepare(shard, line.position, parsed, MODEL))
    return made


def sent(rows: list[Row]) -> list[Any]:
    """Say of each row what the engine sees of it, and who it is."""
    return [(row.line.line, row.line.custom_id, row.request.url, row.request.model, row.body) for row in rows]


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(files())
async def test_the_engine_sees_what_it_sees_of_the_plain_twin(twins: Twins) -> None:
    """Byte by byte, under a contract that adds a limit too."""
    for contract in ("openai", "gridline"):
        assert sent(await rows(twins.plain, contract)) == sent(await rows(twins.sectioned, contract))


def jsonl(*lines: object) -> bytes:
    """Write lines as a file."""
    return b"".join(written(line) + b"\n" for line in lines)


async def test_lines_that_are_near_are_one_read() -> None:
    """Gaps are read over up to a MiB; a read has some MiB at most."""
    blobs = CountedBlobs()
    gap = b" " * (READ_GAP - 2) + b"\n"
    content = jsonl(request("a"), request("b")) + gap + jsonl(request("c")) + b" " * (READ_GAP + 1) + b"\n"
    content += jsonl(*(request(f"d{number}", user="x" * MIB) for number in range(18)))

    lines, found = await read(blobs, content)

    assert [content[line.offset : line.offset + line.length] for line in lines] == [line.raw for line in found]
    assert 3 == len(blobs.ranges)
    assert all((end or 0) - start <= READ_BYTES for start, end in blobs.ranges)


async def test_lines_that_the_plan_has_moved_are_one_read() -> None:
    """It moves them within what one read may have."""
    blobs = CountedBlobs()
    content = jsonl(*(request(f"{number}", user="x" * (100 << 10)) for number in range(150)))
    blobs.put("input", content)
    lines = planned(content)
    moved = [*lines[::2], *reversed(lines[1::2])]

    found = [line.raw async for line in reading.lines(blobs, "input", list(enumerate(moved)))]

    assert [content[line.offset : line.offset + line.length] for line in moved] == found
    assert 1 == len(blobs.ranges)


async def test_lines_that_the_plan_has_put_into_the_order_of_their_answers_are_few_reads() -> None:
    """Each limit is another: neighbours in a shard stand anywhere in a window of the file."""
    blobs = CountedBlobs()
    chance = Random(1)
    lines = [request(f"{number}", user="x" * 9_000, max_tokens=chance.randint(1, 4_096)) for number in range(4_000)]
    content = jsonl(*lines)
    blobs.put("input", content)
    wanted = list(enumerate(planned(content)))

    for start in range(0, len(wanted), 1_000):
        blobs.ranges.clear()
        shard = wanted[start : start + 1_000]
        found = [line.raw async for line in reading.lines(blobs, "input", shard)]
        assert [content[line.offset : line.offset + line.length] for _, line in shard] == found
        assert len(shard) >= 50 * len(blobs.ranges)


GAPS = st.one_of(st.integers(0, 3), st.sampled_from((READ_GAP - 1, READ_GAP, READ_GAP + 1, READ_BYTES)))
LENGTHS = st.one_of(st.integers(1, 99), st.sampled_from((READ_GAP, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1)))


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(GAPS, LENGTHS), min_size=1, max_size=8), st.randoms(use_true_random=False))
async def test_every_line_is_itself_in_any_order_and_no_more_is_held_than_a_read_may_have(
    drawn: list[tuple[int, int]], chance: Random
) -> None:
    """However large lines are, and however far from each other."""
    lines, end = [], 0
    for number, (gap, length) in enumerate(drawn):
        lines.append(PlanLine(number, end + gap, length, f"{number}"))
        end += gap + length
    content = chance.randbytes(1_000) * (end // 1_000 + 1)
    chance.shuffle(lines)
    blobs = CountedBlobs()
    blobs.put("input", content)

    found = [line.raw async for line in reading.lines(blobs, "input", list(enumerate(lines)))]

    assert [content[line.offset : line.offset + line.length] for line in lines] == found
    assert all((end or 0) - start <= READ_BYTES + 1 for start, end in blobs.ranges)


async def test_what_is_between_lines_that_are_far_from_each_other_is_not_read() -> None:
    """In whatever order they come."""
    blobs = CountedBlobs()
    content = jsonl(*(request(f"{number}", user="x" * MIB) for number in range(13)))
    blobs.put("input", content)
    lines = planned(content)
    few = [lines[12], lines[0], lines[6], lines[7]]

    found = [line.raw async for line in reading.lines(blobs, "input", list(enumerate(few)))]

    assert [content[line.offset : line.offset + line.length] for line in few] == found
    assert 3 == len(blobs.ranges)
    assert sum((end or 0) - start for start, end in blobs.ranges) < 5 * MIB


async def test_a_section_among_its_lines_needs_no_read_of_its_own() -> None:
    """Only the first one stands before them."""
    blobs = CountedBlobs()
    sections = [
        [section(f"s{s}", CHAT, message("x")), *(part(f"{s}-{n}", f"s{s}") for n in range(50))] for s in range(20)
    ]

    lines, found = await read(blobs, jsonl(FORMAT, *(line for lines in sections for line in lines)))

    assert 1_000 == len(lines) == len(found)
    assert 2 == len(blobs.ranges)


async def test_sections_that_stand_together_are_one_read() -> None:
    """However their requests are shuffled."""
    blobs = CountedBlobs()
    sections = [section(f"s{s}", CHAT, message("x" * 1_000)) for s in range(100)]
    requests = [part(f"{n}", f"s{n * 37 % 100}") for n in range(1_000)]

    _, found = await read(blobs, jsonl(FORMAT, *sections) + b" " * READ_GAP + b"\n" + jsonl(*requests))

    assert [f"s{n * 37 % 100}" for n in range(1_000)] == [
        line.section["section"] for line in found if isinstance(line.section, dict)
    ]
    assert 2 == len(blobs.ranges)


async def test_large_sections_are_not_held_all_at_once() -> None:
    """Those of one read are some MiB, or one that is larger; one that is needed again next is not read again."""
    blobs = CountedBlobs()
    blobs.put("input", b"")
    sections = [section(name, CHAT, message("x" * 3 * MIB)) for name in "st"]
    requests = [part("a", "s"), part("b", "s"), part("c", "t"), part("d", "t", user="x" * 4 * MIB), part("e", "t")]

    _, found = await read(blobs, jsonl(FORMAT, *sections, *requests))

    assert list("sstTt".lower()) == [line.section["section"] for line in found if isinstance(line.section, dict)]
    assert found[2].section is found[4].section
    assert found[1].section is not found[2].section
    assert 2 == sum((end or 0) - start > 3 * MIB and start < 6 * MIB for start, end in blobs.ranges)


@pytest.mark.parametrize("spoilt", [b"{", b"[]", b'{"section": "s"}'])
async def test_a_section_that_is_not_taken_any_more_is_an_error_of_each_line(spoilt: bytes) -> None:
    """A later release may refuse what an earlier one took; its lines get their rows."""
    blobs = CountedBlobs()
    content = jsonl(FORMAT, section("s", CHAT, message("x")), part("a"))
    lines = planned(content)
    place = lines[0].section
    assert place is not None
    content = content[: place.offset] + spoilt.ljust(place.length) + content[place.offset + place.length :]
    blobs.put("input", content)

    (line,) = [line async for line in reading.lines(blobs, "input", [(0, lines[0])])]

    assert isinstance(line.request(3), LineError)


async def test_a_plan_without_sections_is_still_read() -> None:
    """One that an earlier release has written: its lines have four fields."""
    old = msgspec.msgpack.encode([7, 0, 9, "a"])

    assert PlanLine(7, 0, 9, "a") == msgspec.msgpack.decode(old, type=PlanLine)
