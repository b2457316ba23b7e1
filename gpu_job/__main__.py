"""The worker's entry point: settings, clients, adapters, engine, worker; and the signals that stop it.

It exits 0 when there was nothing left to do or it was told to stop, 1 when its engine could not be kept alive, and 2 when it was given the wrong settings.
"""

import asyncio
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_job import vllm_engine
from gpu_job.adapters import AdapterFiles, Adapters
from gpu_job.chunks import Committer
from gpu_job.dispatch import Dispatcher
from gpu_job.engine import Engine, EngineFailed, EngineProcess, RemoteEngine
from gpu_job.fetch import Fetcher
from gpu_job.leasing import Leasing
from gpu_job.media import Media
from gpu_job.row import SERVED_NAME
from gpu_job.structured import StructuredOutputs
from gpu_job.upstream import Upstream
from gpu_job.worker import Worker
from shared.adapters.clients import Clients
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.chunks import DynamoChunkLog
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.workers import DynamoWorkers
from shared.adapters.ids import new_id, now
from shared.adapters.resolver import resolve
from shared.adapters.s3 import S3Blobs
from shared.adapters.stepfunctions import StepFunctionsWorkflow
from shared.core.models import Model, Registry
from shared.services.roster import Roster
from shared.services.wake import Wake
from shared.settings import WorkerSettings

ECHO_START_SECONDS = 30.0
VLLM_START_SECONDS = 1800.0
THREADS = 32
"""How many calls of the stores are made at once."""

_log = logging.getLogger("slackwater.worker")


async def work(settings: WorkerSettings, model: Model, adapters: Mapping[str, Model]) -> None:
    """Run one worker to its end."""
    # Python's own number follows the processors: few calls to a store that hangs would keep all leases from being renewed.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    clients = Clients(region=settings.region, endpoint_url=settings.endpoint_url, connections=THREADS)
    dynamo = Dynamo(clients.dynamodb, sleep=time.sleep, random=random.random)
    shards = DynamoShards(dynamo, settings.table_prefix)
    chunks = DynamoChunkLog(dynamo, settings.table_prefix)
    store = S3Blobs(clients.s3, settings.bucket)
    roster = Roster(workers=DynamoWorkers(dynamo, settings.table_prefix), clock=now)
    batches = DynamoBatches(dynamo, settings.table_prefix)
    workflow = StepFunctionsWorkflow(clients.stepfunctions, settings.state_machine_arn)
    engine = _engine(settings, model, list(adapters.values()))
    structured = StructuredOutputs()
    fetcher = Fetcher(resolve)
    files = AdapterFiles(store, Path(settings.state_dir) / "adapters")
    async with Upstream(engine, max_in_flight=model.max_in_flight) as upstream:
        worker = Worker(
            settings,
            model,
            dispatcher=Dispatcher(
                engine,
                upstream,
                media=Media(fetcher),
                adapters=Adapters(adapters, files=files, upstream=upstream),
                structured=structured,
                max_in_flight=model.max_in_flight,
                row_seconds=settings.row_seconds,
                stall_seconds=settings.stall_seconds,
            ),
            committer=Committer(blobs=store, log=chunks, new_id=new_id),
            leasing=Leasing(settings, queue=shards, shards=shards, batches=batches, clock=now, timer=time.monotonic),
            queue=shards,
            log=chunks,
            blobs=store,
            roster=roster,
            wake=Wake(batches=batches, shards=shards, workflow=workflow),
            clock=now,
        )
        _stop_on_signals(worker)
        try:
            await worker.run()
        finally:
            await engine.stop()
            await structured.close()
            await fetcher.close()


def _engine(settings: WorkerSettings, model: Model, adapters: Sequence[Model]) -> Engine:
    if model.engine == "openai":
        return RemoteEngine(model.source)
    state = Path(settings.state_dir)
    log = state / "engines" / f"{settings.worker}.log"
    if model.engine == "echo":
        return EngineProcess(
            lambda port: [sys.executable, "-m", "gpu_job.echo_engine", "--port", str(port), "--model", SERVED_NAME],
            env=dict(os.environ),
            log_path=log,
            start_timeout=ECHO_START_SECONDS,
        )
    python = settings.engine_python or sys.executable
    return EngineProcess(
        lambda port: vllm_engine.command(python, model, SERVED_NAME, port, cpu=settings.engine_cpu, adapters=adapters),
        env={**os.environ, **vllm_engine.environment(cpu=settings.engine_cpu, state=state, adapters=bool(adapters))},
        log_path=log,
        start_timeout=VLLM_START_SECONDS,
    )


def _stop_on_signals(worker: Worker) -> None:
    """SIGTERM is how AWS Batch, the notice of a Spot host (`infra/spot-notice.sh`) and the local stack end a worker; Ctrl-C is how a person does."""
    loop = asyncio.get_running_loop()
    stops: set[asyncio.Task[None]] = set()

    def stop() -> None:
        stops.add(loop.create_task(worker.stop()))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def _read(env: Mapping[str, str]) -> tuple[WorkerSettings, Model, Mapping[str, Model]]:
    settings = WorkerSettings.from_env(env)
    registry = Registry.from_json(Path(settings.models_file).read_bytes())
    try:
        model = registry.revision(settings.revision)
    except KeyError:
        raise ValueError(
            f"{settings.models_file} has no revision {settings.revision!r}: deploy the functions and the worker's image with the same models"
        ) from None
    return settings, model, registry.adapters(model)


def main() -> None:
    """Run the worker that the environment describes."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr)
    try:
        settings, model, adapters = _read(os.environ)
    except (OSError, ValueError) as wrong:
        sys.stderr.write(f"error: {wrong}\n")
        sys.exit(2)
    try:
        asyncio.run(work(settings, model, adapters))
    except EngineFailed as error:
        _log.error("%s", error)
        sys.exit(1)


if __name__ == "__main__":
    main()
