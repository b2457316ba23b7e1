"""The settings of the entry points: one frozen class each, read from the environment and written to it.

What writes an environment (the CDK stack, the local stack) and what reads it (a Lambda, a worker) share the class, so that no name is spelled twice.
Every variable is `SLACKWATER_` and the field's name in capitals. `from_env` raises `msgspec.ValidationError` naming the variable that is missing or malformed.
"""

from collections.abc import Mapping
from typing import Self

import msgspec

from shared.core.contracts import MOUNTS, WINDOWS

PREFIX = "SLACKWATER_"


def _variable(field: str) -> str:
    return PREFIX + field.upper()


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename=_variable):
    """What every entry point needs.

    Attributes:
        bucket: The bucket of files, plans and chunks.
        table_prefix: What the names of the tables begin with.
        models_file: The path of the models file.
        region: The AWS region.
        endpoint_url: Where AWS is, when it is not AWS: the local stack's address.

    """

    bucket: str
    table_prefix: str
    models_file: str
    region: str
    endpoint_url: str | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Self:
        """Read the settings from an environment."""
        return msgspec.convert(dict(env), cls, strict=False)

    def to_env(self) -> dict[str, str]:
        """Give the environment that `from_env` reads these settings from."""
        return {name: str(value) for name, value in msgspec.to_builtins(self).items() if value is not None}


class ApiSettings(Settings, frozen=True, kw_only=True):
    """What the API needs besides.

    Attributes:
        state_machine_arn: The lifecycle.
        mounts: The contracts and their path prefixes (`shared.core.contracts.mounted`).
        windows: The completion windows of contracts that leave them to the deployment (`shared.core.contracts.mounted`).
        time_scale: How many times faster windows and waits pass.
        scan_function: The Lambda that scans what was too large to be scanned at its upload (`functions.tasks.scan`).
        s3_prefixes: Where in S3 files may come from and results may go: `s3://bucket/path`, separated by commas; `{org}` stands for the organization.
        account_bytes: The most bytes that an organization may store under a contract that sets no limit.
        account_batches: The most unfinished batches that an organization may have, under all contracts together.

    """

    state_machine_arn: str
    scan_function: str
    mounts: str = MOUNTS
    windows: str = WINDOWS
    time_scale: float = 1.0
    s3_prefixes: str = ""
    account_bytes: int | None = None
    account_batches: int = 100


class TaskSettings(Settings, frozen=True, kw_only=True):
    """What the task states need besides.

    Attributes:
        state_machine_arn: The lifecycle.
        job_queue: The AWS Batch queue of the workers.
        job_definition: What the job definitions of the workers are called, an engine each: `<job_definition>-<engine>`.
        scan_function: The Lambda that scans what was too large to be scanned at its upload (`functions.tasks.scan`).
        max_workers: The most workers of one revision at a time.
        shard_lines: The most lines of a shard.
        time_scale: How many times faster windows and waits pass.

    """

    state_machine_arn: str
    job_queue: str
    job_definition: str
    scan_function: str
    max_workers: int = 8
    shard_lines: int = 1000
    time_scale: float = 1.0


class WorkerSettings(Settings, frozen=True, kw_only=True):
    """What a worker needs besides.

    Attributes:
        revision: The model revision that it serves.
        worker: Its name in the worker table.
        job: The fleet's id of the job that it is (AWS Batch sets `AWS_BATCH_JOB_ID`).
        state_machine_arn: The lifecycle, to wake a batch that is done.
        state_dir: Where models and engine logs are.
        engine_python: The Python of the engine's environment; without one the engine runs in the worker's own.
        engine_cpu: Whether the engine runs on the CPU.
        gpus: How many GPUs the engine has.
        lease_seconds: How long a lease lasts that nobody renews.
        heartbeat_seconds: How often leases are renewed.
        idle_seconds: How long a worker without work waits for some before it exits; at least three heartbeats, to take over from a lost one.
        poll_seconds: How often it looks for some; each look is two or more reads of the queue.
        row_seconds: The longest that one request may take.
        stall_seconds: The longest that the engine may compute nothing while requests are inside.
        chunk_seconds: How long finished rows wait for more, before they are committed.

    """

    revision: str
    worker: str
    job: str
    state_machine_arn: str
    state_dir: str
    engine_python: str | None = None
    engine_cpu: bool = False
    gpus: int = 1
    lease_seconds: float = 60.0
    heartbeat_seconds: float = 15.0
    idle_seconds: float = 120.0
    poll_seconds: float = 2.0
    row_seconds: float = 3600.0
    stall_seconds: float = 300.0
    chunk_seconds: float = 10.0
