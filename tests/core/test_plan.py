"""The plan: how a file is cut into shards, how they queue, and how a line that kills workers is found."""

from collections.abc import Callable, Iterator
from itertools import chain, pairwise, product
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.core import lease, plan
from shared.core.plan import BYTES_PER_TOKEN, STALLS, Cut, PlanLine, ShardPlan, ShardSize
from shared.core.records import Chunk, Ending, Shard, ShardState, Status, Usage
from shared.core.scan import Entry
from tests.core.records import BATCH
from tests.core.records import shard as make_shard

DEFAULT_CAP = 50


def entry(line: int, length: int = 400, cap: int = 0, n: int = 1) -> Entry:
    """Give an entry; by default it costs 150 tokens."""
    return Entry(line, 1_000 * line, length, f"r{line}", "/v1/chat/completions", "echo", cap, n, (0, 0))


def cost(one: Entry) -> int:
    """Give the tokens of a line: its prompt, and all the answers that it allows."""
    return one.length // BYTES_PER_TOKEN + (one.cap or DEFAULT_CAP) * one.n


entries = st.builds(
    entry, st.just(0), length=st.integers(2, 3_000), cap=st.sampled_from([0, 1, 500, 5_000]), n=st.integers(1, 3)
)
sizes = st.builds(ShardSize, lines=st.integers(1, 7), tokens=st.integers(1, 5_000))


@given(st.lists(entries, max_size=40), sizes)
def test_a_cut_keeps_every_line_once_in_the_order_of_the_file_and_every_bound(
    lines: list[Entry], size: ShardSize
) -> None:
    """Lines and tokens of a shard are within the size; only a line that is too large by itself stands alone above it."""
    lines = [replace(one, line=number) for number, one in enumerate(lines, start=1)]
    cuts = list(plan.cut(lines, size, DEFAULT_CAP))
    shards = [cut.lines for cut in cuts]
    costs = [[cost(lines[line.line - 1]) for line in shard] for shard in shards]

    assert [PlanLine(one.line, one.offset, one.length, one.custom_id) for one in lines] == list(chain(*shards))
    assert [sum(shard) for shard in costs] == [cut.tokens for cut in cuts]
    assert all(0 < len(shard) <= size.lines for shard in shards)
    assert all(sum(shard) <= size.tokens or len(shard) == 1 for shard in costs)


@given(st.lists(entries, max_size=40), sizes)
def test_no_cut_is_made_without_need(lines: list[Entry], size: ShardSize) -> None:
    """The first line of a shard would not have fit into the one before."""
    lines = [replace(one, line=number) for number, one in enumerate(lines, start=1)]
    costs = [[cost(lines[line.line - 1]) for line in shard] for shard, _ in plan.cut(lines, size, DEFAULT_CAP)]

    for before, after in pairwise(costs):
        assert len(before) == size.lines or sum(before) + after[0] > size.tokens


@given(st.lists(entries, max_size=200), sizes)
def test_a_file_of_heavy_lines_is_cut_into_heavier_shards_rather_than_into_ever_more(
    lines: list[Entry], size: ShardSize
) -> None:
    """Each shard is a plan to write and a record to close, for which there is an end of time; the bound on lines stays."""
    size = replace(size, shards=5)
    wide = plan.widened(size, lines, DEFAULT_CAP)
    shards = list(plan.cut(lines, wide, DEFAULT_CAP))

    assert len(shards) <= 2 * size.shards + len(lines) // size.lines + 1
    assert replace(wide, tokens=0) == replace(size, tokens=0)
    assert size == wide or sum(map(cost, lines)) > size.tokens * size.shards


