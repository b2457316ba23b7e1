"""Batch: a submitted job is a child process, and nothing of it outlives its end.

Each job runs below a guard (`local/shim/guard.py`), in a process group of its own. The server holds the only write
end of a pipe to the guard: what it writes there are the signals for the group, and when it closes, however the server
died, the group is killed. Ends are told to `ended`, in the job's thread: it stands for the EventBridge rule on Batch
job state changes.

Not emulated: Spot, scheduling and capacity (a job runs at once), retry strategies, array jobs, timeouts, containers.
"""

# ruff: noqa: ANN401 - moto's own values pass through untouched

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from threading import Lock, Timer
from typing import Any, NamedTuple

from moto.batch import models
from moto.batch.models import BatchBackend, Job
from moto.batch.utils import JobStatus

from local.shim import guard
from local.shim.patches import replace

JobCommand = Callable[[str, Mapping[str, str]], tuple[list[str], dict[str, str]]]
"""(job definition's name, environment of the job) -> (argv, environment of the process).

The environment of the job is the definition's, overridden by the submission's, with AWS_BATCH_JOB_ID. The environment
of the process is used as it is: nothing is inherited but what is in it.
"""

_STOPPED = "the server stops"
_TERMINATED = 128 + signal.SIGTERM


class JobEnded(NamedTuple):
    """A job that is SUCCEEDED or FAILED. `exit_code` is 128 + n for a process that signal n ended."""

    job_id: str
    job_name: str
    environment: Mapping[str, str]
    exit_code: int


class Jobs:
    """The jobs of one server: where their logs go, how they are started, stopped and told to have ended."""

    def __init__(
        self, *, command: JobCommand, ended: Callable[[JobEnded], None], directory: Path, kill_after: float
    ) -> None:
        self.command = command
        self.ended = ended
        self.directory = directory
        self.kill_after = kill_after
        self._lock = Lock()
        self._running: set[_ProcessJob] = set()
        self._stopping = False

    def create(self, *args: Any, **named: Any) -> "_ProcessJob":
        """Stand where moto calls its own Job."""
        return _ProcessJob(self, *args, **named)

    def started(self, job: "_ProcessJob") -> None:
        """Take a job in, or terminate it before it has run if the server stops."""
        with self._lock:
            self._running.add(job)
            if self._stopping:
                job.terminate(_STOPPED)

    def forget(self, job: "_ProcessJob") -> None:
        """Drop a job that has ended and been told of."""
        with self._lock:
            self._running.discard(job)

    def stop(self) -> None:
        """End every job: SIGTERM to all, SIGKILL to those left after `kill_after` seconds.

        Returns when all are gone and their ends are told. A job submitted from now on fails without having run.
        """
        with self._lock:
            self._stopping = True
            jobs = list(self._running)
        for job in jobs:
            job.terminate(_STOPPED)
        for job in jobs:
            job.join()


class _ProcessJob(Job):
    """A job of moto's, that runs a process instead of a container."""

    def __init__(self, jobs: Jobs, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._jobs = jobs
        self._lock = Lock()
        self._lifeline: int | None = None
        self._killing: Timer | None = None
        self.status = JobStatus.SUBMITTED.value

    @property
    def status(self) -> str | None:
        """What the job is; moto's own moves on with the clock or with each look at it."""
        return self._status

    @status.setter
    def status(self, value: str) -> None:
        self._status = value

    @property
    def environment(self) -> dict[str, str]:
        """The definition's environment, overridden by the submission's, and the job's id."""
        own, overrides = self.job_definition.container_properties or {}, self.container_overrides
        pairs = [*own.get("environment", []), *overrides.get("environment", [])]
        return {pair["name"]: pair["value"] for pair in pairs} | {"AWS_BATCH_JOB_ID": self.job_id}

    def run(self) -> None:
        """Run the process to its end."""
        exit_code = 1
        self._jobs.started(self)
        try:
            exit_code = self._run_process()
        finally:
            self._end(exit_code)

    def terminate(self, reason: str) -> None:
        """Send SIGTERM to the job's processes, and SIGKILL if they are there after the grace. The job is FAILED."""
        with self._lock:
            super().terminate(reason)
            if self._lifeline is not None and self._killing is None:
                self._order(guard.TERMINATE)
                self._killing = Timer(self._jobs.kill_after, self._kill)
                self._killing.daemon = True
                self._killing.start()

    def _run_process(self) -> int:
        self.status = JobStatus.RUNNABLE.value
        argv, environment = self._jobs.command(self.job_definition.name, self.environment)
        path = self._jobs.directory / f"{self.job_id}.log"
        self.log_stream_name = path.name
        with self._lock, path.open("wb") as log:
            if self.stop:
                return _TERMINATED
            end, self._lifeline = os.pipe()
            process = subprocess.Popen(  # noqa: S603 - the command is the caller's own
                [sys.executable, "-I", "-S", guard.__file__, str(end), *argv],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=(end,),
                start_new_session=True,
            )
            os.close(end)
        self.job_started_at = datetime.now()  # noqa: DTZ005 - moto's times are naive and local
        self._start_attempt()
        self.status = JobStatus.RUNNING.value
        return process.wait()

    def _kill(self) -> None:
        with self._lock:
            self._order(guard.KILL)

    def _order(self, order: bytes) -> None:
        if self._lifeline is not None:
            with suppress(BrokenPipeError):  # it has ended, and its thread is about to learn of it
                os.write(self._lifeline, order)

    def _end(self, exit_code: int) -> None:
        with self._lock:
            if self._killing is not None:
                self._killing.cancel()
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None
        self.exit_code = exit_code
        self._mark_stopped(success=exit_code == 0 and not self.stop)
        try:
            self._jobs.ended(JobEnded(self.job_id, self.job_name, self.environment, exit_code))
        finally:
            self._jobs.forget(self)

    def _container_details(self) -> dict[str, Any]:
        details: dict[str, Any] = {
            "environment": [{"name": name, "value": value} for name, value in self.environment.items()],
            "logStreamName": self.log_stream_name,
        }
        if self.exit_code is not None:
            details["exitCode"] = self.exit_code
        return details


def install(undo: ExitStack, jobs: Jobs) -> None:
    """Make moto's Batch run `jobs`."""
    replace(undo, models, "Job", jobs.create)

    def list_jobs(
        backend: BatchBackend,
        job_queue_name: str | None,
        array_job_id: str | None,
        job_status: str | None = None,
        filters: list[dict[str, Any]] | None = None,
    ) -> list[Job]:
        # The service lists the RUNNING jobs when it is not told which; moto lists all.
        wanted = job_status if job_status or filters else JobStatus.RUNNING.value
        return list_in_moto(backend, job_queue_name, array_job_id, wanted, filters)  # type: ignore[no-any-return]

    list_in_moto = replace(undo, BatchBackend, "list_jobs", list_jobs)
