"""Which shards a worker takes, and which it leaves alone."""

from typing import Any

import pytest
from msgspec.structs import replace

from gpu_job.leasing import LEAST_SECONDS, Leasing
from shared.adapters.memory import Memory
from shared.core import lifecycle, plan
from shared.core.contract import DAY
from shared.core.ids import BatchRef
from shared.core.lifecycle import Event
from shared.core.plan import Cut, PlanLine
from shared.core.records import Batch, File, Shard, ShardState, Status
from shared.settings import WorkerSettings

REVISION = "echo@1"
START = 1_800_000_000


class Quay:
    """A queue, and workers that come by."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.time = float(START)

    def batch(self, org: str, shards: int, *, seconds: int = DAY, contract: str = "openai", tokens: int = 10) -> Batch:
        """Put a running batch of so many shards into the queue, which expires in so many seconds."""
        number = len(self.memory.shards.open(REVISION))
        batch = Batch(
            id=f"batch_{number}", org=org, contract=contract, endpoint="/v1/chat/completions", input_file_id=f"file-{number}",
            completion_window="24h", created_at=START, expires_at=START + seconds, status=Status.IN_PROGRESS, revision=REVISION,
        )  # fmt: skip
        fields: Any = {"bytes": 1, "filename": "f.jsonl", "purpose": "batch", "created_at": START}
        self.memory.files.put(File(id=batch.input_file_id, org=org, contract=contract, **fields))
        self.memory.batches.create(batch, None)
        cut = Cut([PlanLine(1, 0, 1, "r")], tokens)
        urgent_at = batch.expires_at - DAY
        self.memory.shards.put([plan.shard(batch, REVISION, index, cut, urgent_at) for index in range(shards)])
        return batch

    def clock(self) -> float:
        """Give the time."""
        return self.time

    def worker(self, name: str = "worker_1", ahead: float = 0) -> Leasing:
        """Give the hands of a worker, whose clock may be wrong."""
        settings = WorkerSettings(
            bucket="", table_prefix="", models_file="", region="", revision=REVISION, worker=name, job="",
            state_machine_arn="", state_dir="",
        )  # fmt: skip
        shards, batches = self.memory.shards, self.memory.batches
        return Leasing(
            settings, queue=shards, shards=shards, batches=batches, clock=lambda: self.time + ahead, timer=self.clock
        )

    def change(self, ref: BatchRef, event: Event) -> None:
        """Let something happen to a batch."""
        self.memory.batches.update(ref, lambda batch: lifecycle.advance(batch, event, int(self.time)))


def take(worker: Leasing, number: int) -> list[Shard]:
    """Let a worker take shards, as many as it can get of that number."""
    taken = [worker.take(busy=False) for _ in range(number)]
    return [shard for shard in taken if shard is not None]


def test_few_lines_of_one_organization_do_not_wait_for_the_many_of_another() -> None:
    """They are next, also where the other's deadline comes first and its workers are at work already."""
    quay = Quay()
    quay.batch("acme", 300)
    workers = [quay.worker(f"worker_{number}") for number in range(8)]
    for worker in workers:
        take(worker, 2)
    small = quay.batch("zeta", 2, seconds=DAY + 40)
    quay.time += 50

    taken = [take(worker, 1)[0] for worker in workers[:3]]

    assert [small.ref, small.ref] == [shard.ref for shard in taken[:2]]
    assert "acme" == taken[2].org


def test_one_worker_alone_serves_organizations_in_turn() -> None:
    """Even if it never has two shards at a time."""
    quay = Quay()
    for org in ("acme", "rival", "zeta"):
        quay.batch(org, 5)
    worker = quay.worker()
    served = []
    for _ in range(6):
        (shard,) = take(worker, 1)
        quay.memory.shards.close(shard)
        served.append(shard.org)
    assert ["acme", "rival", "zeta"] * 2 == served


