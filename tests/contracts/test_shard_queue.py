"""What `shared.ports.ShardQueue` promises."""

import pytest
from msgspec.structs import replace

from shared.core.errors import Conflict, Fenced
from shared.core.records import Shard, ShardState
from tests.contracts.conftest import Stores
from tests.contracts.samples import REF, REVISION, at_once, chunk, queued, shard


@pytest.fixture(autouse=True)
def _ready(stores: Stores) -> None:
    stores.shards.put([shard()])


def only(stores: Stores) -> Shard:
    """Give the one shard of the batch."""
    (found,) = stores.shards.of(REF)
    return found


def test_a_shard_is_ready_or_leased_and_in_order(stores: Stores) -> None:
    """Of one revision, and by rank, whichever batch they belong to."""
    urgent = replace(shard(0, ref=REF._replace(id="batch_2")), rank="acme/000000000001")
    stores.shards.put([urgent, *map(shard, range(1, 5)), shard(5, revision="other@1")])
    leased = [stores.queue.lease(shard(index), "worker_1", 60) for index in (3, 1)]
    assert [urgent, shard(0), shard(2), shard(4)] == stores.queue.ready(REVISION, 9)
    assert [urgent, shard(0)] == stores.queue.ready(REVISION, 2)
    assert leased[::-1] == stores.queue.leased(REVISION)
    assert leased[1:] == stores.queue.leased(REVISION, 1)
    assert [shard(5, revision="other@1")] == stores.queue.ready("other@1", 9)
    assert [] == stores.queue.ready("none@1", 9) == stores.queue.leased("other@1")


@pytest.mark.parametrize("each", [1, 2, 3, 5, 6, 50])
def test_every_organization_with_ready_shards_is_seen(stores: Stores, each: int) -> None:
    """However many shards another one has, whatever their names have in common; none is given more room than it was asked for."""
    orgs = {"acme": 5, "acme-b": 2, "acme.c": 1, "acme0": 3, "acmf": 6, "zeta": 1}
    refs = {org: REF._replace(org=org) for org in orgs}
    for org, number in orgs.items():
        stores.shards.put([shard(index, ref=refs[org]) for index in range(number if org != "acme" else 0)])
    stores.shards.put([shard(index) for index in range(1, 5)])

    ready = stores.queue.ready(REVISION, each)

    assert ready == sorted(ready, key=lambda one: one.rank)
    for org, number in orgs.items():
        mine = [one.index for one in ready if one.org == org]
        assert 1 <= len(mine) <= each
        assert list(range(number))[: len(mine)] == mine


def test_a_lease_is_the_next_epoch(stores: Stores) -> None:
    """Times are kept to the fraction of a second."""
    leased = stores.queue.lease(shard(), "worker_1", 60.123456)
    assert replace(shard(), state=ShardState.LEASED, owner="worker_1", lease_until=60.123456, epoch=1) == leased
    assert leased == only(stores)


def test_a_leased_shard_cannot_be_leased(stores: Stores) -> None:
    """Neither with the copy from before the lease nor with the latest one."""
    leased = stores.queue.lease(shard(), "worker_1", 60)
    for copy in (shard(), leased):
        with pytest.raises(Conflict):
            stores.queue.lease(copy, "worker_2", 60)
    assert leased == only(stores)


def test_a_lease_may_be_asked_for_again_by_its_owner(stores: Stores) -> None:
    """The first answer may have been lost: it is the same lease, and not shorter."""
    leased = stores.queue.lease(shard(), "worker_1", 60)
    assert leased == stores.queue.lease(shard(), "worker_1", 50)
    assert replace(leased, lease_until=70) == stores.queue.lease(shard(), "worker_1", 70)


def test_of_twenty_workers_one_gets_the_lease(stores: Stores) -> None:
    """The others are told so."""
    answers = at_once(20, lambda number: stores.queue.lease(shard(), f"worker_{number}", 60))
    won = [answer for answer in answers if isinstance(answer, Shard)]
    assert [only(stores)] == won
    assert 19 == sum(isinstance(answer, Conflict) for answer in answers)


