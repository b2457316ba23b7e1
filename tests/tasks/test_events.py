"""The Lambda handlers of the tasks, on AWS as moto has it: every event in `events/` gets its answer, and so does its repetition."""

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

import pytest

import functions.tasks
from shared.core.records import ShardState, Status
from tests.tasks.deployment import BAD, BUSY, LINES, LOOSE, PLAIN, ROOT, SPACE, WORKER, Deployment, event

ADMITTED = ("validate.first", "admit.first")
PLANNED = (*ADMITTED, "plan.first")


def fresh(_: Deployment) -> None:
    """Let nothing have happened yet."""


def after(*events: str) -> Callable[[Deployment], None]:
    """Let these events have arrived."""

    def stage(deployed: Deployment) -> None:
        deployed.run(*events)

    return stage


def leased(deployed: Deployment) -> None:
    """Let a worker be at work."""
    deployed.run(*PLANNED)
    deployed.lease()


def answered(deployed: Deployment) -> None:
    """Let the last line have its row."""
    deployed.run(*PLANNED, "run.first")
    deployed.answer()


def then(*events: str) -> Callable[[Deployment], None]:
    """Let the run be over, and these events have arrived."""

    def stage(deployed: Deployment) -> None:
        answered(deployed)
        deployed.run("reconcile.drained", *events)

    return stage


def ended(deployed: Deployment) -> None:
    """Let the execution have ended and left its batch behind."""
    deployed.run("sweep.schedule")
    deployed.run(*ADMITTED)
    deployed.end_executions()


def outcome(next_: str, *, tick: int = 1, rounds: int = 0, batch: str = str(PLAIN)) -> dict[str, Any]:
    """Give the answer of a state."""
    return {"batch": batch, "next": next_, "tick": tick, "rounds": rounds}


class Case(NamedTuple):
    """An event: what came before it, its answer, and the status of its batch afterwards."""

    stage: Callable[[Deployment], None]
    answer: dict[str, Any]
    status: Status


CASES = {
    "validate.first": Case(fresh, outcome("admit"), Status.VALIDATING),
    "validate.bad-file": Case(fresh, outcome("notify", batch=str(BAD)), Status.FAILED),
    "validate.still-scanning": Case(fresh, outcome("scan", batch=str(BUSY)), Status.VALIDATING),
    "admit.first": Case(after("validate.first"), outcome("run"), Status.IN_PROGRESS),
    "plan.first": Case(after(*ADMITTED), outcome("run", tick=300), Status.IN_PROGRESS),
    "run.first": Case(after(*PLANNED), outcome("run"), Status.IN_PROGRESS),
    "reconcile.running": Case(after(*PLANNED, "run.first"), outcome("run", tick=300, rounds=1), Status.IN_PROGRESS),
    "reconcile.drained": Case(answered, outcome("drain", tick=300, rounds=4), Status.FINALIZING),
    "drain.leased": Case(leased, outcome("drain"), Status.IN_PROGRESS),
    "drain.released": Case(then(), outcome("close"), Status.FINALIZING),
    "close.first": Case(then("drain.released"), outcome("finalize"), Status.FINALIZING),
    "finalize.first": Case(then("drain.released", "close.first"), outcome("notify"), Status.COMPLETED),
    "notify.completed": Case(then("drain.released", "close.first", "finalize.first"), outcome("end"), Status.COMPLETED),
    "fail.planned": Case(after(*PLANNED), outcome("drain"), Status.FINALIZING),
    "fail.unplanned": Case(fresh, outcome("notify", batch=str(BAD)), Status.FAILED),
    "scan.uploaded": Case(fresh, {"status": "processed"}, Status.VALIDATING),
    "sweep.schedule": Case(fresh, {"looked_at": 3, "expired": 0}, Status.VALIDATING),
    "sweep.execution-failed": Case(ended, {"looked_at": 1}, Status.IN_PROGRESS),
    "sweep.execution-timed-out": Case(ended, {"looked_at": 1}, Status.IN_PROGRESS),
    "sweep.execution-aborted": Case(ended, {"looked_at": 1}, Status.IN_PROGRESS),
    "job_ended.failed": Case(leased, {"worker": WORKER}, Status.IN_PROGRESS),
    "job_ended.host-lost": Case(leased, {"worker": WORKER}, Status.IN_PROGRESS),
    "job_ended.succeeded": Case(leased, {"worker": WORKER}, Status.IN_PROGRESS),
}
BATCHES = {"validate.bad-file": BAD, "validate.still-scanning": BUSY, "fail.unplanned": BAD}


