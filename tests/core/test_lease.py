"""What may happen to a shard, in every state and from every copy of it."""

from collections.abc import Callable
from itertools import product

import pytest
from msgspec.structs import replace

from shared.core import lease
from shared.core.errors import Conflict
from shared.core.plan import committed
from shared.core.records import Chunk, Shard, ShardState, Usage

READY = Shard(
    org="acme", contract="openai", batch="batch_1", index=0, revision="echo@1", lines=4, rank="1", epoch=4, completed=1
)
LEASED = replace(READY, state=ShardState.LEASED, owner="worker_1", lease_until=60, epoch=5)
STATES = [
    READY,
    LEASED,
    replace(LEASED, draining=True),
    replace(LEASED, stalls=2, bite=2),
    replace(LEASED, state=ShardState.DONE, owner=None, lease_until=0, completed=4),
    replace(LEASED, state=ShardState.CLOSED, owner=None, lease_until=0, epoch=6),
]
COPIES = [READY, LEASED, replace(LEASED, epoch=3), replace(LEASED, epoch=6)]

CHANGES: dict[str, Callable[[Shard, Shard], Shard]] = {
    "taken": lambda now, seen: lease.taken(now, seen, "worker_1", 70),
    "taken by another": lambda now, seen: lease.taken(now, seen, "worker_2", 70),
    "renewed": lambda now, seen: lease.renewed(now, seen, 70),
    "released": lease.released,
    "reclaimed": lambda now, seen: lease.reclaimed(now, seen, 70),
    "drained": lambda now, _: lease.drained(now),
    "closed": lambda now, _: lease.closed(now),
}


def chunk(epoch: int, completed: int = 1, failed: int = 1) -> Chunk:
    """Give a chunk of some rows."""
    return Chunk(
        shard=0,
        epoch=epoch,
        seq=0,
        key="key",
        etag="etag",
        output_bytes=1,
        error_bytes=1,
        completed=completed,
        failed=failed,
        usage=Usage(output_tokens=7),
        bitmap=b"\x03",
    )


@pytest.mark.parametrize(("name", "now", "seen"), list(product(CHANGES, STATES, COPIES)))
def test_whatever_happens_a_shard_stays_in_order(name: str, now: Shard, seen: Shard) -> None:
    """Rows are kept, epochs never go back, owner and lease are there while it is leased, and a ready shard is not draining."""
    try:
        after = CHANGES[name](now, seen)
    except Conflict:
        return
    assert (now.completed, now.failed, now.usage) == (after.completed, after.failed, after.usage)
    assert now.epoch <= after.epoch
    assert (after.state is ShardState.LEASED) == (after.owner is not None)
    assert not (after.draining and after.state is ShardState.READY)
    if now.state in {ShardState.DONE, ShardState.CLOSED}:
        assert after.state in {now.state, ShardState.CLOSED}


@pytest.mark.parametrize("name", ["renewed", "released", "reclaimed"])
@pytest.mark.parametrize("now", STATES)
def test_a_copy_of_another_epoch_changes_nothing(name: str, now: Shard) -> None:
    """Whoever holds another epoch holds nothing."""
    for epoch in {3, 4, 5, 6, 7} - {now.epoch}:
        try:
            assert now == CHANGES[name](now, replace(LEASED, epoch=epoch))
        except Conflict:
            continue


@pytest.mark.parametrize("now", STATES)
def test_a_closed_shard_voids_every_epoch_before(now: Shard) -> None:
    """Nothing that was leased before the fence may commit behind it."""
    closed = lease.closed(now)
    assert ShardState.CLOSED is closed.state
    for epoch in range(closed.epoch + 1):
        with pytest.raises(Conflict):
            lease.insist(closed, replace(now, epoch=epoch))
    assert closed == lease.closed(closed)


def test_a_commit_counts_its_rows_and_takes_the_stalls_back() -> None:
    """The bite is the caller's own business."""
    after = committed(replace(LEASED, stalls=2, bite=2), chunk(5))
    assert replace(LEASED, completed=2, failed=1, usage=Usage(output_tokens=7), bite=2) == after


def test_the_commit_of_the_last_line_ends_the_lease() -> None:
    """The shard is done, and nobody's."""
    after = committed(LEASED, chunk(5, completed=2))
    assert (ShardState.DONE, None, 0, 4) == (after.state, after.owner, after.lease_until, after.answered)


@pytest.mark.parametrize("wrong", [chunk(4), chunk(5, completed=3), chunk(5, completed=0, failed=0)])
def test_a_chunk_that_cannot_be_of_the_lease_is_a_mistake(wrong: Chunk) -> None:
    """Another epoch, more rows than lines are left, or none."""
    with pytest.raises(AssertionError):
        committed(LEASED, wrong)
