"""What `shared.ports.Shards` promises."""

import pytest
from msgspec.structs import replace

from shared.core.errors import Conflict, Fenced
from shared.core.plan import committed, stalled
from shared.core.records import Shard, ShardState
from tests.contracts.conftest import Stores
from tests.contracts.samples import REF, at_once, chunk, queued, shard


def only(stores: Stores) -> Shard:
    """Give the one shard of the batch."""
    (found,) = stores.shards.of(REF)
    return found


@pytest.fixture
def leased(stores: Stores) -> Shard:
    """Give a shard that a worker leases."""
    stores.shards.put([shard()])
    return stores.queue.lease(shard(), "worker_1", 60.5)


def test_shards_come_back_by_index(stores: Stores) -> None:
    """All of a batch's, and nobody else's."""
    other = REF._replace(id="batch_2")
    stores.shards.put([shard(2), shard(0), shard(0, ref=other)])
    stores.shards.put([shard(1)])
    assert [shard(0), shard(1), shard(2)] == stores.shards.of(REF)
    assert [shard(0, ref=other)] == stores.shards.of(other)
    assert [] == stores.shards.of(REF._replace(org="rival"))


def test_a_put_of_nothing_is_nothing(stores: Stores) -> None:
    """An empty plan has no shards."""
    stores.shards.put([])
    assert [] == stores.shards.of(REF)


def test_shards_that_are_there_stay_as_they_are(stores: Stores, leased: Shard) -> None:
    """A plan may be put twice, in the middle of the run."""
    stores.shards.put([shard(0), shard(1)])
    assert [leased, shard(1)] == stores.shards.of(REF)


def test_more_shards_than_one_transaction_takes_are_put(stores: Stores) -> None:
    """A plan has as many shards as it needs."""
    plan = [shard(index) for index in range(101)]
    stores.shards.put(plan[:3])
    stores.shards.put(plan)
    assert plan == stores.shards.of(REF)


def test_two_planners_at_once_put_one_plan(stores: Stores) -> None:
    """Both succeed, whoever wrote which shard."""
    plan = [shard(index) for index in range(8)]
    assert [None] * 4 == at_once(4, lambda number: stores.shards.put(plan[number:] + plan[:number]))
    assert plan == stores.shards.of(REF)


def test_a_shard_that_is_closed_from_the_start_is_never_in_the_queue(stores: Stores) -> None:
    """A batch that was ended before its plan was there has shards, but no work."""
    stores.shards.put([replace(shard(), state=ShardState.CLOSED)])
    assert [] == queued(stores.queue)


def test_draining_closes_a_shard_that_nobody_leases(stores: Stores) -> None:
    """There is nothing to wait for; nobody leases it afterwards."""
    stores.shards.put([shard()])
    stores.shards.drain(shard())
    stores.shards.drain(shard())
    assert replace(shard(), state=ShardState.CLOSED, epoch=1) == only(stores)
    assert [] == queued(stores.queue)
    with pytest.raises(Conflict):
        stores.queue.lease(only(stores), "worker_1", 60)


def test_draining_marks_a_shard_that_is_leased(stores: Stores, leased: Shard) -> None:
    """Its worker sees it with the next heartbeat, and may still commit."""
    stores.shards.drain(shard())
    stores.shards.drain(leased)
    draining = replace(leased, draining=True)
    assert draining == only(stores)
    assert draining == stores.queue.renew(leased, 60.5)
    stores.chunks.commit(leased, chunk(leased))
    assert committed(draining, chunk(leased)) == only(stores)


def test_draining_leaves_a_shard_alone_that_is_over(stores: Stores, leased: Shard) -> None:
    """Done stays done."""
    stores.chunks.commit(leased, chunk(leased, completed=9, failed=1))
    before = only(stores)
    stores.shards.drain(leased)
    assert before == only(stores)
    assert ShardState.DONE is before.state


