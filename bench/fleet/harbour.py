"""A fleet at work on a virtual clock, over stores in memory. Real are queue, leases, commits, shards, roster, and the states from Run to Close.

Played are AWS, the engines, the worker's loop (`bench.fleet.hand`), and the states before Run and after Close.

Calls of the stores meet faults: throttles, conflicts, answers that are lost. Workers are lost without a word, in one of three ways:

    ended    the job is over: its leases are taken back at once, and another worker is asked for
    retried  AWS Batch starts the job again on another host; nobody is told, and the leases run out
    silent   the host is cut off for longer than a lease lasts, and then goes on as if nothing had happened: it must be fenced
"""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from itertools import count, islice

from bench.fleet.hand import Hand
from bench.fleet.records import Log, Voyage, Work
from shared.adapters.memory import Memory
from shared.core import paths, plan
from shared.core.errors import Conflict, SlackwaterError, Unavailable
from shared.core.ids import BatchRef
from shared.core.models import Model, Registry
from shared.core.plan import ShardPlan, ShardSize
from shared.core.records import Batch, Counts, File, Status
from shared.core.scan import Entry
from shared.core.window import Timing
from shared.services.fleet import FleetService
from shared.services.pipeline import Next, Pipeline
from shared.services.roster import Roster
from shared.services.wake import Wake
from tests.fakes import Fault, lose_answer, ok
from tests.system.weather import Weather, crowded, throttle

START = 1_800_000_000.0
REVISION = "llama@1"
URL = "/v1/chat/completions"
CAP = 1024
BOOT = (120.0, 240.0)
"""Seconds from the submission of a job to a running engine: a host, the image, the weights."""
EVENT = 2.0
"""Seconds until somebody hears that a job has ended."""
SILENCE = 90.0
RETRY = 5.0
"""Seconds until a state, or an event, that met a store that was away is tried again."""
FAULTS: tuple[Fault, ...] = (throttle, crowded, lose_answer)


