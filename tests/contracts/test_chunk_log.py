"""What `shared.ports.ChunkLog` promises."""

import pytest
from msgspec.structs import replace

from shared.core.errors import Conflict, Fenced
from shared.core.plan import committed
from shared.core.records import Chunk, Shard, ShardState, Usage
from tests.contracts.conftest import Stores
from tests.contracts.samples import REF, at_once, chunk, shard


@pytest.fixture
def leased(stores: Stores) -> Shard:
    """Give a shard that a worker leases, the second of its batch."""
    stores.shards.put([shard(0), shard(1)])
    return stores.queue.lease(shard(1), "worker_1", 60)


def now(stores: Stores) -> Shard:
    """Give that shard as it is."""
    return stores.shards.of(REF)[1]


def test_a_commit_keeps_the_chunk_and_counts_it(stores: Stores, leased: Shard) -> None:
    """What a worker computes as its own copy is what the store has."""
    first, second = chunk(leased, 0), chunk(leased, 1, completed=3, failed=0)
    stores.chunks.commit(leased, first)
    view = committed(leased, first)
    stores.chunks.commit(view, second)
    assert committed(view, second) == now(stores)
    assert (5, 1) == (now(stores).completed, now(stores).failed)
    assert Usage(input_tokens=35, output_tokens=15) == now(stores).usage
    assert 2500 == now(stores).gpu_ms
    assert [first, second] == list(stores.chunks.of(REF))


def test_a_committed_chunk_is_found_by_its_number(stores: Stores, leased: Shard) -> None:
    """And only by its own."""
    mine = chunk(leased)
    stores.chunks.commit(leased, mine)
    assert mine == stores.chunks.find(REF, 1, 1, 0)
    assert stores.chunks.find(REF, 1, 1, 1) is None
    assert stores.chunks.find(REF, 1, 2, 0) is None
    assert stores.chunks.find(REF, 0, 1, 0) is None
    assert stores.chunks.find(REF._replace(org="rival"), 1, 1, 0) is None


def test_chunks_come_by_shard_epoch_and_number(stores: Stores, leased: Shard) -> None:
    """Of the whole batch, of its shards from one on, or of one shard."""
    one = chunk(leased, 0, completed=1, failed=0)
    stores.chunks.commit(leased, one)
    stores.queue.release(leased)
    again = stores.queue.lease(now(stores), "worker_2", 60)
    two = chunk(again, 0, completed=1, failed=0)
    stores.chunks.commit(again, two)
    other = stores.queue.lease(shard(0), "worker_1", 60)
    zero = chunk(other, 0)
    stores.chunks.commit(other, zero)
    assert [zero, one, two] == list(stores.chunks.of(REF))
    assert [one, two] == list(stores.chunks.of(REF, 1))
    assert [] == list(stores.chunks.of(REF, 2))
    assert [[zero, one, two], [one, two], []] == [list(stores.chunks.of(REF, first=first)) for first in (0, 1, 2)]


def test_the_last_line_makes_the_shard_done(stores: Stores, leased: Shard) -> None:
    """In the same transaction; nobody holds it any more."""
    stores.chunks.commit(leased, chunk(leased, completed=8, failed=2))
    assert (ShardState.DONE, None, 0, 10) == (
        now(stores).state,
        now(stores).owner,
        now(stores).lease_until,
        now(stores).answered,
    )


def test_a_commit_may_be_repeated(stores: Stores, leased: Shard) -> None:
    """The very same one is counted once, also when it made the shard done or the lease is lost since."""
    first, last = chunk(leased, 0), chunk(leased, 1, completed=7, failed=0)
    stores.chunks.commit(leased, first)
    stores.chunks.commit(leased, first)
    view = committed(leased, first)
    stores.chunks.commit(view, last)
    stores.chunks.commit(view, last)
    assert (9, 1, ShardState.DONE) == (now(stores).completed, now(stores).failed, now(stores).state)
    assert 4500 == now(stores).gpu_ms
    stores.shards.close(leased)
    stores.chunks.commit(view, last)
    assert [first, last] == list(stores.chunks.of(REF))


def test_a_number_is_taken_once(stores: Stores, leased: Shard) -> None:
    """Another chunk of the same number is fenced off, whichever copy of the shard it comes with."""
    mine, theirs = chunk(leased), chunk(leased, nonce="theirs")
    stores.chunks.commit(leased, mine)
    for view in (leased, committed(leased, mine)):
        with pytest.raises(Fenced):
            stores.chunks.commit(view, theirs)
    assert committed(leased, mine) == now(stores)
    assert [mine] == list(stores.chunks.of(REF))


