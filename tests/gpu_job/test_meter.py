"""How long a worker's GPUs served each batch."""

from hypothesis import given
from hypothesis import strategies as st

from gpu_job.meter import Meter
from shared.core.ids import BatchRef

A, B = BatchRef("acme", "openai", "batch_a"), BatchRef("acme", "openai", "batch_b")


class Clock:
    """A clock in the test's hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        """Give the time."""
        return self.now


def test_a_batch_alone_comes_to_all_of_the_time_that_it_is_served() -> None:
    """Times the GPUs; not to the time before, between or after."""
    clock = Clock()
    meter = Meter(clock, 4)
    clock.now += 50
    meter.begin(A)
    clock.now += 2.5
    assert 10_000 == meter.take(A)
    assert 0 == meter.take(A)
    meter.end(A)
    clock.now += 50
    meter.begin(A)
    clock.now += 1
    assert 4_000 == meter.take(A)


def test_two_shards_of_a_batch_at_a_time_count_once() -> None:
    """The union of their times."""
    clock = Clock()
    meter = Meter(clock, 1)
    meter.begin(A)
    clock.now += 1
    meter.begin(A)
    clock.now += 1
    meter.end(A)
    clock.now += 1
    assert 3_000 == meter.take(A)


def test_two_batches_at_a_time_share_it() -> None:
    """Nobody pays for what another pays for."""
    clock = Clock()
    meter = Meter(clock, 1)
    meter.begin(A)
    clock.now += 1
    meter.begin(B)
    clock.now += 1
    assert (1_500, 500) == (meter.take(A), meter.take(B))


def test_time_without_a_commit_is_nobodys() -> None:
    """A shard that was lost brought nothing."""
    clock = Clock()
    meter = Meter(clock, 1)
    meter.begin(A)
    clock.now += 1
    meter.end(A)
    meter.begin(A)
    assert 0 == meter.take(A)


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    """A host's clock may be set right at any time."""
    clock = Clock()
    meter = Meter(clock, 1)
    meter.begin(A)
    clock.now += 1
    assert 1_000 == meter.take(A)
    clock.now -= 60
    assert 0 == meter.take(A)
    clock.now += 1
    assert 1_000 == meter.take(A)


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from([A, B]), st.booleans()), max_size=40))
def test_together_batches_come_to_no_more_than_the_time_in_which_any_was_served(
    happenings: list[tuple[float, BatchRef, bool]],
) -> None:
    """In any order of beginnings, ends and commits: to all of it but fractions, where nothing goes without a commit."""
    clock = Clock()
    meter = Meter(clock, 1)
    open_: list[BatchRef] = []
    served, charged = 0.0, 0
    for seconds, ref, begins in happenings:
        clock.now += seconds
        served += seconds if open_ else 0.0
        charged += sum(meter.take(one) for one in set(open_))
        if begins:
            meter.begin(ref)
            open_.append(ref)
        elif ref in open_:
            meter.end(ref)
            open_.remove(ref)
    assert charged <= served * 1000 + 1
    assert charged >= served * 1000 - 2 * len(happenings) - 1
