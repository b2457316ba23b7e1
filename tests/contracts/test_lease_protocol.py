"""Leases and commits in any order: workers that lease, renew, commit, give back and vanish, zombies that go on, a lifecycle that drains and closes.

Hypothesis looks for an order in which a row counts twice, is lost after its commit was told, or counts behind the fence. The same over memory and over moto.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from threading import RLock
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from gpu_job.chunks import Committer
from gpu_job.row import Finished
from shared.adapters.memory import MemoryBlobs
from shared.core import merge
from shared.core.errors import Conflict, Fenced, Unavailable
from shared.core.ids import BatchRef
from shared.core.records import Chunk, Shard, ShardState, Usage
from shared.ports import ChunkLog
from shared.services.leases import take_back
from tests.contracts.conftest import Stores
from tests.contracts.samples import REVISION, shard
from tests.fakes import Fault, Hostile, duplicate, fail, lose_answer

LINES = (1, 8, 8)
"""Of the shards of the batch."""
LEASE = 60.0
SELDOM = st.sampled_from([False, *[True] * 15])
"""Whether not to end a shard now: one that has ended has no more to tell."""
_batches = count()

FAULTS: dict[str, dict[str, Sequence[Fault]]] = {
    "fair": {},
    "twice": {"commit": [duplicate]},
    "never arrived": {"commit": [fail, fail]},
    "answer lost": {"commit": [lose_answer]},
    "answer lost, and not found at first": {"commit": [lose_answer, fail], "find": [fail]},
    "away": {"commit": [fail] * 20, "find": [fail] * 20},
    "away, and came through once": {"commit": [lose_answer, *[fail] * 20], "find": [fail] * 20},
}
"""What the calls of one commit meet."""


class Holder:
    """A worker that has leased a shard, and believes what it last knew: which lines have no row yet, and how the shard stands."""

    def __init__(self, view: Shard, todo: Sequence[int]) -> None:
        self.view = view
        self.todo = list(todo)
        self.seq = 0


class Protocol(RuleBasedStateMachine):
    """The shards of one batch, and all who have to do with them."""

    holders: Bundle[Holder] = Bundle("holders")

    def __init__(self, stores: Stores) -> None:
        super().__init__()
        self.stores = stores
        self.blobs = MemoryBlobs(RLock())
        self.ref = BatchRef("acme", "openai", f"batch_{next(_batches)}")
        self.revision = f"{REVISION}/{self.ref.id}"
        self.names = count()
        self.time = 0.0
        self.told: defaultdict[int, set[int]] = defaultdict(set)
        self.epochs = dict.fromkeys(range(len(LINES)), 0)
        self.closed: dict[int, tuple[Shard, list[Chunk]]] = {}

    @initialize(target=holders)
    def begin(self) -> Any:
        """Put the shards, and lease some of them."""
        self.stores.shards.put([shard(index, lines, self.ref, self.revision) for index, lines in enumerate(LINES)])
        return multiple(self.lease(1, again=False), self.lease(2, again=True))

    def now(self, index: int) -> Shard:
        """Give a shard as it is."""
        return self.stores.shards.of(self.ref)[index]

    indices = st.integers(0, len(LINES) - 1)

    @rule(target=holders, index=indices, again=st.booleans())
    def lease_one(self, index: int, *, again: bool) -> Any:
        """A worker comes by; now and then it does not hear the first answer, and asks twice."""
        return self.lease(index, again=again)

    def lease(self, index: int, *, again: bool) -> Any:
        """Lease a shard that is ready, as workers do: the lines that it must answer are those that no chunk does."""
        seen = self.now(index)
        try:
            view = self.stores.queue.lease(seen, f"worker_{next(self.names)}", self.time + LEASE)
        except Conflict:
            assert seen.state is not ShardState.READY
            return multiple()
        assert (ShardState.READY, seen.epoch + 1) == (seen.state, view.epoch)
        if again and view.owner is not None:  # its answer was lost
            assert view == self.stores.queue.lease(seen, view.owner, self.time + LEASE)
        todo = merge.missing(seen.lines, list(self.stores.chunks.of(self.ref, index)))
        return Holder(view, todo)

    @rule(holder=holders)
    def lease_from_an_old_copy(self, holder: Holder) -> None:
        """A call of long ago arrives: it leases nothing that was leased since."""
        with pytest.raises(Conflict):
            self.stores.queue.lease(holder.view, f"worker_{next(self.names)}", self.time + LEASE)

    @rule(holder=holders)
    def renew(self, holder: Holder) -> None:
        """Who holds the lease prolongs it; who has lost it is told."""
        before = self.now(holder.view.index)
        try:
            after = self.stores.queue.renew(holder.view, self.time + LEASE)
        except Fenced:
            assert not self.holds(holder, before)
        else:
            assert self.holds(holder, before)
            assert after.lease_until >= before.lease_until

    @rule(holder=holders, number=st.integers(1, 3), bad=st.integers(0, 2), weather=st.sampled_from(sorted(FAULTS)))
    def commit(self, holder: Holder, number: int, bad: int, weather: str) -> None:
        """Commit the next rows of a lease, be it lost long ago. What is told to be committed is; what is fenced is not."""
        positions = holder.todo[:number]
        if not positions:
            return
        used = Usage(input_tokens=7, output_tokens=3)
        found = [Finished(position, ok=position % 3 >= bad, data=b"row\n", usage=used) for position in positions]
        before = self.now(holder.view.index)
        committer = self.committer(Hostile(self.stores.chunks, FAULTS[weather]).port)
        try:
            view = committer.commit(holder.view, holder.seq, found, 5)
        except Unavailable:
            holder.todo = []  # it lets go, as a worker does that cannot know
        except Fenced:
            assert not self.holds(holder, before)
            assert before == self.now(before.index)
        else:
            assert self.holds(holder, before)
            assert view.answered == self.now(view.index).answered
            self.told[view.index].update(positions)
            holder.view, holder.seq, holder.todo = view, holder.seq + 1, holder.todo[number:]

    @rule(holder=holders, taken=st.booleans())
    def a_twin(self, holder: Holder, *, taken: bool) -> None:
        """Another process of that lease, which knows of no commit yet, takes a number that is taken, or the next: nothing of it counts."""
        if not holder.seq:
            return
        before = self.now(holder.view.index)
        view = replace(holder.view, completed=0, failed=0)
        twin = self.committer(self.stores.chunks)
        with pytest.raises(Fenced if taken else Conflict):
            twin.commit(view, 0 if taken else holder.seq, [Finished(0, ok=True, data=b"twin\n")])
        assert before == self.now(before.index)

    @rule(holder=consumes(holders))
    def release(self, holder: Holder) -> None:
        """Give the lease back, if it still is one, and be gone."""
        before = self.now(holder.view.index)
        self.stores.queue.release(holder.view)
        after = self.now(holder.view.index)
        if not self.holds(holder, before):
            assert before == after
        else:
            assert (None, before.stalls) == (after.owner, after.stalls)

    @rule(seconds=st.sampled_from([20.0, 61.0]), ahead=st.sampled_from([0.0, 300.0]))
    def take_back(self, seconds: float, ahead: float) -> None:
        """Time passes, and somebody looks whose leases have run out, by a clock that may be wrong."""
        self.time += seconds
        before = self.stores.shards.of(self.ref)
        take_back(self.stores.shards, before, self.time + ahead)
        for old, new in zip(before, self.stores.shards.of(self.ref), strict=True):
            lapsed = old.state is ShardState.LEASED and old.lease_until < self.time + ahead
            assert lapsed == (old != new)

    @rule(target=holders, holder=holders)
    def steal(self, holder: Holder) -> Any:
        """Take a lease away that a worker still believes in, and take the shard; the worker goes on."""
        before = self.now(holder.view.index)
        assert self.holds(holder, before) == self.stores.shards.reclaim(holder.view, self.time)
        return self.lease(before.index, again=False)

    @rule(index=indices, never=SELDOM)
    def drain(self, index: int, *, never: bool) -> None:
        """Stop a shard."""
        if never:
            return
        before = self.now(index)
        self.stores.shards.drain(before)
        after = self.now(index)
        assert before.state is not ShardState.READY or after.state is ShardState.CLOSED
        assert before.state is not ShardState.LEASED or after.draining

    @rule(index=indices, never=SELDOM)
    def close(self, index: int, *, never: bool) -> None:
        """Raise the fence: what is committed now is all that ever will be."""
        if never:
            return
        before = self.now(index)
        self.stores.shards.close(before)
        after = self.now(index)
        assert ShardState.CLOSED is after.state
        assert after.epoch > before.epoch or before == after

    def committer(self, log: ChunkLog) -> Committer:
        """Give the hands of a worker."""
        return Committer(blobs=self.blobs, log=log, new_id=lambda _: str(next(self.names)), sleep=lambda _: None)

    def holds(self, holder: Holder, now: Shard) -> bool:
        """Whether the lease is the one that counts."""
        return now.state is ShardState.LEASED and now.epoch == holder.view.epoch

    @invariant()
    def every_row_counts_once_and_nothing_behind_the_fence(self) -> None:
        """Counters are the sums of committed chunks, no position has two rows, what was told to be committed is; epochs grow, what is closed stays."""
        chunks = list(self.stores.chunks.of(self.ref))
        for now in self.stores.shards.of(self.ref):
            mine = [chunk for chunk in chunks if chunk.shard == now.index]
            missing = merge.missing(now.lines, mine)  # which raises where a position has two
            assert now.answered == now.lines - len(missing)
            assert now.completed == sum(chunk.completed for chunk in mine)
            assert now.usage == sum((chunk.usage for chunk in mine), Usage())
            assert now.gpu_ms == 5 * len(mine)
            assert not self.told[now.index].intersection(missing)
            assert missing or now.state in {ShardState.DONE, ShardState.CLOSED}
            assert not missing or now.state is not ShardState.DONE
            assert now.epoch >= self.epochs[now.index]
            self.epochs[now.index] = now.epoch
            if now.index in self.closed or now.state is ShardState.CLOSED:
                assert (now, mine) == self.closed.setdefault(now.index, (now, mine))


EXAMPLES = {"memory": 500, "aws": 10}
"""Moto is a hundred times slower, and is not asked for the shortest story of a failure."""


def test_no_order_of_leases_and_commits_counts_a_row_twice_or_loses_one(stores: Stores, place: str) -> None:
    """As far as hypothesis looks."""
    phases = [Phase.generate, Phase.shrink] if place == "memory" else [Phase.generate]
    suppressed = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        lambda: Protocol(stores),
        settings=settings(
            max_examples=EXAMPLES[place],
            stateful_step_count=40,
            phases=phases,
            deadline=None,
            derandomize=True,
            suppress_health_check=suppressed,
        ),
    )