def test_a_commit_that_forgets_one_before_it_is_refused(stores: Stores, leased: Shard) -> None:
    """The lease still holds, but a commit whose answer was lost must be found first."""
    first, second = chunk(leased, 0), chunk(leased, 1)
    stores.chunks.commit(leased, first)
    with pytest.raises(Conflict) as refusal:
        stores.chunks.commit(leased, second)
    assert not isinstance(refusal.value, Fenced)
    assert [first] == list(stores.chunks.of(REF))
    assert committed(leased, first) == now(stores)
    stores.chunks.commit(committed(leased, first), second)


def test_nothing_is_committed_without_a_lease(stores: Stores) -> None:
    """A ready shard takes no chunk, of whatever epoch."""
    stores.shards.put([shard(0)])
    with pytest.raises(Fenced):
        stores.chunks.commit(shard(0), chunk(shard(0)))
    ahead = replace(shard(0), epoch=1)
    with pytest.raises(Fenced):
        stores.chunks.commit(ahead, chunk(ahead))
    assert [] == list(stores.chunks.of(REF))
    assert [shard(0)] == stores.shards.of(REF)


def test_a_zombie_of_an_earlier_epoch_commits_nothing(stores: Stores, leased: Shard) -> None:
    """Its successor's counters are not touched, even where they equal those that the zombie knows."""
    stores.shards.reclaim(leased, 70)
    successor = stores.queue.lease(now(stores), "worker_2", 130)
    with pytest.raises(Fenced):
        stores.chunks.commit(leased, chunk(leased, nonce="zombie"))
    assert successor == now(stores)
    stores.chunks.commit(successor, chunk(successor))
    assert 3 == now(stores).answered


def test_a_commit_takes_the_stalls_back_and_the_bite_over(stores: Stores) -> None:
    """The bite is the caller's to keep or to give up."""
    stores.shards.put([replace(shard(0), stalls=2, bite=4)])
    leased = stores.queue.lease(shard(0), "worker_1", 60)
    assert (2, 4) == (leased.stalls, leased.bite)
    stores.chunks.commit(leased, chunk(leased, 0))
    assert (0, 4) == (stores.shards.of(REF)[0].stalls, stores.shards.of(REF)[0].bite)
    freed = replace(committed(leased, chunk(leased, 0)), bite=None)
    stores.chunks.commit(freed, chunk(leased, 1))
    assert stores.shards.of(REF)[0].bite is None


def test_what_a_commit_does_not_concern_stays(stores: Stores, leased: Shard) -> None:
    """Renewals and marks that came since the caller's copy are kept."""
    stores.queue.renew(leased, 90)
    stores.shards.drain(leased)
    stores.chunks.commit(leased, chunk(leased))
    assert (90, True, "worker_1") == (now(stores).lease_until, now(stores).draining, now(stores).owner)


@pytest.mark.parametrize(
    "wrong",
    [
        {"completed": 11, "failed": 0},
        {"completed": 0, "failed": 0},
        {"epoch": 2},
        {"shard": 0},
    ],
)
def test_a_chunk_that_cannot_be_of_the_lease_is_a_mistake(stores: Stores, leased: Shard, wrong: dict[str, int]) -> None:
    """More lines than are left, none, another epoch or another shard."""
    with pytest.raises(AssertionError):
        stores.chunks.commit(leased, replace(chunk(leased), **wrong))
    assert leased == now(stores)


def test_twenty_deliveries_of_one_commit_count_once(stores: Stores, leased: Shard) -> None:
    """All are told that it is committed."""
    assert [None] * 20 == at_once(20, lambda _: stores.chunks.commit(leased, chunk(leased)))
    assert committed(leased, chunk(leased)) == now(stores)


def test_of_twenty_chunks_of_one_number_one_counts(stores: Stores, leased: Shard) -> None:
    """The others are told that they do not."""

    def commit(number: int) -> Chunk:
        mine = chunk(leased, nonce=str(number))
        stores.chunks.commit(leased, mine)
        return mine

    answers = at_once(20, commit)
    assert [answer for answer in answers if isinstance(answer, Chunk)] == list(stores.chunks.of(REF))
    assert 19 == sum(isinstance(answer, Fenced) for answer in answers)
    assert 3 == now(stores).answered


def test_commits_of_many_shards_do_not_disturb_each_other(stores: Stores) -> None:
    """Their batch is one partition, but no item is shared."""
    stores.shards.put([shard(index) for index in range(6)])

    def work(index: int) -> None:
        view = stores.queue.lease(shard(index), f"worker_{index}", 60)
        for seq in range(3):
            stores.chunks.commit(view, chunk(view, seq))
            view = committed(view, chunk(view, seq))

    assert [None] * 6 == at_once(6, work)
    assert [9] * 6 == [each.answered for each in stores.shards.of(REF)]
    assert 18 == len(list(stores.chunks.of(REF)))
