"""What `shared.ports.WorkerTable` promises."""

from msgspec.structs import replace

from shared.core.records import WorkerEntry, Workers
from tests.contracts.conftest import Stores
from tests.contracts.samples import REVISION, at_once


def entered(workers: Workers, name: str) -> Workers:
    """Enter one more worker."""
    return replace(workers, workers={**workers.workers, name: WorkerEntry(asked_at=1)})


def test_a_revision_without_workers_has_an_empty_record(stores: Stores) -> None:
    """There is nothing to make first."""
    assert Workers(revision=REVISION) == stores.workers.get(REVISION)


def test_a_change_is_applied_to_the_latest_record(stores: Stores) -> None:
    """The first change makes the record; the version counts the writes; revisions do not see each other."""
    first = stores.workers.update(REVISION, lambda workers: entered(workers, "worker_1"))
    assert Workers(revision=REVISION, version=1, workers={"worker_1": WorkerEntry(asked_at=1)}) == first
    job = WorkerEntry(asked_at=1, job="job-1", closing=True)
    second = stores.workers.update(REVISION, lambda workers: replace(workers, workers={"worker_1": job}))
    assert Workers(revision=REVISION, version=2, workers={"worker_1": job}) == second
    assert second == stores.workers.get(REVISION)
    assert Workers(revision="other@1") == stores.workers.get("other@1")


def test_a_change_that_changes_nothing_writes_nothing(stores: Stores) -> None:
    """Not even an empty record."""
    assert Workers(revision=REVISION) == stores.workers.update(REVISION, lambda workers: workers)


def test_changes_from_ten_threads_are_all_applied(stores: Stores) -> None:
    """The first one of them, which makes the record, like the others."""
    at_once(10, lambda number: stores.workers.update(REVISION, lambda old: entered(old, f"worker_{number}")))
    after = stores.workers.get(REVISION)
    assert {f"worker_{number}" for number in range(10)} == after.workers.keys()
    assert 10 == after.version
