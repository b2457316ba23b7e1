"""Starting, stopping and starting again in one process."""

import signal
from pathlib import Path
from typing import Any

import pytest
from moto.dynamodb.models.table import Table

from local.aws import JobEnded, LocalAws, create_batch
from tests.local.stack import python_job, session, wait_for


@pytest.fixture
def ended() -> list[JobEnded]:
    """Return the list of the jobs whose ends were told."""
    return []


@pytest.fixture
def aws(tmp_path: Path, ended: list[JobEnded]) -> LocalAws:
    """Return a server that does not run yet."""
    return LocalAws(
        port=0, directory=tmp_path, functions={}, job_command=python_job, on_job_ended=ended.append, kill_after=10
    )


def test_a_server_starts_again_with_empty_stores(aws: LocalAws, ended: list[JobEnded], tmp_path: Path) -> None:
    """Nothing is kept across a stop, and jobs run again; one that still runs is ended and told before it is over."""
    for life in (1, 2):
        aws.start()
        store = session().client("s3", endpoint_url=aws.endpoint)
        assert [] == store.list_buckets()["Buckets"]
        store.create_bucket(Bucket="bucket")
        store.put_object(Bucket="bucket", Key="key", Body=b"x" * 100_000)
        store.close()
        create_batch(aws.endpoint, queue="workers", definition="worker")
        batch = session().client("batch", endpoint_url=aws.endpoint)
        environment = [{"name": "SCRIPT", "value": "import time; print('up', flush=True); time.sleep(600)"}]
        overrides: Any = {"environment": environment}
        job = batch.submit_job(jobName="job", jobQueue="workers", jobDefinition="worker", containerOverrides=overrides)[
            "jobId"
        ]
        wait_for((tmp_path / "jobs" / f"{job}.log").read_text)
        batch.close()
        aws.stop()
        assert life == len(ended)
        assert (job, 128 + signal.SIGTERM) == (ended[-1].job_id, ended[-1].exit_code)


def test_a_stopped_server_leaves_moto_as_it_was(aws: LocalAws) -> None:
    """What was replaced is put back, so that moto's own mocks work in the same process."""
    before = Table.query
    aws.start()
    assert before is not Table.query
    aws.stop()
    assert before is Table.query


def test_a_server_that_was_stopped_may_be_stopped_again(aws: LocalAws) -> None:
    """A second stop, and one before any start, do nothing."""
    aws.stop()
    aws.start()
    aws.stop()
    aws.stop()


def test_another_release_of_moto_is_refused(aws: LocalAws, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is replaced in moto was tried with one release; the message says how to get it."""
    monkeypatch.setattr("moto.__version__", "6.0.0")
    with pytest.raises(RuntimeError, match=r"needs moto 5\.2\.5 and found 6\.0\.0: run `pip install"):
        aws.start()