@pytest.mark.parametrize(
    ("one", "tokens"), [(entry(1), 150), (entry(1, cap=7), 107), (entry(1, cap=7, n=3), 121), (entry(1, n=2), 200)]
)
def test_a_line_costs_its_prompt_and_all_answers_it_allows(one: Entry, tokens: int) -> None:
    """Two lines fit into exactly twice the cost of one, and not into less."""
    assert [2] == [len(shard) for shard, _ in plan.cut([one, one], ShardSize(tokens=2 * tokens), DEFAULT_CAP)]
    halves = plan.cut([one, one], ShardSize(tokens=2 * tokens - 1), DEFAULT_CAP)
    assert [1, 1] == [len(shard) for shard, _ in halves]


def test_a_file_is_cut_while_it_is_read() -> None:
    """A shard comes out before the lines behind it are looked at."""
    seen: list[int] = []

    def lines() -> Iterator[Entry]:
        for line in range(1, 100):
            seen.append(line)
            yield entry(line)

    first = next(plan.cut(lines(), ShardSize(lines=10), DEFAULT_CAP))

    assert (10, 11) == (len(first.lines), len(seen))


def test_a_plan_survives_being_written_down() -> None:
    """What `encode` writes, `decode` reads."""
    told = ShardPlan(
        batch="batch_01",
        org="acme",
        contract="openai",
        input_key="orgs/acme/files/file-1",
        endpoint="/v1/embeddings",
        lines=[PlanLine(1, 3, 2**40, "ü\u2028\0")],
    )

    assert told == plan.decode(plan.encode(told))
    assert "openai" == told.rules.name


def test_shards_of_an_organization_queue_by_deadline_then_by_batch_then_in_the_order_of_the_file() -> None:
    """The ranks are texts whose order is that order, also where numbers gain a digit."""
    places = list(product([999_999_999, 1_700_000_000, 1_700_000_001], ["batch_1", "batch_2"], [0, 9, 10, 999_999]))

    ranks = [plan.rank(replace(BATCH, expires_at=deadline, id=batch), index) for deadline, batch, index in places]

    assert ranks == sorted(ranks)
    assert len(places) == len(set(ranks))


@pytest.mark.parametrize(("ending", "state"), [(None, ShardState.READY), (Ending.CANCELLED, ShardState.CLOSED)])
def test_a_shard_of_a_batch_that_was_ended_is_closed_from_the_start(ending: Ending | None, state: ShardState) -> None:
    """Its lines still need their rows, but no worker."""
    batch = replace(BATCH, status=Status.IN_PROGRESS, ending=ending)
    cut = Cut([PlanLine(line, 0, 9, f"r{line}") for line in range(7)], 450)

    made = plan.shard(batch, "echo@1", 3, cut, urgent_at=5)

    expected = replace(
        make_shard(3, 7),
        rank=plan.rank(BATCH, 3),
        tokens=450,
        deadline=BATCH.expires_at,
        urgent_at=5,
        state=state,
    )
    assert expected == made


Survivors = Callable[[tuple[int, ...]], set[int]]


class Poisoned:
    """A shard with one line that kills every worker that has it in the engine, as the workers see it.

    A worker takes bite after bite of what is not answered. A bite without the poison gets through; of one that has it, `survivors` says which other
    lines were committed before the worker died. The lease then runs out.
    """

    def __init__(self, lines: int, poison: int, survivors: Survivors) -> None:
        self.shard = make_shard(0, lines)
        self.todo = list(range(lines))
        self.poison = poison
        self.survivors = survivors
        self.deaths = 0
        self.given_up: list[int] = []

    def run(self, most: int) -> None:
        """Let one worker after another take the shard, until it is done; AssertionError after too many deaths."""
        while self.shard.state is not ShardState.DONE:
            assert self.deaths <= most
            self.shard = lease.taken(self.shard, self.shard, f"worker_{self.deaths}", 60)
            if plan.hopeless(self.shard):
                self.given_up.append(self.todo[0])
                self._commit({self.todo[0]}, bite=None)
            self._work()

    def _work(self) -> None:
        while self.shard.state is ShardState.LEASED:
            bite = tuple(self.todo[: self.shard.bite])
            if self.poison in bite:
                self._commit(self.survivors(bite) - {self.poison}, bite=self.shard.bite)
                self.deaths += 1
                self.shard = lease.reclaimed(self.shard, self.shard, 60)
            else:
                self._commit(set(bite), bite=self.shard.bite)

    def _commit(self, rows: set[int], bite: int | None) -> None:
        if rows:
            self.todo = [position for position in self.todo if position not in rows]
            chunk = Chunk(
                shard=0,
                epoch=self.shard.epoch,
                seq=0,
                key="k",
                etag="e",
                output_bytes=1,
                error_bytes=0,
                completed=len(rows),
                failed=0,
                usage=Usage(),
                bitmap=b"",
            )
            self.shard = plan.committed(replace(self.shard, bite=bite), chunk)


