"""The lease of a shard: what worker, sweep and lifecycle may do to it. The same for every store, which only has to write atomically.

- A lease is an epoch. Whoever holds another epoch than the record holds nothing, whatever its own copy says.
- `now` is the record as it is; `seen` is the caller's copy, which may be old.
- Owner and lease are there exactly while the shard is leased. A draining shard is leased: it closes when the lease ends, however it ends.
- `closed` is the fence: nothing but another closing follows it.
"""

import msgspec

from shared.core.errors import Conflict, Fenced
from shared.core.plan import stalled
from shared.core.records import Shard, ShardState


def is_open(shard: Shard) -> bool:
    """Whether the shard still takes commits, now or after a lease."""
    return shard.state in {ShardState.READY, ShardState.LEASED}


def holds(now: Shard, seen: Shard) -> bool:
    """Whether the lease of `seen.epoch` is the one that counts."""
    return now.state is ShardState.LEASED and now.epoch == seen.epoch


def taken(now: Shard, seen: Shard, owner: str, until: float) -> Shard:
    """Lease a ready shard at the next epoch.

    Conflict unless it is ready at the epoch of `seen`: a call that arrives late must not lease what was leased and given back
    since. The lease that `owner` has got from `seen` already is given again.
    """
    if now.state is ShardState.LEASED and (now.owner, now.epoch) == (owner, seen.epoch + 1):
        return msgspec.structs.replace(now, lease_until=max(now.lease_until, until))
    if now.state is not ShardState.READY or now.epoch != seen.epoch:
        raise Conflict(f"shard {seen.index} of {seen.ref} cannot be leased any more: look at the queue again")
    return msgspec.structs.replace(now, state=ShardState.LEASED, owner=owner, lease_until=until, epoch=now.epoch + 1)


def renewed(now: Shard, seen: Shard, until: float) -> Shard:
    """Let the lease last until then, by the clock of its holder; Fenced when it is lost.

    Be it shorter than it was: by its change others see that the holder lives, and a clock that has been set back goes on from there.
    """
    if not holds(now, seen):
        raise fenced(seen)
    return msgspec.structs.replace(now, lease_until=until)


def released(now: Shard, seen: Shard) -> Shard:
    """Give the lease back; the shard as it is when the lease is lost."""
    if not holds(now, seen):
        return now
    if now.draining:
        return closed(now)
    return msgspec.structs.replace(now, state=ShardState.READY, owner=None, lease_until=0)


def reclaimed(now: Shard, seen: Shard, at: float) -> Shard:
    """Take the lease away; the shard as it is when that lease is lost already."""
    if not holds(now, seen):
        return now
    return closed(now) if now.draining else stalled(now, at)


def drained(now: Shard) -> Shard:
    """Stop an open shard: at once when nobody leases it, else when the lease ends."""
    if now.state is ShardState.LEASED:
        return msgspec.structs.replace(now, draining=True)
    return closed(now) if now.state is ShardState.READY else now


def closed(now: Shard) -> Shard:
    """Close the shard whatever its state, and void every lease of it by the next epoch; closed stays as it is."""
    if now.state is ShardState.CLOSED:
        return now
    return msgspec.structs.replace(now, state=ShardState.CLOSED, owner=None, lease_until=0, epoch=now.epoch + 1)


def insist(now: Shard, seen: Shard) -> None:
    """Insist that a commit from `seen` may count: Fenced when its lease is lost, Conflict when `seen` misses a commit of its own lease."""
    if not holds(now, seen):
        raise fenced(seen)
    if (now.completed, now.failed) != (seen.completed, seen.failed):
        raise Conflict(f"shard {seen.index} of {seen.ref} has commits that the caller does not know: find them first")


def fenced(seen: Shard) -> Fenced:
    """Give the error of a lost lease."""
    return Fenced(
        f"epoch {seen.epoch} does not hold shard {seen.index} of {seen.ref}: nothing of it will count any more"
    )
