"""What the fleet builds on: a submitted job is a process, its state is true, and nothing of it outlives its end."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.aws import JobEnded, create_batch
from tests.local.stack import PATIENCE, Stack, is_gone, wait_for


class Batch:
    """The queue and the job definition of the tests."""

    def __init__(self, stack: Stack, client: Any) -> None:
        self.stack = stack
        self.client = client

    def submit(self, script: str, name: str = "job", **environment: str) -> str:
        """Submit a Python script and return the job's id."""
        pairs = {"SCRIPT": script} | environment
        overrides = {"environment": [{"name": key, "value": value} for key, value in pairs.items()]}
        job = {"jobName": name, "jobQueue": "workers", "jobDefinition": "worker", "containerOverrides": overrides}
        job_id: str = self.client.submit_job(**job)["jobId"]
        return job_id

    def describe(self, job_id: str) -> dict[str, Any]:
        """Return what Batch says of a job."""
        (job,) = self.client.describe_jobs(jobs=[job_id])["jobs"]
        assert isinstance(job, dict)
        return job

    def log(self, job_id: str) -> str:
        """Return what a job has printed."""
        return (self.stack.directory / "jobs" / f"{job_id}.log").read_text()

    def printed(self, job_id: str) -> str:
        """Wait until a job has printed something and return it."""
        return str(wait_for(lambda: self.log(job_id)))

    def ended(self, job_id: str) -> JobEnded:
        """Wait until a job's end has been told; the ends of other jobs are passed over."""
        while (job := self.stack.ended.get(timeout=PATIENCE)).job_id != job_id:
            pass
        return job


@pytest.fixture(scope="module")
def batch(stack: Stack) -> Iterator[Batch]:
    """Return a queue with its job definition."""
    create_batch(stack.aws.endpoint, queue="workers", definition="worker")
    client = stack.client("batch")
    yield Batch(stack, client)
    client.close()


def test_a_job_is_a_process_with_its_environment(batch: Batch) -> None:
    """The submission's variables and the job's id reach it, what it prints is kept, and its success is told."""
    job_id = batch.submit("import os; print(os.environ['REVISION'], os.environ['AWS_BATCH_JOB_ID'])", REVISION="r1")
    ended = batch.ended(job_id)
    assert (job_id, "job", "r1", 0) == (ended.job_id, ended.job_name, ended.environment["REVISION"], ended.exit_code)
    assert f"r1 {job_id}\n" == batch.log(job_id)
    job = batch.describe(job_id)
    assert ("SUCCEEDED", 0) == (job["status"], job["container"]["exitCode"])
    assert job["createdAt"] <= job["startedAt"] <= job["stoppedAt"]


def test_a_definition_has_an_environment_of_its_own(batch: Batch) -> None:
    """The submission's variables come before the definition's; describing a job does not change it."""
    pairs = [{"name": "REVISION", "value": "definition"}, {"name": "REGION", "value": "here"}]
    properties = {"image": "local", "vcpus": 1, "memory": 512, "environment": pairs}
    batch.client.register_job_definition(jobDefinitionName="worker", type="container", containerProperties=properties)
    job_id = batch.submit("", REVISION="submission")
    environment = batch.ended(job_id).environment
    assert ("submission", "here") == (environment["REVISION"], environment["REGION"])
    assert batch.describe(job_id) == batch.describe(job_id)


def test_a_process_that_fails_is_a_failed_job(batch: Batch) -> None:
    """Its exit code is told, and its complaint is in the log."""
    job_id = batch.submit("import sys; sys.stderr.write('no GPU'); sys.exit(3)")
    assert 3 == batch.ended(job_id).exit_code
    job = batch.describe(job_id)
    assert ("FAILED", 3, "no GPU") == (job["status"], job["container"]["exitCode"], batch.log(job_id))


def test_a_process_that_a_signal_ended_has_that_exit_code(batch: Batch) -> None:
    """A worker that is killed from outside is a failed job with 128 and the signal's number."""
    job_id = batch.submit("import os; os.kill(os.getpid(), 9)")
    assert 128 + signal.SIGKILL == batch.ended(job_id).exit_code


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_a_job_does_not_outlive_what_stands_between_it_and_the_server(batch: Batch) -> None:
    """Its end would be told, and it would go on all the same, after the server too."""
    job_id = batch.submit("import os, time; print(os.getpid(), os.getppid(), flush=True); time.sleep(60)")
    job, guard = map(int, batch.printed(job_id).split())
    os.kill(guard, signal.SIGKILL)
    assert 0 != batch.ended(job_id).exit_code
    wait_for(lambda: is_gone(job))


def test_a_running_job_is_listed(batch: Batch) -> None:
    """Without a status the running jobs are listed, with one those that have it."""
    job_id = batch.submit("import time; print('up', flush=True); time.sleep(60)", name="lister")
    batch.printed(job_id)

    def listed(**options: Any) -> list[str]:
        jobs = batch.client.list_jobs(jobQueue="workers", **options)["jobSummaryList"]
        return [job["jobId"] for job in jobs if job["jobName"] == "lister"]

    assert [job_id] == listed()
    assert [] == listed(jobStatus="SUCCEEDED")
    assert "RUNNING" == batch.describe(job_id)["status"]
    batch.client.terminate_job(jobId=job_id, reason="seen")
    batch.ended(job_id)
    assert [] == listed()
    assert [job_id] == listed(jobStatus="FAILED")


def test_a_terminated_job_may_finish_its_work(batch: Batch) -> None:
    """SIGTERM comes first; what the process does then counts, and the job is a failed one all the same."""
    script = """
import signal, sys, time
def stop(*_):
    print("committed", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
time.sleep(60)
"""
    job_id = batch.submit(script)
    batch.printed(job_id)
    batch.client.terminate_job(jobId=job_id, reason="Host EC2 terminated")
    assert 0 == batch.ended(job_id).exit_code
    job = batch.describe(job_id)
    assert ("FAILED", "Host EC2 terminated") == (job["status"], job["statusReason"])
    assert "up\ncommitted\n" == batch.log(job_id)


def test_a_job_that_does_not_end_is_killed(batch: Batch) -> None:
    """After the grace comes SIGKILL."""
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    job_id = batch.submit(f"{ignore}; print('up', flush=True); time.sleep(60)")
    batch.printed(job_id)
    batch.client.terminate_job(jobId=job_id, reason="over")
    assert 128 + signal.SIGKILL == batch.ended(job_id).exit_code


def test_an_engine_does_not_outlive_its_worker(batch: Batch) -> None:
    """What the process started and left behind is killed when the process ends."""
    engine = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    start = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {engine!r}]).pid)"
    job_id = batch.submit(start)
    batch.ended(job_id)
    wait_for(lambda: is_gone(int(batch.log(job_id))))


def test_a_command_that_is_not_there_is_a_failed_job(batch: Batch, tmp_path: Path) -> None:
    """The log says what could not be started."""
    missing = str(tmp_path / "worker")
    job_id = batch.submit("", PROGRAM=missing)
    assert 127 == batch.ended(job_id).exit_code
    assert f"cannot start {missing}: No such file or directory\n" == batch.log(job_id)
