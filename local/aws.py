"""The AWS services of one machine: a moto server whose Lambda functions and Batch jobs really run.

    aws = LocalAws(port=0, directory=Path(".slackwater/aws"), functions={"validate": handler}, ...)
    aws.start()
    create_batch(aws.endpoint, queue="gpu", definition="worker")

S3, DynamoDB, Step Functions, Lambda, Batch, Secrets Manager, KMS and whatever else moto has answer at `endpoint`, to any
credentials; use `REGION`. What differs from moto is told in the modules of `local/shim`. Not emulated, besides what those
say: IAM, Spot, EventBridge (job ends are told to a callback; nothing is scheduled), deletion by DynamoDB TTL and S3
lifecycle, presigned URLs' signatures and expiry, quotas. Nothing is kept across a restart.

Moto's state belongs to the process, so one `LocalAws` runs in a process at a time, and moto's `mock_aws` not beside it.
"""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import boto3
from moto.core.common_models import BaseModel
from moto.moto_api._internal.models import moto_api_backend

from local.scratch import scratch
from local.shim import functions as lambda_shim
from local.shim import jobs as batch_shim
from local.shim import objects, tables, workflow
from local.shim.functions import Functions, Handler
from local.shim.jobs import JobCommand, JobEnded, Jobs
from local.shim.patches import replace, require_pinned_moto
from local.shim.server import HOST, MotoServer

__all__ = ["REGION", "Handler", "JobCommand", "JobEnded", "LocalAws", "create_batch"]

REGION = "us-east-1"


class LocalAws:
    """A moto server in this process; see the module.

    `port` 0 takes a free one. `directory` gets `jobs/{job id}.log` (stdout and stderr of a job; kept) and a folder of this
    server's own with the bytes of S3, gone when it stops. `functions` are called in threads, several at once. `on_job_ended` is called in
    a thread for every job that reached SUCCEEDED or FAILED. `kill_after` are the seconds between SIGTERM and SIGKILL.
    """

    _one: ClassVar[Lock] = Lock()

    def __init__(
        self,
        *,
        port: int,
        directory: Path,
        functions: Mapping[str, Handler],
        job_command: JobCommand,
        on_job_ended: Callable[[JobEnded], None],
        kill_after: float = 30.0,
    ) -> None:
        self._port = port
        self._directory = directory
        self._functions = Functions(functions)
        self._new_jobs = partial(
            Jobs,
            command=job_command,
            ended=on_job_ended,
            directory=directory.absolute() / "jobs",
            kill_after=kill_after,
        )
        self._running = ExitStack()
        self._endpoint: str | None = None

    @property
    def endpoint(self) -> str:
        """The URL for `endpoint_url` or AWS_ENDPOINT_URL. Raises `RuntimeError` while the server is not running."""
        if self._endpoint is None:
            raise RuntimeError("the local AWS is not running: call start() first")
        return self._endpoint

    def start(self) -> None:
        """Serve, with empty stores.

        Raises `OSError` if the port is taken and `RuntimeError` if another one runs in this process or moto is not the
        release that the shim was written for.
        """
        require_pinned_moto()
        if not self._one.acquire(blocking=False):
            raise RuntimeError(
                "a local AWS already runs in this process: stop() it first, moto's state is one a process"
            )
        with ExitStack() as undo:
            undo.callback(self._one.release)
            jobs = self._new_jobs()
            self._install(undo, jobs)
            server = MotoServer(self._port)
            undo.callback(server.stop)
            server.start()
            self._endpoint = f"http://{HOST}:{server.port}"
            # Jobs end while the stores still answer: a worker that is told to stop commits what it has.
            undo.callback(jobs.stop)
            undo.callback(workflow.stop_executions)
            self._running = undo.pop_all()

    def tell(self, function: str, event: Any) -> None:  # noqa: ANN401 - any JSON
        """Call a function as EventBridge does: nobody waits for an answer, and what it raises is in the log and stops nothing."""
        self._functions.invoke(function, json.dumps(event))

    def stop(self) -> None:
        """Abort executions, end jobs (returning when they are gone), stop serving, forget everything."""
        self._running.close()
        self._endpoint = None

    def _install(self, undo: ExitStack, jobs: Jobs) -> None:
        contents = undo.enter_context(scratch(self._directory.absolute()))
        jobs.directory.mkdir(parents=True, exist_ok=True)
        moto_api_backend.reset()
        undo.callback(moto_api_backend.reset)
        # Moto logs what a state was given and what it answered.
        loud = logging.getLogger("moto")
        undo.callback(loud.setLevel, loud.level)
        loud.setLevel(logging.CRITICAL)
        # Moto keeps every object it ever made, for a dashboard: in a long-lived server that is a leak.
        replace(undo, BaseModel, "__new__", staticmethod(_make_untracked))
        lambda_shim.install(undo, self._functions)
        workflow.install(undo, self._functions)
        batch_shim.install(undo, jobs)
        objects.install(undo, contents)
        tables.install(undo)


def create_batch(endpoint: str, *, queue: str, definition: str) -> None:
    """Create a job queue, and a job definition to submit to it, with what moto wants them to stand on.

    Raises botocore's `ClientError` if the queue exists.
    """
    session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=REGION)  # noqa: S106 - moto takes any
    iam = session.client("iam", endpoint_url=endpoint)
    role = iam.create_role(RoleName=f"{queue}-batch", AssumeRolePolicyDocument="{}")
    batch = session.client("batch", endpoint_url=endpoint)
    environment = batch.create_compute_environment(
        computeEnvironmentName=queue, type="UNMANAGED", state="ENABLED", serviceRole=role["Role"]["Arn"]
    )
    batch.create_job_queue(
        jobQueueName=queue,
        state="ENABLED",
        priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment["computeEnvironmentArn"]}],
    )
    batch.register_job_definition(
        jobDefinitionName=definition,
        type="container",
        containerProperties={"image": "local", "vcpus": 1, "memory": 512},
    )


def _make_untracked(kind: type[Any], *_: object, **__: object) -> object:
    return object.__new__(kind)
