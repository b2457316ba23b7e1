"""As many workers as there is work for, asked for once each, and none for work that somebody does."""

from typing import Any

import pytest

from shared.adapters.memory import Memory
from shared.core.errors import Unavailable
from shared.core.records import Shard
from shared.services.fleet import SUBMIT_GRACE, FleetService
from shared.services.roster import REST, Roster
from tests.fakes import Fault, Hostile, fail, lose_answer, ok

REVISION = "echo@1"
START = 1_800_000_000.0
MOST = 3


class Port:
    """The fleet of one deployment, in a harbour of its own."""

    def __init__(self, **faults: list[Fault]) -> None:
        self.memory = Memory()
        self.time = START
        self.fleet = Hostile(self.memory.fleet, faults)
        self.roster = Roster(workers=self.memory.workers, clock=lambda: self.time)
        self._number = 0
        self.service = FleetService(
            queue=self.memory.shards,
            shards=self.memory.shards,
            roster=self.roster,
            fleet=self.fleet.port,
            max_workers=MOST,
            clock=lambda: self.time,
            new_id=self._next,
        )

    def _next(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def put(self, *indexes: int) -> None:
        """Put ready shards."""
        made: Any = {"org": "acme", "contract": "openai", "batch": "batch_1", "revision": REVISION, "lines": 3}
        self.memory.shards.put([Shard(index=index, rank=f"{index:06d}", **made) for index in indexes])

    def lease(self, worker: str, number: int = 1) -> None:
        """Let a worker lease the most urgent ready shards."""
        for _ in range(number):
            self.memory.shards.lease(self.memory.shards.ready(REVISION, 1)[0], worker, self.time + 60)

    @property
    def asked_for(self) -> list[str]:
        """The workers that were asked for."""
        return [worker.worker for worker in self.memory.fleet.submitted]


def test_a_worker_is_asked_for_each_shard_up_to_the_most() -> None:
    """Three for five."""
    port = Port()
    port.put(*range(5))
    port.service.ensure(REVISION)
    assert ["worker_1", "worker_2", "worker_3"] == port.asked_for


def test_asking_again_asks_for_nobody_else() -> None:
    """Those who are on their way count."""
    port = Port()
    port.put(0, 1)
    port.service.ensure(REVISION)
    port.service.ensure(REVISION)
    assert 2 == len(port.asked_for)


def test_nobody_is_asked_for_without_work() -> None:
    """The fleet scales to zero."""
    port = Port()
    port.service.ensure(REVISION)
    assert [] == port.asked_for


def test_nobody_is_asked_for_shards_that_a_worker_has_leased() -> None:
    """A worker may have many; a second one would only wait, leave, and be replaced, again and again."""
    port = Port()
    port.put(0)
    port.service.ensure(REVISION)
    port.put(1, 2)
    port.lease("worker_1", 3)
    port.service.ensure(REVISION, known=port.memory.shards.open(REVISION))
    assert ["worker_1"] == port.asked_for


def test_a_ready_shard_behind_many_leased_ones_is_seen() -> None:
    """However many shards one worker has leased, those that it has not need another."""
    port = Port()
    port.put(0)
    port.service.ensure(REVISION)
    port.put(*range(1, 12))
    port.lease("worker_1", 10)
    port.service.ensure(REVISION)
    assert MOST == len(port.asked_for)


def test_known_shards_count_before_the_queue_shows_them() -> None:
    """Its index may lag."""
    port = Port()
    port.put(0, 1)
    shards = port.memory.shards.open(REVISION)
    empty = Port()
    empty.service.ensure(REVISION, known=shards)
    assert 2 == len(empty.asked_for)


def test_a_worker_that_is_closing_does_not_count() -> None:
    """It takes no more shards."""
    port = Port()
    port.put(0)
    port.service.ensure(REVISION)
    port.roster.close(REVISION, "worker_1")
    port.service.ensure(REVISION)
    assert 2 == len(port.asked_for)


def test_a_worker_that_was_lost_while_closing_and_starts_again_counts() -> None:
    """AWS Batch runs its job once more on another host; it is the same worker, and takes shards."""
    port = Port()
    port.put(0)
    port.service.ensure(REVISION)
    port.roster.close(REVISION, "worker_1")
    port.roster.enter(REVISION, "worker_1", "job-1")
    port.service.ensure(REVISION)
    assert ["worker_1"] == port.asked_for


def test_a_worker_whose_job_has_ended_is_replaced() -> None:
    """Even when nobody told of its end, and whoever holds its lease."""
    port = Port()
    port.put(0)
    port.service.ensure(REVISION)
    port.lease("worker_1")
    port.memory.fleet.end("job-1")
    port.service.ensure(REVISION)
    assert 2 == len(port.asked_for)


def test_a_lost_worker_gives_its_leases_back_and_is_replaced() -> None:
    """At once, and once only however often it is told."""
    port = Port()
    port.put(0)
    port.service.ensure(REVISION)
    port.lease("worker_1")
    port.memory.fleet.end("job-1")
    port.service.gone(REVISION, "worker_1", failed=True)
    port.service.gone(REVISION, "worker_1", failed=True)
    assert [None] == [shard.owner for shard in port.memory.shards.open(REVISION)]
    assert 2 == len(port.asked_for)
    assert 1 == port.roster.get(REVISION).failures


@pytest.mark.parametrize("fault", [fail, lose_answer], ids=["before its effect", "after its effect"])
def test_a_submission_without_an_answer_is_made_up_for_after_a_while(fault: Fault) -> None:
    """Until then it may still be on its way, and nobody else is asked for."""
    port = Port(submit=[fault])
    port.put(0)
    with pytest.raises(Unavailable):
        port.service.ensure(REVISION)
    submitted = len(port.asked_for)
    port.service.ensure(REVISION)
    assert submitted == len(port.asked_for)
    port.time += SUBMIT_GRACE + 1
    port.service.ensure(REVISION)
    assert submitted + 1 == len(port.asked_for)


def test_workers_that_fail_one_after_the_other_are_given_rests() -> None:
    """The second failure in a row is followed by a pause, which a worker that serves takes back."""
    port = Port()
    port.put(0)
    for number in (1, 2):
        port.service.ensure(REVISION)
        port.memory.fleet.end(f"job-{number}")
        port.service.gone(REVISION, f"worker_{number}", failed=True)
    assert 2 == len(port.asked_for)
    port.time += REST
    port.service.ensure(REVISION)
    assert 3 == len(port.asked_for)
    port.roster.serving(REVISION, "worker_3")
    assert 0 == port.roster.get(REVISION).failures


def test_workers_that_have_served_and_are_lost_are_replaced_without_a_rest() -> None:
    """However many in a row: Spot hosts are taken away in crowds, and no engine is to blame."""
    port = Port()
    port.put(0)
    for number in range(1, 6):
        port.service.ensure(REVISION)
        port.roster.serving(REVISION, f"worker_{number}")
        port.memory.fleet.end(f"job-{number}")
        port.service.gone(REVISION, f"worker_{number}", failed=True)
    assert 6 == len(port.asked_for)
    assert 0 == port.roster.get(REVISION).failures


def test_work_behind_hundreds_of_leased_shards_is_seen() -> None:
    """A worker may have very many small ones."""
    port = Port()
    port.put(0)
    port.service.ensure(REVISION)
    port.put(*range(1, 400))
    port.lease("worker_1", 390)
    port.service.ensure(REVISION)
    assert MOST == len(port.asked_for)


def test_one_submission_that_fails_holds_up_no_other() -> None:
    """They were entered together, and who comes next would count them as on their way."""
    port = Port(submit=[ok, fail])
    port.put(0, 1, 2)
    with pytest.raises(Unavailable):
        port.service.ensure(REVISION)
    assert ["worker_1", "worker_3"] == port.asked_for
