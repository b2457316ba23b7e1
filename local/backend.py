"""The AWS side of the local stack, one process: moto, the task states in it, the state machine, the schedule of the sweep, workers as child processes.

    python -m local.backend [options]     prints one line of JSON when it is ready, and runs until SIGTERM or SIGINT

The state machine is the deployed one, from the same file; each function is the deployed handler. What AWS would do between them is done here:
a job that ends is told to the handler that EventBridge would tell, and the sweep is called on its schedule.
"""

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from functions.tasks import (
    admit,
    close,
    drain,
    fail,
    finalize,
    job_ended,
    notify,
    plan,
    reconcile,
    run,
    scan,
    sweep,
    validate,
)
from local.aws import REGION, Handler, JobEnded, LocalAws, create_batch
from local.models import ENGINE_PYTHON, served
from local.options import ROOT, Options, parse
from local.scratch import scratch
from shared.adapters.clients import Clients
from shared.adapters.dynamodb import tables
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.keys import DynamoKeys
from shared.core.records import ApiKey
from shared.settings import Settings, TaskSettings, WorkerSettings

BUCKET = "slackwater"
TABLES = "slackwater"
QUEUE = "slackwater-workers"
POLL_SECONDS = 0.3
"""Here a look costs nothing, and somebody is waiting."""
LOOK_SECONDS = 0.5
"""How often it looks whether it was told to stop."""
DEFINITION = "slackwater-worker"
ACCOUNT = "123456789012"
STATE_MACHINE = "slackwater-lifecycle"
KEYS = {"sk-local": "org-local", "sk-limited": "org-limited"}
SCOPES = ("batch:write", "batch:read", "inference:write", "requests:read", "routing:write", "read")
ARN = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:{STATE_MACHINE}"

ASL = ROOT / "infra" / "lifecycle.asl.json"
STATES: dict[str, Handler] = {
    "Validate": validate.handler,
    "Admit": admit.handler,
    "Plan": plan.handler,
    "Run": run.handler,
    "Reconcile": reconcile.handler,
    "Drain": drain.handler,
    "Close": close.handler,
    "Finalize": finalize.handler,
    "Notify": notify.handler,
    "Fail": fail.handler,
}
SCAN = "slackwater-scan"
SWEEP = "slackwater-sweep"
JOB_ENDED = "slackwater-job-ended"
CALLED_BY_EVENTS: dict[str, Handler] = {SCAN: scan.handler, SWEEP: sweep.handler, JOB_ENDED: job_ended.handler}


class Ready(msgspec.Struct, frozen=True):
    """What the backend says when it is ready: its settings, as the API needs them."""

    bucket: str
    table_prefix: str
    models_file: str
    region: str
    endpoint_url: str
    state_machine_arn: str
    scan_function: str