def test_a_lost_lease_is_taken_back_once(stores: Stores, leased: Shard) -> None:
    """The shard is ready again, at the next epoch, and has stalled once more."""
    assert stores.shards.reclaim(leased, 70.25)
    assert stalled(leased, 70.25) == only(stores)
    assert not stores.shards.reclaim(leased, 80)
    assert stalled(leased, 70.25) == only(stores)
    assert [stalled(leased, 70.25)] == queued(stores.queue)


def test_the_old_holder_of_a_reclaimed_lease_is_fenced(stores: Stores, leased: Shard) -> None:
    """It may neither commit nor renew, and its release changes nothing, even when it is the one to lease it next."""
    stores.shards.reclaim(leased, 70)
    again = stores.queue.lease(only(stores), "worker_1", 130)
    with pytest.raises(Fenced):
        stores.chunks.commit(leased, chunk(leased))
    with pytest.raises(Fenced):
        stores.queue.renew(leased, 130)
    stores.queue.release(leased)
    assert not stores.shards.reclaim(leased, 140)
    assert again == only(stores)


def test_a_draining_shard_whose_lease_is_lost_is_closed(stores: Stores, leased: Shard) -> None:
    """Nobody is to lease it again."""
    stores.shards.drain(leased)
    assert stores.shards.reclaim(leased, 70)
    assert ShardState.CLOSED is only(stores).state
    assert [] == queued(stores.queue)


def test_a_lease_that_was_given_back_is_not_taken_back(stores: Stores, leased: Shard) -> None:
    """It has not stalled."""
    stores.queue.release(leased)
    assert not stores.shards.reclaim(leased, 70)
    assert 0 == only(stores).stalls


def test_closing_is_the_fence(stores: Stores, leased: Shard) -> None:
    """Whatever its holder tries comes to nothing."""
    stores.shards.close(shard())
    closed = only(stores)
    assert replace(leased, state=ShardState.CLOSED, epoch=2, owner=None, lease_until=0) == closed
    with pytest.raises(Fenced):
        stores.chunks.commit(leased, chunk(leased))
    with pytest.raises(Fenced):
        stores.queue.renew(leased, 130)
    stores.queue.release(leased)
    stores.shards.drain(leased)
    assert not stores.shards.reclaim(leased, 70)
    with pytest.raises(Conflict):
        stores.queue.lease(closed, "worker_1", 130)
    assert closed == only(stores)
    assert [] == list(stores.chunks.of(REF))
    assert [] == queued(stores.queue)


def test_closing_twice_is_closing_once(stores: Stores, leased: Shard) -> None:
    """The epoch moves once."""
    stores.shards.close(leased)
    stores.shards.close(leased)
    assert 2 == only(stores).epoch


def test_a_ready_shard_and_a_done_one_can_be_closed(stores: Stores, leased: Shard) -> None:
    """Closing takes any state."""
    stores.shards.put([shard(1)])
    stores.chunks.commit(leased, chunk(leased, completed=10, failed=0))
    for each in stores.shards.of(REF):
        stores.shards.close(each)
    assert [ShardState.CLOSED, ShardState.CLOSED] == [each.state for each in stores.shards.of(REF)]


def test_a_commit_and_the_fence_do_not_miss_each_other(stores: Stores) -> None:
    """A commit that succeeds is in what is read behind the fence; one that is not there was told so."""
    stores.shards.put([shard(index) for index in range(6)])
    for each in stores.shards.of(REF):
        held = stores.queue.lease(each, "worker_1", 60)

        def race(number: int, held: Shard = held) -> int:
            if number:
                stores.chunks.commit(held, chunk(held))
                return 0
            stores.shards.close(held)
            return len(list(stores.chunks.of(REF, held.index)))

        seen, answer = at_once(2, race)
        assert seen == (0 if isinstance(answer, Fenced) else 1)
        assert seen == len(list(stores.chunks.of(REF, held.index)))