@pytest.mark.parametrize("event", [Event.CANCEL, Event.FAULT, Event.EXPIRE])
def test_a_batch_that_is_being_ended_is_left_alone(event: Event) -> None:
    """Before anybody has come to drain its shards; others are taken in its place."""
    quay = Quay()
    ended = quay.batch("acme", 3)
    quay.batch("acme", 1, seconds=DAY + 9)
    quay.change(ended.ref, event)
    (shard,) = take(quay.worker(), 2)
    assert ended.ref != shard.ref


@pytest.mark.parametrize(("left", "number"), [(LEAST_SECONDS + 1, 1), (LEAST_SECONDS - 1, 0), (-100, 0)])
def test_a_shard_is_begun_only_if_its_deadline_leaves_time(left: float, number: int) -> None:
    """Some seconds."""
    quay = Quay()
    quay.batch("acme", 1)
    quay.time += DAY - left
    assert number == len(take(quay.worker(), 1))


def test_a_forecast_is_no_deadline() -> None:
    """Where `expires_at` stops nothing, work goes on behind it."""
    quay = Quay()
    quay.batch("acme", 1, contract="token360")
    quay.time += 2 * DAY
    assert 1 == len(take(quay.worker(), 1))


def test_what_was_forgotten_is_left_alone() -> None:
    """A shard whose batch is gone is nobody's."""
    quay = Quay()
    quay.batch("acme", 1)
    (shard,) = quay.memory.shards.open(REVISION)
    quay.memory.shards.put([replace(shard, batch="batch_gone", rank="acme/0")])
    assert [shard.ref] == [taken.ref for taken in take(quay.worker(), 2)]


def test_of_many_workers_each_gets_a_shard_of_its_own() -> None:
    """However they meet."""
    quay = Quay()
    for org in ("acme", "rival"):
        quay.batch(org, 20)
    taken = [take(quay.worker(f"worker_{number}"), 1)[0] for number in range(40)]
    assert 40 == len({(shard.ref, shard.index) for shard in taken})
    assert [] == take(quay.worker("late"), 1)


def test_a_lease_that_ran_out_is_taken_back_and_taken() -> None:
    """By whoever looks next."""
    quay = Quay()
    quay.batch("acme", 1)
    (lost,) = take(quay.worker("lost"), 1)
    worker = quay.worker()
    assert [] == take(worker, 1)
    quay.time = lost.lease_until + 1
    taken = take(worker, 2)
    assert [("worker_1", ShardState.LEASED)] == [(shard.owner, shard.state) for shard in taken]


@pytest.mark.parametrize("ahead", [0, 300])
def test_a_lease_that_its_holder_renews_is_not_taken_back_whatever_the_clocks_say(ahead: float) -> None:
    """The holder's is behind, or the other's ahead: what it has seems to have run out, and it is at work."""
    quay = Quay()
    quay.batch("acme", 1)
    (held,) = take(quay.worker("holder", ahead - 300), 1)
    worker = quay.worker("other", ahead)
    for _ in range(20):
        assert [] == take(worker, 1)
        quay.time += 15
        held = quay.memory.shards.renew(held, quay.time + ahead - 300 + 60)
    assert "holder" == quay.memory.shards.open(REVISION)[0].owner


def test_a_lease_that_nobody_renews_is_taken_back_by_a_worker_that_watched_it() -> None:
    """Who comes late cannot know whether its holder lives, and looks for a while first."""
    quay = Quay()
    quay.batch("acme", 1)
    (lost,) = take(quay.worker("lost"), 1)
    quay.time = lost.lease_until + 1
    worker = quay.worker()
    assert [] == take(worker, 1)
    quay.time += 29
    assert [] == take(worker, 1)
    quay.time += 1
    assert ["worker_1"] == [shard.owner for shard in take(worker, 1)]


def test_a_busy_worker_leaves_a_stalled_shard_for_later() -> None:
    """And takes nothing else meanwhile: it is that shard's turn."""
    quay = Quay()
    quay.batch("acme", 2)
    first, _ = quay.memory.shards.open(REVISION)
    quay.memory.shards.write(replace(first, bite=1))
    worker = quay.worker()
    assert worker.take(busy=True) is None
    shard = worker.take(busy=False)
    assert shard is not None
    assert 0 == shard.index
