"""A worker of the simulation: the real takes, commits, renewals and releases of `gpu_job`, around an engine that is a model of throughput.

It sends the lines of a shard as there is room, leases the next when all are sent, and commits finished rows as `gpu_job.shard_run` does.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from bench.fleet.throughput import Engine
from gpu_job.chunks import Committer
from gpu_job.leasing import Leasing
from gpu_job.meter import Meter
from gpu_job.row import Finished
from gpu_job.shard_run import CHUNK_ROWS, ENDING_SECONDS
from shared.core import merge, paths, plan
from shared.core.errors import Conflict, Fenced, Unavailable
from shared.core.records import Shard, ShardState, Usage
from shared.settings import WorkerSettings

if TYPE_CHECKING:
    from bench.fleet.harbour import Harbour

CALL = 0.05
"""Seconds that a call of a store takes."""
POLL = 1.0
AWAY = 5.0
NOT_NOW = (Conflict, Unavailable)


class Run:
    """A leased shard in a worker."""

    def __init__(self, shard: Shard, names: list[str], first: int, todo: tuple[int, ...], now: float) -> None:
        self.shard = shard
        self.names = names
        self.first = first
        self.todo = list(reversed(todo))
        self.inside = 0
        self.rows: list[Finished] = []
        self.oldest = 0.0
        self.seq = 0
        self.renew_at = now
        self.free_at = now
        self.lost = False

    @property
    def through(self) -> bool:
        """Whether every line was sent and has come out."""
        return not self.todo and not self.inside

    def due_at(self, patience: float) -> float:
        """Give when its rows are to be committed."""
        if self.through or len(self.rows) >= CHUNK_ROWS:
            return self.free_at
        if not self.rows:
            return float("inf")
        return max(self.free_at, self.oldest + (patience if self.todo else ENDING_SECONDS))


class Hand:
    """One worker, from its engine's start to its end."""

    def __init__(self, harbour: "Harbour", name: str) -> None:
        self.dead = False
        self.silent_until: float | None = None
        self._harbour = harbour
        self._name = name
        self._settings = WorkerSettings(
            bucket="", table_prefix="", models_file="", region="", revision=harbour.model.revision, worker=name, job=name,
            state_machine_arn="", state_dir="",
        )  # fmt: skip
        self._engine: Engine[Run] = Engine()
        self._leasing = Leasing(
            self._settings,
            queue=harbour.shards,
            shards=harbour.shards,
            batches=harbour.batches,
            clock=harbour.clock,
            timer=harbour.clock,
        )
        self._paused: list[float] = []
        self._committer = Committer(
            blobs=harbour.memory.blobs, log=harbour.chunks, new_id=harbour.new_id, sleep=self._paused.append
        )
        self._meter = Meter(harbour.clock, self._settings.gpus)
        self._runs: list[Run] = []
        self._feeding: Run | None = None
        self._look_at = harbour.now
        self._busy_at = harbour.now
        self._next = 0.0

    def step(self) -> None:
        """Do what is due now, and come again when something else is."""
        now = self._harbour.now
        if self.dead or self.silent_until is not None:
            return
        for run, position in self._engine.finished(now):
            run.inside -= 1
            self._harbour.log.counts["rows"] += 1
            if not run.lost:
                self._keep(run, position)
        for run in list(self._runs):
            self._renew(run)
            if not run.lost and run.due_at(self._settings.chunk_seconds) <= now:
                self._commit(run)
        self._fill()
        if not self._may_leave():
            self._come_again()

    def _keep(self, run: Run, position: int) -> None:
        tokens = self._harbour.voyages[run.shard.ref].tokens[run.first + position]
        if not run.rows:
            run.oldest = self._harbour.now
        run.rows.append(Finished(position, ok=True, data=f"{run.names[position]}\n".encode(), usage=_usage(tokens)))

    def _come_again(self) -> None:
        patience = self._settings.chunk_seconds
        times = [self._engine.next(), *(min(run.renew_at, run.due_at(patience)) for run in self._runs)]
        if self._has_room():
            times.append(self._look_at)
        self._next = mine = max(self._harbour.now, min(times))
        self._harbour.at(mine, lambda: self.step() if mine == self._next else None)

    def _has_room(self) -> bool:
        return len(self._engine.inside) < self._harbour.model.max_in_flight

    def _renew(self, run: Run) -> None:
        now = self._harbour.now
        if now < run.renew_at:
            return
        run.renew_at = now + self._settings.heartbeat_seconds
        try:
            self._harbour.shards.renew(run.shard, self._harbour.clock() + self._settings.lease_seconds)
        except Fenced:
            self._lose(run)
        except NOT_NOW:
            pass

    def _commit(self, run: Run) -> None:
        rows, run.rows = run.rows, []
        if rows:
            self._paused.clear()
            try:
                run.shard = self._committer.commit(run.shard, run.seq, rows, self._meter.take(run.shard.ref))
            except (Fenced, Unavailable):
                self._lose(run)
                return
            run.seq += 1
            run.free_at = self._harbour.now + CALL + sum(self._paused)
            self._harbour.committed(run.shard.ref, len(rows))
        if run.through:
            self._end(run)
            if run.shard.state is ShardState.DONE:
                self._harbour.done(run.shard.ref)
            else:
                with suppress(*NOT_NOW):
                    self._harbour.shards.release(run.shard)

    def _lose(self, run: Run) -> None:
        self._harbour.log.counts["leases lost"] += 1
        run.lost = True
        run.todo.clear()
        self._end(run)

    def _end(self, run: Run) -> None:
        self._runs.remove(run)
        self._meter.end(run.shard.ref)

    def _fill(self) -> None:
        now = self._harbour.now
        while self._has_room() and now >= self._look_at:
            if self._feeding is None or not self._feeding.todo:
                self._feeding = self._take()
                return
            run = self._feeding
            position = run.todo.pop()
            run.inside += 1
            self._engine.add(now, self._harbour.voyages[run.shard.ref].tokens[run.first + position], run, position)

    def _take(self) -> Run | None:
        """Lease a shard and read its lines, which takes some calls; without one look again later."""
        now = self._harbour.now
        try:
            shard = self._leasing.take(busy=bool(self._runs))
        except NOT_NOW:
            self._look_at = now + AWAY
            return None
        if shard is None:
            self._look_at = now + POLL
            return None
        self._look_at = now + 5 * CALL
        body = plan.decode(self._harbour.memory.blobs.get(paths.plan(shard.ref, shard.index)))
        todo = merge.missing(shard.lines, list(self._harbour.memory.chunks.of(shard.ref, shard.index)))
        run = Run(shard, [line.custom_id for line in body.lines], body.lines[0].line - 1, todo, self._look_at)
        run.renew_at = now + self._settings.heartbeat_seconds
        self._runs.append(run)
        self._meter.begin(shard.ref)
        return run

    def _may_leave(self) -> bool:
        now = self._harbour.now
        if self._runs:
            self._busy_at = now
        if now - self._busy_at <= self._settings.idle_seconds:
            return False
        self.dead = True
        self._harbour.left(self._name)
        return True


def _usage(tokens: int) -> Usage:
    return Usage(input_tokens=100, output_tokens=tokens)