@given(st.integers(1, 1_000).flatmap(lambda lines: st.tuples(st.just(lines), st.integers(0, lines - 1))))
def test_a_poisonous_line_is_isolated_after_a_few_deaths_wherever_it_stands(drawn: tuple[int, int]) -> None:
    """Nothing beside it gets through until it stands alone: three deaths a size of bite, an eighth each time."""
    lines, poison = drawn
    shard = Poisoned(lines, poison, lambda _: set())

    shard.run(most=STALLS * (2 + int(log(lines, 8))))

    assert [poison] == shard.given_up
    assert [] == shard.todo


@given(st.integers(2, 60), st.data())
def test_a_poisonous_line_takes_no_neighbour_with_it(lines: int, data: st.DataObject) -> None:
    """Whichever lines get through beside it before each death, all others are answered and it alone is given up."""
    poison = data.draw(st.integers(0, lines - 1))

    def some(bite: tuple[int, ...]) -> set[int]:
        return data.draw(st.sets(st.sampled_from(bite)))

    shard = Poisoned(lines, poison, some)
    shard.run(most=STALLS * (lines + 3))

    assert [poison] == shard.given_up
    assert [] == shard.todo


def test_a_shard_that_makes_progress_is_never_bitten() -> None:
    """Two lost leases between commits are bad luck."""
    shard = make_shard(0, 100)
    for _ in range(20):
        for _ in range(STALLS - 1):
            shard = lease.reclaimed(lease.taken(shard, shard, "w", 60), replace(shard, epoch=shard.epoch + 1), 60)
        shard = replace(shard, stalls=0)  # as a commit does

    assert None is shard.bite


@pytest.mark.parametrize(
    ("bite", "stalls", "expected"),
    [(None, 9, False), (2, 9, False), (1, STALLS - 1, False), (1, STALLS, True), (1, STALLS + 1, True)],
)
def test_a_line_is_given_up_only_when_it_died_alone_often_enough(
    bite: int | None, stalls: int, *, expected: bool
) -> None:
    """Three times, in bites of one."""
    assert expected == plan.hopeless(replace(make_shard(0, 5), bite=bite, stalls=stalls))


def stalled(shard: Shard, times: int) -> Shard:
    """Let the lease of a shard run out again and again."""
    for _ in range(times):
        shard = plan.stalled(shard, 60)
    return shard


@pytest.mark.parametrize(("lines", "bites"), [(1000, [125, 15, 1]), (9, [1]), (1, [1]), (64, [8, 1])])
def test_bites_are_an_eighth_each_down_to_one_line(lines: int, bites: list[int]) -> None:
    """The first one is counted from what is not answered yet."""
    shard = make_shard(0, lines + 5, completed=3, failed=2)

    assert bites == [stalled(shard, STALLS * count).bite for count in range(1, len(bites) + 1)]
    assert 1 == stalled(shard, STALLS * (len(bites) + 5)).bite


def test_a_stall_gives_the_lease_back_at_the_next_epoch() -> None:
    """Whatever the old worker still sends is void."""
    leased = lease.taken(make_shard(0, 5), make_shard(0, 5), "w", 60)

    after = plan.stalled(leased, 77)

    assert (ShardState.READY, None, 77, leased.epoch + 1) == (after.state, after.owner, after.lease_until, after.epoch)