class Backend:
    """Everything behind the API. Its own folder is one that no other stack writes in: another may serve other models."""

    def __init__(self, options: Options, own: Path) -> None:
        self._options = options
        self._models_file = own / "models.json"
        self._stopped = threading.Event()
        self._aws = LocalAws(
            port=0,
            directory=options.folder / "aws",
            functions={_function(state): handler for state, handler in STATES.items()} | CALLED_BY_EVENTS,
            job_command=self._worker,
            on_job_ended=self._job_ended,
        )

    def start(self) -> Ready:
        """Start it all; give where it is."""
        models, _ = served(self._options)
        self._models_file.write_bytes(msgspec.json.encode(models))
        self._aws.start()
        os.environ.update(self._tasks().to_env())
        clients = Clients(region=REGION, endpoint_url=self._aws.endpoint)
        clients.s3.create_bucket(Bucket=BUCKET)
        for table in tables.TABLES:
            clients.dynamodb.create_table(**tables.creation(table, TABLES))
        _create_definitions(clients, self._aws.endpoint, sorted({model.engine for model in models}))
        _create_keys(clients)
        clients.stepfunctions.create_state_machine(
            name=STATE_MACHINE, definition=_definition(), roleArn=f"arn:aws:iam::{ACCOUNT}:role/lifecycle"
        )
        threading.Thread(target=self._sweep, daemon=True).start()
        return Ready(**self._settings(), state_machine_arn=ARN, scan_function=SCAN)

    def stop(self) -> None:
        """End workers and executions, and stop serving."""
        self._stopped.set()
        self._aws.stop()

    def _settings(self) -> dict[str, Any]:
        return msgspec.structs.asdict(
            Settings(
                bucket=BUCKET,
                table_prefix=TABLES,
                models_file=str(self._models_file),
                region=REGION,
                endpoint_url=self._aws.endpoint,
            )
        )

    def _tasks(self) -> TaskSettings:
        return TaskSettings(
            **self._settings(),
            state_machine_arn=ARN,
            job_queue=QUEUE,
            job_definition=DEFINITION,
            scan_function=SCAN,
            max_workers=self._options.max_workers,
            shard_lines=self._options.shard_lines,
            time_scale=self._options.time_scale,
        )

    def _worker(self, _definition: str, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        options = self._options
        settings = WorkerSettings(
            **self._settings(),
            state_machine_arn=ARN,
            revision=environment["SLACKWATER_REVISION"],
            worker=environment["SLACKWATER_WORKER"],
            job=environment["AWS_BATCH_JOB_ID"],
            state_dir=str(options.folder),
            engine_python=str(ENGINE_PYTHON),
            engine_cpu=True,
            lease_seconds=options.lease_seconds,
            heartbeat_seconds=options.heartbeat_seconds,
            idle_seconds=options.idle_seconds,
            poll_seconds=POLL_SECONDS,
            row_seconds=options.row_seconds,
            stall_seconds=options.stall_seconds,
            chunk_seconds=options.chunk_seconds,
        )
        return [sys.executable, "-m", "gpu_job"], {**os.environ, **environment, **settings.to_env()}

    def _job_ended(self, job: JobEnded) -> None:
        if self._stopped.is_set():
            return
        environment = [{"name": name, "value": value} for name, value in job.environment.items()]
        status = "SUCCEEDED" if job.exit_code == 0 else "FAILED"
        event = {"detail": {"status": status, "jobId": job.job_id, "container": {"environment": environment}}}
        self._aws.tell(JOB_ENDED, event)

    def _sweep(self) -> None:
        while not self._stopped.wait(self._options.sweep_seconds):
            self._aws.tell(SWEEP, {})


def _function(state: str) -> str:
    return f"slackwater-{state.lower()}"


def _definition() -> str:
    text = ASL.read_text()
    for state in STATES:
        text = text.replace(f"${{{state}Function}}", _function(state))
    return text


def _create_definitions(clients: Clients, endpoint: str, engines: list[str]) -> None:
    create_batch(endpoint, queue=QUEUE, definition=f"{DEFINITION}-{engines[0]}")
    for engine in engines[1:]:
        clients.batch.register_job_definition(
            jobDefinitionName=f"{DEFINITION}-{engine}",
            type="container",
            containerProperties={"image": "local", "vcpus": 1, "memory": 512},
        )


def _create_keys(clients: Clients) -> None:
    keys = DynamoKeys(Dynamo(clients.dynamodb, sleep=time.sleep, random=random.random), TABLES)
    for secret, org in KEYS.items():
        keys.put(ApiKey(org=org, hash=sha256(secret.encode()).hexdigest(), scopes=SCOPES))


def main() -> int:
    """Run the backend until it is told to stop."""
    os.environ.update({"TZ": "UTC", "AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"})
    os.environ.update({"AWS_DEFAULT_REGION": REGION, "AWS_EC2_METADATA_DISABLED": "true"})
    options = parse(sys.argv[1:], "python -m local.backend")
    with scratch(options.folder / "backend") as own:
        _run(Backend(options, own))
    return 0


def _run(backend: Backend) -> None:
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    ready = backend.start()
    sys.stdout.write(msgspec.json.encode(ready).decode() + "\n")
    sys.stdout.flush()
    # Who started us has read that line, and reads no more: what handlers log goes where all else goes, before the pipe is full and blocks them.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while not told.wait(LOOK_SECONDS):  # a signal that came just before an endless wait would not end it
        pass
    backend.stop()


if __name__ == "__main__":
    sys.exit(main())
