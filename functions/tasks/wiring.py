"""The composition root of the task states: settings, clients, adapters, services, and the handler of a Lambda around a task.

Nothing is built before the first event.
"""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from aws_lambda_powertools import Logger

from shared.adapters.awsbatch import AwsBatchFleet
from shared.adapters.clients import Clients
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.workers import DynamoWorkers
from shared.adapters.ids import new_id, now
from shared.adapters.s3 import S3Blobs
from shared.adapters.stepfunctions import StepFunctionsWorkflow
from shared.core.contracts import CONTRACTS
from shared.core.models import Registry
from shared.core.plan import ShardSize
from shared.core.window import Timing
from shared.ports import BatchStore, Clock, OpenBatches
from shared.services.finalize import Finalizer
from shared.services.fleet import FleetService
from shared.services.pipeline import Pipeline
from shared.services.validation import Validation
from shared.settings import TaskSettings

logger = Logger(service="tasks", logger_formatter=None)

M = TypeVar("M", bound=msgspec.Struct)


class Services(NamedTuple):
    """What the task states work with."""

    batches: BatchStore
    open_batches: OpenBatches
    validation: Validation
    pipeline: Pipeline
    finalizer: Finalizer
    fleet: FleetService
    clock: Clock