class Harbour:
    """Everything.

    Args:
        seed: Whence all chance comes.
        workers: The most workers.
        kill_every: Seconds between two losses.
        fault_rate: The part of all calls of the tables that meet a fault.

    """

    def __init__(self, *, seed: int, workers: int, kill_every: float, fault_rate: float) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - a simulation
        self.now = 0.0
        self.log = Log()
        self.voyages: dict[BatchRef, Voyage] = {}
        self.hands: dict[str, Hand] = {}
        self._kill_every = kill_every
        self._fault_rate = fault_rate
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count(1)
        self.memory = Memory()
        weather = Weather()
        weather.rule = self._fault
        over = weather.over
        self.batches, self.shards = over("batches", self.memory.batches), over("shards", self.memory.shards)
        self.chunks = over("chunks", self.memory.chunks)
        self.model = Model(
            id="llama", revision=REVISION, source="", engine="vllm", endpoints=(URL,), context=8192, max_output=CAP,
            max_in_flight=128,
        )  # fmt: skip
        self.roster = Roster(workers=over("workers", self.memory.workers), clock=self.clock)
        self.wake = Wake(batches=self.batches, shards=self.shards, workflow=self)
        self.fleet = FleetService(
            queue=self.shards,
            shards=self.shards,
            roster=self.roster,
            fleet=self,
            max_workers=workers,
            clock=self.clock,
            new_id=self.new_id,
        )
        self._pipeline = Pipeline(
            batches=self.batches,
            shards=self.shards,
            blobs=self.memory.blobs,
            workflow=self,
            fleet=self.fleet,
            registry=Registry((self.model,)),
            clock=self.clock,
            timing=Timing(),
            shard_size=ShardSize(),
        )
        self._live: set[str] = set()
        self._closed: set[BatchRef] = set()

    def clock(self) -> float:
        """Give the time."""
        return START + self.now

    def new_id(self, prefix: str) -> str:
        """Give the next id."""
        return f"{prefix}{next(self._numbers):026d}"

    def at(self, moment: float, call: Callable[[], None]) -> None:
        """Let something happen at a second."""
        heappush(self._events, (moment, next(self._numbers), call))

    def run(self, works: Sequence[Work]) -> None:
        """Let it all happen, until every batch is closed."""
        for work in works:
            self.at(work.at, lambda work=work: self._create(work))  # type: ignore[misc]
        self.at(BOOT[1] + self._kill_every, self._lose_somebody)
        while len(self._closed) < len(works):
            self.now, _, call = heappop(self._events)
            call()

    # The lifecycle: each state is tried again when a store was away, as the state machine does.

    def _create(self, work: Work) -> None:
        number = len(self.voyages)
        now = int(self.clock())
        file = File(
            id=f"file-{number}", org=work.org, contract="openai", bytes=1, filename="in.jsonl", purpose="batch", created_at=now
        )  # fmt: skip
        batch = Batch(
            id=f"batch_{number:03d}", org=work.org, contract="openai", endpoint=URL, input_file_id=file.id, model="llama",
            revision=REVISION, completion_window=f"{work.window // 3600}h", created_at=now, expires_at=now + work.window,
            status=Status.IN_PROGRESS, counts=Counts(total=work.lines),
        )  # fmt: skip
        self.memory.files.put(file)
        self.memory.batches.create(batch, None)
        tokens = [max(8, min(CAP, int(self.dice.lognormvariate(5.3, 0.6)))) for _ in range(work.lines)]
        self.voyages[batch.ref] = Voyage(batch, work, tokens)
        self._plan(batch, work.lines)
        self._try(lambda: self._run(batch.ref))

    def _plan(self, batch: Batch, lines: int) -> None:
        """Cut and queue it, as Plan does once it has read the scan."""
        entries = (Entry(line + 1, 400 * line, 399, f"r{line}", URL, "llama", CAP, 1, (0, 0)) for line in range(lines))
        cuts = enumerate(plan.cut(entries, ShardSize(), CAP))
        urgent_at = Timing().urgent_at(batch)
        while some := list(islice(cuts, 100)):
            for index, cut in some:
                body = ShardPlan(batch.id, batch.org, batch.contract, "", URL, cut.lines)
                self.memory.blobs.put(paths.plan(batch.ref, index), plan.encode(body))
            self.memory.shards.put([plan.shard(batch, REVISION, index, cut, urgent_at) for index, cut in some])

    def _run(self, ref: BatchRef) -> None:
        token = f"{ref}#{next(self._numbers)}"
        self.at(self.now + self._pipeline.tick(self.memory.batches.get(ref)), lambda: self._woken(token))
        self._pipeline.run(ref, token)

    def _woken(self, token: str) -> None:
        """Go on from the state that waits with this token, if one does."""
        ref = BatchRef(*token.split("#", maxsplit=1)[0].split("/"))
        batch = self.memory.batches.get(ref)
        if batch.token == token and batch.ending is None:
            self._try(lambda: self._reconcile(ref))

    def _reconcile(self, ref: BatchRef) -> None:
        _, following = self._pipeline.reconcile(ref, 1, 1)
        self._try((lambda: self._run(ref)) if following is Next.RUN else (lambda: self._close(ref)))

    def _close(self, ref: BatchRef) -> None:
        self._pipeline.drain(ref)
        self._pipeline.close(ref)
        self._closed.add(ref)

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except (Unavailable, Conflict):
            self.at(self.now + RETRY, lambda: self._try(call))

    # `shared.ports.Workflow` and `Fleet`.

    def start(self, _ref: BatchRef, _generation: int) -> bool:
        """As `Workflow.start`: every batch has its execution."""
        return True

    def resume(self, token: str) -> None:
        """As `Workflow.resume`."""
        self.at(self.now + 1, lambda: self._woken(token))

    def submit(self, _revision: str, worker: str) -> str:
        """As `Fleet.submit`: the job's name is the worker's."""
        self._live.add(worker)
        self._boot(worker)
        return worker

    def ended(self, jobs: Sequence[str]) -> set[str]:
        """As `Fleet.ended`."""
        return set(jobs) - self._live

    # The workers.

    def _boot(self, name: str) -> None:
        self.at(self.now + self.dice.uniform(*BOOT), lambda: self._try(lambda: self._serve(name)))

    def _serve(self, name: str) -> None:
        self.roster.enter(REVISION, name, name)
        self.roster.serving(REVISION, name)
        self.hands[name] = Hand(self, name)
        self.log.serving.append((self.now, 1))
        self.hands[name].step()

    def left(self, name: str) -> None:
        """Act on a worker's own end."""
        self.log.serving.append((self.now, -1))
        del self.hands[name]
        self._live.discard(name)
        self._try(lambda: self.roster.leave(REVISION, name))

    def _lose_somebody(self) -> None:
        self.at(self.now + self._kill_every, self._lose_somebody)
        candidates = sorted(name for name, hand in self.hands.items() if hand.silent_until is None)
        if not candidates:
            return
        name = self.dice.choice(candidates)
        (how,) = self.dice.choices(("ended", "retried", "silent"), (9, 9, 2))
        self.log.lost.append((self.now, how))
        self.log.serving.append((self.now, -1))
        if how == "silent":
            self.hands[name].silent_until = self.now + SILENCE
            self.at(self.now + SILENCE, lambda: self._speak(name))
            return
        self.hands.pop(name).dead = True
        if how == "retried":
            self._boot(name)
        else:
            self._live.discard(name)
            self.at(self.now + EVENT, lambda: self._try(lambda: self.fleet.gone(REVISION, name, failed=True)))

    def _speak(self, name: str) -> None:
        self.log.serving.append((self.now, 1))
        self.hands[name].silent_until = None
        self.hands[name].step()

    def committed(self, ref: BatchRef, rows: int) -> None:
        """Note rows that are durable."""
        voyage = self.voyages[ref]
        self.log.rows.append((self.now, voyage.work.org, rows))

    def done(self, ref: BatchRef) -> None:
        """Act on a shard's last commit, as a worker does; note when it was the batch's last."""
        with suppress(SlackwaterError):
            self.wake.shard_done(ref)
        if all(shard.answered == shard.lines for shard in self.memory.shards.of(ref)):
            self.voyages[ref].ended = self.now

    def _fault(self, name: str) -> Fault:
        if self.dice.random() >= self._fault_rate:
            return ok
        fault = self.dice.choice(FAULTS)
        if fault is crowded and not _writes(name):
            return ok
        self.log.counts[fault.__name__] += 1
        return fault


def _writes(name: str) -> bool:
    """Whether the call compares and sets a record: a commit is a transaction, whose conflicts DynamoDB says are throttles."""
    return name.split(".")[1] not in {"get", "of", "find", "ready", "leased", "commit"}