def test_a_lease_that_arrives_late_leases_nothing(stores: Stores) -> None:
    """What was leased and given back since is another's to lease, even for the same owner."""
    stores.queue.release(stores.queue.lease(shard(), "worker_1", 60))
    with pytest.raises(Conflict):
        stores.queue.lease(shard(), "worker_1", 60)
    assert ShardState.READY is only(stores).state
    assert 2 == stores.queue.lease(only(stores), "worker_1", 60).epoch


def test_renewing_says_how_long_the_lease_lasts(stores: Stores) -> None:
    """Also where the clock of its holder has been set back: who watches the lease sees each heartbeat."""
    leased = stores.queue.lease(shard(), "worker_1", 60)
    assert replace(leased, lease_until=75.5) == stores.queue.renew(leased, 75.5)
    assert replace(leased, lease_until=65) == stores.queue.renew(leased, 65)
    assert replace(leased, lease_until=65) == only(stores)


def test_renewing_gives_the_record_as_it_is_now(stores: Stores) -> None:
    """Commits and marks of others included."""
    leased = stores.queue.lease(shard(), "worker_1", 60)
    stores.chunks.commit(leased, chunk(leased))
    stores.shards.drain(leased)
    now = stores.queue.renew(leased, 60)
    assert (2, 1, True) == (now.completed, now.failed, now.draining)


def test_what_was_never_leased_cannot_be_renewed(stores: Stores) -> None:
    """There is no lease of epoch 0."""
    with pytest.raises(Fenced):
        stores.queue.renew(shard(), 60)


def test_a_lease_that_was_given_back_is_there_for_others(stores: Stores) -> None:
    """At once, and no longer for its holder."""
    leased = stores.queue.lease(shard(), "worker_1", 60)
    stores.chunks.commit(leased, chunk(leased))
    stores.queue.release(leased)
    stores.queue.release(leased)
    (ready,) = queued(stores.queue)
    assert (ShardState.READY, None, 0, 1, 3) == (
        ready.state,
        ready.owner,
        ready.lease_until,
        ready.epoch,
        ready.answered,
    )
    with pytest.raises(Fenced):
        stores.queue.renew(leased, 60)
    with pytest.raises(Fenced):
        stores.chunks.commit(leased, chunk(leased, seq=1))
    assert "worker_2" == stores.queue.lease(ready, "worker_2", 60).owner


def test_a_draining_shard_that_is_given_back_is_closed(stores: Stores) -> None:
    """Nobody is to lease it again."""
    leased = stores.queue.lease(shard(), "worker_1", 60)
    stores.shards.drain(leased)
    stores.queue.release(leased)
    assert (ShardState.CLOSED, None, 2) == (only(stores).state, only(stores).owner, only(stores).epoch)
    assert [] == queued(stores.queue)


def test_a_shard_that_is_done_leaves_the_queue(stores: Stores) -> None:
    """Its lease has ended with its last line."""
    leased = stores.queue.lease(shard(), "worker_1", 60)
    stores.chunks.commit(leased, chunk(leased, completed=10, failed=0))
    assert [] == queued(stores.queue)
    stores.queue.release(leased)
    with pytest.raises(Fenced):
        stores.queue.renew(leased, 60)
    assert ShardState.DONE is only(stores).state


def test_heartbeats_and_commits_do_not_undo_each_other(stores: Stores) -> None:
    """A worker does both at the same time."""
    leased = stores.queue.lease(shard(lines=100), "worker_1", 60)

    def race(number: int) -> None:
        if number:
            stores.queue.renew(leased, 67)
        else:
            stores.chunks.commit(leased, chunk(leased))

    assert [None] * 8 == at_once(8, race)
    assert (2, 1, 67) == (only(stores).completed, only(stores).failed, only(stores).lease_until)
