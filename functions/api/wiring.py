"""The composition root of the API, wherever it runs: settings, clients, adapters, services, application."""

import random
import time
from pathlib import Path

from fastapi import FastAPI

from functions.api.app import Services, build_app
from shared.adapters.clients import Clients
from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.chunks import DynamoChunkLog
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.keys import DynamoKeys
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.uploads import DynamoUploads
from shared.adapters.elsewhere import S3Elsewhere
from shared.adapters.functions import LambdaScans
from shared.adapters.ids import new_id, now
from shared.adapters.presigned import S3Presigner
from shared.adapters.resolver import resolve
from shared.adapters.s3 import S3Blobs
from shared.adapters.stepfunctions import StepFunctionsWorkflow
from shared.core.contracts import CONTRACTS, mounted
from shared.core.models import Registry
from shared.core.prefixes import Prefixes
from shared.core.window import Timing
from shared.services.acceptance import Acceptance
from shared.services.accounts import Accounts
from shared.services.batches import Batches
from shared.services.callbacks import Callbacks
from shared.services.completions import Completions
from shared.services.dry_run import DryRun
from shared.services.files import Files
from shared.services.progress import Progress
from shared.services.results import Results
from shared.services.s3_files import S3Files
from shared.services.scans import Scans
from shared.services.upload_records import UploadRecords
from shared.services.uploads import Uploads
from shared.settings import ApiSettings


def build(settings: ApiSettings, *, connections: int, inline_bytes: int | None = None) -> FastAPI:
    """Build the application on AWS; `connections` is how many requests it may serve at once, `inline_bytes` the largest content it may answer with."""
    clients = Clients(region=settings.region, endpoint_url=settings.endpoint_url, connections=connections)
    dynamo = Dynamo(clients.dynamodb, sleep=time.sleep, random=random.random)
    store = S3Blobs(clients.s3, settings.bucket)
    presigner = S3Presigner(clients.s3, settings.bucket)
    elsewhere = S3Elsewhere(clients.s3, settings.bucket)
    scan_starter = LambdaScans(clients.functions, settings.scan_function)
    prefixes = Prefixes.of(settings.s3_prefixes)
    timing = Timing(settings.time_scale)
    registry = Registry.from_json(Path(settings.models_file).read_bytes())
    file_store = DynamoFiles(dynamo, settings.table_prefix)
    files = Files(
        store=file_store,
        blobs=store,
        multipart=store,
        presigner=presigner,
        registry=registry,
        timing=timing,
        clock=now,
        new_id=new_id,
        account_bytes=settings.account_bytes,
    )
    upload_store = DynamoUploads(dynamo, settings.table_prefix)
    upload_records = UploadRecords(store=upload_store, files=files, clock=now)
    uploads = Uploads(
        store=upload_store,
        records=upload_records,
        files=files,
        blobs=store,
        multipart=store,
        presigner=presigner,
        timing=timing,
        clock=now,
        new_id=new_id,
    )
    completions = Completions(
        store=upload_store,
        records=upload_records,
        files=files,
        blobs=store,
        multipart=store,
        inventory=store,
        scans=scan_starter,
        timing=timing,
    )
    s3_files = S3Files(
        files=files,
        blobs=store,
        elsewhere=elsewhere,
        scans=Scans(
            files=file_store, blobs=store, multipart=store, elsewhere=elsewhere, contracts=CONTRACTS, clock=now
        ),
        starter=scan_starter,
        prefixes=prefixes,
        timing=timing,
    )
    shards = DynamoShards(dynamo, settings.table_prefix)
    acceptance = Acceptance(
        blobs=store,
        registry=registry,
        callbacks=Callbacks(resolve),
        timing=timing,
        account_batches=settings.account_batches,
        prefixes=prefixes,
    )
    batches = Batches(
        store=DynamoBatches(dynamo, settings.table_prefix),
        files=files,
        acceptance=acceptance,
        progress=Progress(shards=shards, blobs=store, clock=now),
        workflow=StepFunctionsWorkflow(clients.stepfunctions, settings.state_machine_arn),
        timing=timing,
        clock=now,
        new_id=new_id,
    )
    services = Services(
        accounts=Accounts(DynamoKeys(dynamo, settings.table_prefix), clock=now),
        files=files,
        uploads=uploads,
        completions=completions,
        s3_files=s3_files,
        batches=batches,
        dry_run=DryRun(batches=batches, acceptance=acceptance, blobs=store, registry=registry),
        results=Results(
            batches=batches,
            shards=shards,
            chunks=DynamoChunkLog(dynamo, settings.table_prefix),
            files=files,
            blobs=store,
            presigner=presigner,
        ),
        registry=registry,
    )
    return build_app(
        services, mounted(settings.mounts, settings.windows), clock=now, new_id=new_id, inline_bytes=inline_bytes
    )
