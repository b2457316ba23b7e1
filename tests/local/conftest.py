"""A local AWS a test module: the module says which functions it has in `FUNCTIONS`."""

import sys
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from local.aws import JobEnded, LocalAws
from tests.local.stack import Stack, python_job


@pytest.fixture
def restless() -> Iterator[None]:
    """Let threads give way to each other at every turn, so that a race is lost where it can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Start a server on a free port for the tests of a module."""
    directory = tmp_path_factory.mktemp("aws")
    ended: SimpleQueue[JobEnded] = SimpleQueue()
    aws = LocalAws(
        port=0,
        directory=directory,
        functions=getattr(request.module, "FUNCTIONS", {}),
        job_command=python_job,
        on_job_ended=ended.put,
        kill_after=1.0,
    )
    aws.start()
    try:
        yield Stack(aws, directory, ended)
    finally:
        aws.stop()
