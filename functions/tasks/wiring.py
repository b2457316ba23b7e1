"""The composition root of the task states: settings, clients, adapters, services, and a Lambda handler around a task.

Nothing is built before the first event; then once for the life of the process.
"""

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from aws_lambda_powertools import Logger

from shared.adapters.awsbatch import AwsBatchFleet
from shared.adapters.clients import Clients
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.chunks import DynamoChunkLog
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.uploads import DynamoUploads
from shared.adapters.dynamodb.workers import DynamoWorkers
from shared.adapters.elsewhere import S3Elsewhere
from shared.adapters.functions import LambdaScans
from shared.adapters.ids import new_id, now
from shared.adapters.s3 import S3Blobs
from shared.adapters.stepfunctions import StepFunctionsWorkflow
from shared.core.contracts import CONTRACTS
from shared.core.models import Registry
from shared.core.plan import ShardSize
from shared.core.records import Batch
from shared.core.window import Timing
from shared.ports import BatchStore, Clock, OpenBatches, ScanStarter
from shared.services.ahead import READERS
from shared.services.delivery import Delivery
from shared.services.expiries import ExpirySweep
from shared.services.finalize import Finalizer
from shared.services.fleet import FleetService
from shared.services.pipeline import Pipeline
from shared.services.roster import Roster
from shared.services.scans import Scans
from shared.services.validation import Validation
from shared.settings import TaskSettings

E = TypeVar("E", bound=msgspec.Struct)


class Handler(Protocol):
    """A Lambda handler."""

    def __call__(self, event: dict[str, Any], context: object = None) -> Any:  # noqa: ANN401 - any JSON
        """Take an event and give the answer, both as JSON's values."""


class Services(NamedTuple):
    """What the task states work with. `ended` tells the operators how a batch ended."""

    batches: BatchStore
    open_batches: OpenBatches
    validation: Validation
    pipeline: Pipeline
    finalizer: Finalizer
    fleet: FleetService
    scans: Scans
    scan_starter: ScanStarter
    expiries: ExpirySweep
    delivery: Delivery
    ended: Callable[[Batch], None]
    clock: Clock


def entry(task: Callable[[Services, E], Any], event_type: type[E]) -> Handler:
    """Make the Lambda handler of a task: events are decoded, answers encoded, errors go to Step Functions by their class names."""

    def handler(event: dict[str, Any], context: object = None) -> Any:  # noqa: ANN401, ARG001 - Lambda's own shape
        return msgspec.to_builtins(task(_services(), msgspec.convert(event, event_type)))

    return handler


@cache
def _services() -> Services:
    settings = TaskSettings.from_env(os.environ)
    clients = Clients(region=settings.region, endpoint_url=settings.endpoint_url)
    dynamo = Dynamo(clients.dynamodb, sleep=time.sleep, random=random.random)
    batches = DynamoBatches(dynamo, settings.table_prefix)
    shards = DynamoShards(dynamo, settings.table_prefix)
    store = S3Blobs(clients.s3, settings.bucket)
    workflow = StepFunctionsWorkflow(clients.stepfunctions, settings.state_machine_arn)
    registry = Registry.from_json(Path(settings.models_file).read_bytes())
    files = DynamoFiles(dynamo, settings.table_prefix)
    uploads = DynamoUploads(dynamo, settings.table_prefix)
    elsewhere = S3Elsewhere(clients.s3, settings.bucket)
    timing = Timing(settings.time_scale)
    scan_starter = LambdaScans(clients.functions, settings.scan_function)
    scans = Scans(
        files=files,
        blobs=store,
        multipart=store,
        elsewhere=elsewhere,
        contracts=CONTRACTS,
        clock=now,
    )
    fleet = FleetService(
        queue=shards,
        shards=shards,
        roster=Roster(workers=DynamoWorkers(dynamo, settings.table_prefix), clock=now),
        fleet=AwsBatchFleet(
            clients.batch,
            queue=settings.job_queue,
            definitions={model.revision: f"{settings.job_definition}-{model.engine}" for model in registry.values()},
            default=f"{settings.job_definition}-vllm",
        ),
        max_workers=settings.max_workers,
        clock=now,
        new_id=new_id,
    )
    return Services(
        batches=batches,
        open_batches=batches,
        validation=Validation(
            batches=batches,
            blobs=store,
            multipart=store,
            scans=scans,
            contracts=CONTRACTS,
            registry=registry,
            clock=now,
        ),
        pipeline=Pipeline(
            batches=batches,
            shards=shards,
            blobs=store,
            workflow=workflow,
            fleet=fleet,
            registry=registry,
            clock=now,
            timing=timing,
            shard_size=ShardSize(lines=settings.shard_lines),
        ),
        finalizer=Finalizer(
            batches=batches,
            shards=shards,
            chunks=DynamoChunkLog(dynamo, settings.table_prefix),
            blobs=store,
            multipart=store,
            readers=partial(ThreadPoolExecutor, READERS),
            clock=now,
            timing=timing,
        ),
        fleet=fleet,
        scans=scans,
        scan_starter=scan_starter,
        expiries=ExpirySweep(
            expiries=uploads,
            file_store=files,
            upload_store=uploads,
            blobs=store,
            multipart=store,
            scans=scan_starter,
            clock=now,
        ),
        delivery=Delivery(batches=batches, elsewhere=elsewhere),
        ended=_ended(Logger(service="slackwater-tasks")),
        clock=now,
    )


def _ended(logger: Logger) -> Callable[[Batch], None]:
    def ended(batch: Batch) -> None:
        logger.info(
            "batch ended",
            batch=str(batch.ref),
            status=batch.status,
            model=batch.model,
            total=batch.counts.total,
            completed=batch.counts.completed,
            failed=batch.counts.failed,
            input_tokens=batch.usage.input_tokens,
            output_tokens=batch.usage.output_tokens,
        )

    return ended
