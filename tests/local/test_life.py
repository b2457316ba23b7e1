"""Starting, stopping and starting again in one process."""

from pathlib import Path

import pytest
from moto.dynamodb.models.table import Table

from local.aws import LocalAws, create_batch
from tests.local.stack import python_job, session


@pytest.fixture
def aws(tmp_path: Path) -> LocalAws:
    """Return a server that does not run yet."""
    return LocalAws(
        port=0, directory=tmp_path, functions={}, job_command=python_job, on_job_ended=lambda _: None, kill_after=10
    )


def test_a_server_starts_again_with_empty_stores(aws: LocalAws) -> None:
    """Nothing is kept across a stop; the logs of jobs are."""
    for _ in range(2):
        aws.start()
        store = session().client("s3", endpoint_url=aws.endpoint)
        assert [] == store.list_buckets()["Buckets"]
        store.create_bucket(Bucket="bucket")
        store.put_object(Bucket="bucket", Key="key", Body=b"x" * 100_000)
        store.close()
        create_batch(aws.endpoint, queue="workers", definition="worker")
        aws.stop()


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