@pytest.mark.parametrize("name", CASES)
def test_the_event_gets_its_answer_and_its_repetition_the_same(deployed: Deployment, name: str) -> None:
    """Delivered once more it changes nothing more: neither the batch, nor its shards, nor executions or jobs."""
    case, ref = CASES[name], BATCHES.get(name, PLAIN)
    case.stage(deployed)

    assert case.answer == deployed.run(name)
    assert case.status is deployed.batch(ref).status

    before = seen(deployed)
    assert case.answer == deployed.run(name)
    assert before == seen(deployed)


def seen(deployed: Deployment) -> tuple[object, ...]:
    """Give what an event may change."""
    batches = [deployed.batch(ref) for ref in (PLAIN, BAD, BUSY)]
    return batches, deployed.shards.of(PLAIN), deployed.executions(), deployed.jobs(), deployed.workers()


def test_every_handler_has_its_events_and_every_event_its_case() -> None:
    """No entry point without a sample, no sample without a test."""
    names = [module.name for module in iter_modules(functions.tasks.__path__)]
    handlers = {name for name in names if hasattr(import_module(f"functions.tasks.{name}"), "handler")}
    samples = {path.stem for path in (ROOT / "events").glob("*.json") if not path.stem.startswith("api.")}

    assert set(CASES) == samples
    assert handlers == {sample.split(".")[0] for sample in samples}


def test_a_batch_s_events_in_a_row_deliver_its_rows(deployed: Deployment) -> None:
    """From the first state to the last."""
    then("drain.released", "close.first", "finalize.first", "notify.completed")(deployed)

    batch = deployed.batch()
    assert (Status.COMPLETED, LINES, 0) == (batch.status, batch.counts.completed, batch.counts.failed)
    assert (LINES, None) == (deployed.rows(batch.output_file_id), batch.error_file_id)


def test_a_bad_file_fails_its_batch_with_every_line_error(deployed: Deployment) -> None:
    """All lines name a model that nobody has."""
    deployed.run("validate.bad-file")

    assert LINES == deployed.batch(BAD).errors_total


def test_a_failed_batch_delivers_a_row_for_each_line(deployed: Deployment) -> None:
    """Nothing was answered."""
    deployed.run(*PLANNED, "fail.planned", "drain.released", "close.first", "finalize.first")

    batch = deployed.batch()
    assert (Status.FAILED, None, LINES) == (batch.status, batch.output_file_id, deployed.rows(batch.error_file_id))


def test_a_file_is_scanned_where_its_upload_did_not_wait(deployed: Deployment) -> None:
    """It is known then how many requests it has."""
    deployed.run("scan.uploaded")

    assert LINES == deployed.files.get(SPACE, LOOSE).requests


def test_a_file_that_was_deleted_meanwhile_is_no_error(deployed: Deployment) -> None:
    """Nobody waits for it any more."""
    deployed.files.delete(SPACE, LOOSE)

    assert {"status": "gone"} == deployed.run("scan.uploaded")


def test_run_asks_for_a_worker_and_stores_its_token(deployed: Deployment) -> None:
    """Whoever ends the run finds it."""
    deployed.run(*PLANNED, "run.first")

    assert event("run.first")["token"] == deployed.batch().token
    assert deployed.jobs() == set(deployed.workers().workers)
    assert 1 == len(deployed.jobs())


def test_the_schedule_starts_an_execution_for_each_batch_without_one(deployed: Deployment) -> None:
    """Its name is the batch and its generation."""
    deployed.run("sweep.schedule")

    assert {f"{ref.id}-1" for ref in (PLAIN, BAD, BUSY)} == deployed.executions()


@pytest.mark.parametrize("status", ["failed", "timed-out", "aborted"])
def test_an_execution_that_did_not_succeed_is_followed_by_the_next(deployed: Deployment, status: str) -> None:
    """At once, and only its own batch's."""
    ended(deployed)
    deployed.run(f"sweep.execution-{status}")

    assert {f"{PLAIN.id}-2"} == deployed.executions()
    assert 2 == deployed.batch().generation


@pytest.mark.parametrize(("how", "failures"), [("failed", 1), ("host-lost", 1), ("succeeded", 0)])
def test_the_leases_of_a_job_that_ended_are_taken_back(deployed: Deployment, how: str, failures: int) -> None:
    """And another worker is asked for."""
    leased(deployed)
    deployed.run(f"job_ended.{how}")

    (shard,) = deployed.shards.of(PLAIN)
    assert (ShardState.READY, None) == (shard.state, shard.owner)
    assert failures == deployed.workers().failures
    assert WORKER not in deployed.workers().workers
    assert deployed.jobs() == set(deployed.workers().workers)
