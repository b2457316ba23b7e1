"""The states of the lifecycle between Validate and Finalize. Each may run twice: the second time it changes nothing.

Every state reads the batch first and falls through when its work is done, so that an execution that starts over (a new generation after a
failure) walks the same way to where the last one stopped.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice

import msgspec

from shared.core import lease, lifecycle, paths, plan
from shared.core.groups import grouped
from shared.core.ids import BatchRef
from shared.core.lifecycle import Event
from shared.core.models import Registry
from shared.core.plan import Cut, PlanLine, ShardPlan, ShardSize
from shared.core.records import Batch, BatchError, Shard, ShardState
from shared.core.scan import Entry
from shared.core.window import DRAIN, Timing, input_until, is_overdue
from shared.ports import BatchStore, Blobs, Clock, Shards, Workflow
from shared.services import inputs
from shared.services.fleet import FleetService
from shared.services.leases import take_back
from shared.services.wake import unanswered

PUT_SHARDS = 100
ROUNDS = 1000
"""Looks of Reconcile after which the next generation goes on: about 12 history events each, of the 25,000 that an execution may have."""
BEHIND = 300.0
"""Seconds by which the clock of a worker may be behind before its leases seem to have run out. A lost one's are taken back earlier, by who hears of its end
or sees that nobody renews them (`gpu_job.leasing`)."""


class Next(StrEnum):
    """Where an execution goes from here; the choices of the state machine."""

    SCAN = "scan"
    ADMIT = "admit"
    RUN = "run"
    DRAIN = "drain"
    CLOSE = "close"
    FINALIZE = "finalize"
    NOTIFY = "notify"
    END = "end"


class Pipeline:
    """Admit, Plan, Run, Reconcile, Drain, Close and Fail."""

    def __init__(
        self,
        *,
        batches: BatchStore,
        shards: Shards,
        blobs: Blobs,
        workflow: Workflow,
        fleet: FleetService,
        registry: Registry,
        clock: Clock,
        timing: Timing,
        shard_size: ShardSize,
    ) -> None:
        self._batches = batches
        self._shards = shards
        self._blobs = blobs
        self._workflow = workflow
        self._fleet = fleet
        self._registry = registry
        self._clock = clock
        self._timing = timing
        self._shard_size = shard_size

    def tick(self, batch: Batch) -> int:
        """Give the seconds that a waiting state sleeps before it looks again by itself."""
        return self._timing.tick(self._clock(), batch)

    def admit(self, ref: BatchRef) -> Batch:
        """Let a validated batch in, or expire it when its deadline has passed already."""
        now = int(self._clock())

        def change(batch: Batch) -> Batch:
            if batch.ending is not None or lifecycle.is_terminal(batch):
                return batch
            return lifecycle.advance(batch, Event.EXPIRE if is_overdue(batch, now) else Event.ADMIT, now)

        return self._batches.update(ref, change)

    def plan(self, ref: BatchRef) -> Batch:
        """Cut the file into shards. Of a batch that was ended meanwhile they are closed from the start: its lines still need their rows."""
        batch = self._batches.get(ref)
        if lifecycle.is_terminal(batch) or batch.shards is not None:
            return batch
        if batch.model is None or batch.revision is None:
            raise AssertionError(f"{ref} was not validated")
        cap, size = self._registry[batch.model].max_output, self._shard_size
        if batch.counts.total > size.shards:  # otherwise there cannot be too many
            size = plan.widened(size, self._lines(batch), cap)
        count = self._put_shards(batch, batch.revision, plan.cut(grouped(self._lines(batch)), size, cap))
        batch = self._batches.update(ref, lambda batch: _unless_ended(batch, shards=count))
        if lifecycle.is_terminal(batch):
            self._withdraw(ref)
        return batch

    def _lines(self, batch: Batch) -> Iterator[Entry]:
        return (item for item in inputs.index(batch, self._blobs) if isinstance(item, Entry))

    def _withdraw(self, ref: BatchRef) -> None:
        """Leave nothing of a plan that came too late: its batch has ended, and nobody is to work at it."""
        self.close(ref)
        self._blobs.delete(paths.plans(ref))

    def _put_shards(self, batch: Batch, revision: str, cuts: Iterable[Cut]) -> int:
        count = 0
        urgent_at = self._timing.urgent_at(batch)
        while some := list(islice(cuts, PUT_SHARDS)):
            records = []
            for cut in some:
                shard = plan.shard(batch, revision, count, cut, urgent_at)
                self._blobs.put(paths.plan(batch.ref, count), plan.encode(_shard_plan(batch, cut.lines)))
                records.append(shard)
                count += 1
            self._shards.put(records)  # only now: a worker that sees a shard finds its plan
        return count

    def run(self, ref: BatchRef, token: str) -> None:
        """Store the token, then look: whoever makes the run end afterwards finds the token, whoever did so before is seen here."""
        batch = self._batches.update(ref, lambda batch: _unless_ended(batch, token=token))
        left = unanswered(self._shards, ref)
        if self._is_over(batch, left):
            self._workflow.resume(token)
        elif batch.revision is not None:
            self._fleet.ensure(batch.revision, known=left)

    def reconcile(self, ref: BatchRef, rounds: int, generation: int) -> tuple[Batch, Next]:
        """Look at a running batch: end the run when it is over, otherwise take back leases that ran out long ago and ask for workers.

        `rounds` counts the looks of this execution, which is of that generation: a very long run continues in a new one, before its history is
        full. An execution that finds a later one at work leaves the batch to it.
        """
        batch = self._batches.get(ref)
        if lifecycle.is_terminal(batch):
            return batch, Next.END
        left = unanswered(self._shards, ref)
        if self._is_over(batch, left):
            event = Event.EXPIRE if left else Event.DRAIN
            return self._batches.update(ref, lambda batch: self._ended(batch, event)), Next.DRAIN
        take_back(self._shards, left, self._clock() - BEHIND)
        if batch.revision is not None:
            self._fleet.ensure(batch.revision, known=left)
        if rounds >= ROUNDS or batch.generation > generation:
            return self.restart(ref, generation), Next.END
        return batch, Next.RUN

    def _ended(self, batch: Batch, event: Event) -> Batch:
        if batch.ending is not None or lifecycle.is_terminal(batch):
            return batch
        return lifecycle.advance(batch, event, int(self._clock()))

    def drain(self, ref: BatchRef) -> tuple[Batch, Next]:
        """Stop the leasing, and say whether to wait for workers to give their leases back: they commit what is finished first."""
        now = int(self._clock())
        batch = self._batches.update(
            ref,
            lambda batch: batch if batch.drain_until is not None else _unless_ended(batch, drain_until=now + DRAIN),
        )
        for shard in self._shards.of(ref):
            if lease.is_open(shard) and not shard.draining:
                self._shards.drain(shard)
        leased = any(shard.state is ShardState.LEASED for shard in self._shards.of(ref))
        over = batch.drain_until is None or now >= batch.drain_until
        return batch, Next.DRAIN if leased and not over else Next.CLOSE

    def close(self, ref: BatchRef) -> Batch:
        """Raise the fence: no commit succeeds afterwards. Shards that are done have taken their last one already."""
        for shard in self._shards.of(ref):
            if lease.is_open(shard):
                self._shards.close(shard)
        return self._batches.get(ref)

    def fail(self, ref: BatchRef) -> tuple[Batch, Next]:
        """End a batch that the system could not go on with. What was committed is still delivered; an unplanned batch has nothing to deliver."""
        now = int(self._clock())
        until = input_until(self._batches.get(ref), now)
        batch = self._batches.finish(ref, lambda batch: self._rejected(batch, now), (), input_until=until)
        if not lifecycle.is_terminal(batch):
            return self._batches.update(ref, lambda batch: self._faulted(batch, now)), Next.DRAIN
        if batch.shards is None:
            self._withdraw(ref)
        return batch, Next.NOTIFY

    def _faulted(self, batch: Batch, now: int) -> Batch:
        return batch if lifecycle.is_terminal(batch) else lifecycle.advance(batch, Event.FAULT, now)

    def _rejected(self, batch: Batch, now: int) -> Batch:
        if lifecycle.is_terminal(batch) or batch.shards is not None:
            return batch
        message = "The batch could not be started because of an internal error. Nothing ran; create it again."
        batch = msgspec.structs.replace(
            batch, errors=(BatchError(code="server_error", message=message),), errors_total=1
        )
        if batch.ending is not None:
            return lifecycle.advance(batch, lifecycle.PUBLISH[batch.ending], now)
        return lifecycle.advance(batch, Event.REJECT, now)

    def revive(self, ref: BatchRef, *, at_most: int | None = None) -> None:
        """Make sure that an execution drives the batch: start the one that is missing, or the next after one that failed.

        With `at_most`: unless the batch has had so many; somebody else comes by later.
        """
        batch = self._batches.get(ref)
        if at_most is not None and batch.generation >= at_most:
            return
        if lifecycle.is_terminal(batch) or self._workflow.start(ref, batch.generation):
            return
        self.restart(ref, batch.generation)  # it had run, and ended without ending the batch

    def restart(self, ref: BatchRef, generation: int) -> Batch:
        """Let the execution after that of `generation` drive the batch. Of several callers one starts it; repeated, it is the same one."""

        def change(latest: Batch) -> Batch:
            return _unless_ended(latest, generation=generation + 1) if latest.generation == generation else latest

        batch = self._batches.update(ref, change)
        if not lifecycle.is_terminal(batch):
            self._workflow.start(ref, batch.generation)
        return batch

    def _is_over(self, batch: Batch, left: list[Shard]) -> bool:
        over = lifecycle.is_terminal(batch) or batch.ending is not None
        return over or not left or is_overdue(batch, self._clock())


def _unless_ended(batch: Batch, **changes: object) -> Batch:
    """Change a record; that of a batch that has ended never changes again, whoever comes late."""
    return batch if lifecycle.is_terminal(batch) else msgspec.structs.replace(batch, **changes)


def _shard_plan(batch: Batch, lines: list[PlanLine]) -> ShardPlan:
    return ShardPlan(
        batch=batch.id,
        org=batch.org,
        contract=batch.contract,
        input_key=paths.file(batch.org, batch.input_file_id),
        endpoint=batch.endpoint,
        lines=lines,
    )
