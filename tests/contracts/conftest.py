"""Each port twice: in memory, and as the AWS adapter over moto.

Moto answers in this process and checks, copies and writes without any lock, so that two threads inside it at once could both meet a
condition that only one of them may. DynamoDB and S3 make each call atomic; here a lock around each call does it.
"""

import random
import time
from collections.abc import Callable, Iterator
from itertools import count
from threading import RLock
from typing import Any, NamedTuple, Protocol

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.chunks import DynamoChunkLog
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.keys import DynamoKeys
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.tables import TABLES, creation
from shared.adapters.dynamodb.uploads import DynamoUploads
from shared.adapters.dynamodb.workers import DynamoWorkers
from shared.adapters.elsewhere import S3Elsewhere
from shared.adapters.memory import Memory
from shared.adapters.s3 import S3Blobs
from shared.ports import (
    BatchStore,
    Blobs,
    ChunkLog,
    Elsewhere,
    Expiries,
    FileStore,
    Inventory,
    Keys,
    Multipart,
    OpenBatches,
    ShardQueue,
    Shards,
    UploadStore,
    WorkerTable,
)

REGION = "eu-west-1"
_numbers = count()


def fresh_name() -> str:
    """Give a name that nothing at moto has yet."""
    return f"contract-{next(_numbers)}"


class Stores(NamedTuple):
    """The ports over one set of tables."""

    keys: Keys
    files: FileStore
    uploads: UploadStore
    expiries: Expiries
    batches: BatchStore
    open_batches: OpenBatches
    shards: Shards
    queue: ShardQueue
    chunks: ChunkLog
    workers: WorkerTable


class Aws:
    """Clients of one moto, each call of which is atomic."""

    def __init__(self) -> None:
        self._session = boto3.Session("testing", "testing", region_name=REGION)
        self._lock = RLock()
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """Give the client of a service."""
        if service not in self._clients:
            self._clients[service] = self._make(service)
        return self._clients[service]

    def _make(self, service: str) -> Any:
        client = self._session.client(service)  # type: ignore[call-overload]
        call = client._make_api_call

        def atomic(operation: str, arguments: dict[str, Any]) -> Any:
            with self._lock:
                _check_upload(client, operation, arguments)
                return call(operation, arguments)

        client._make_api_call = atomic
        return client


def _check_upload(client: Any, operation: str, arguments: dict[str, Any]) -> None:
    """Do what moto leaves out: look whether a part's upload is there, and at CopySourceIfMatch."""
    if operation in {"UploadPart", "UploadPartCopy"}:
        client.list_parts(**{name: arguments[name] for name in ("Bucket", "Key", "UploadId")})
    if (
        operation == "UploadPartCopy"
        and client.head_object(**arguments["CopySource"])["ETag"] != arguments["CopySourceIfMatch"]
    ):
        answer: Any = {"Error": {"Code": "PreconditionFailed"}, "ResponseMetadata": {"HTTPStatusCode": 412}}
        raise ClientError(answer, "UploadPartCopy")


@pytest.fixture(scope="session")
def aws() -> Iterator[Aws]:
    """Moto, for the whole session: tests take tables and buckets of their own."""
    config: Any = {"batch": {"use_docker": False}, "stepfunctions": {"execute_state_machine": True}}
    with mock_aws(config=config):
        yield Aws()


@pytest.fixture(params=["memory", "aws"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the port is: in memory, or at AWS."""
    place: str = request.param
    return place


@pytest.fixture
def dynamo(aws: Aws) -> Dynamo:
    """DynamoDB, with short pauses."""
    return Dynamo(aws.client("dynamodb"), sleep=lambda seconds: time.sleep(seconds / 10), random=random.random)


@pytest.fixture
def prefix(aws: Aws) -> str:
    """Tables of a deployment that is this test's own."""
    prefix = fresh_name()
    for table in TABLES:
        aws.client("dynamodb").create_table(**creation(table, prefix))
    return prefix


@pytest.fixture
def stores(place: str, request: pytest.FixtureRequest) -> Stores:
    """Give the stores, empty."""
    if place == "memory":
        memory = Memory()
        return Stores(
            keys=memory.keys,
            files=memory.files,
            uploads=memory.uploads,
            expiries=memory.uploads,
            batches=memory.batches,
            open_batches=memory.batches,
            shards=memory.shards,
            queue=memory.shards,
            chunks=memory.chunks,
            workers=memory.workers,
        )
    dynamo: Dynamo = request.getfixturevalue("dynamo")
    prefix: str = request.getfixturevalue("prefix")
    batches, shards = DynamoBatches(dynamo, prefix), DynamoShards(dynamo, prefix)
    uploads = DynamoUploads(dynamo, prefix)
    return Stores(
        keys=DynamoKeys(dynamo, prefix),
        files=DynamoFiles(dynamo, prefix),
        uploads=uploads,
        expiries=uploads,
        batches=batches,
        open_batches=batches,
        shards=shards,
        queue=shards,
        chunks=DynamoChunkLog(dynamo, prefix),
        workers=DynamoWorkers(dynamo, prefix),
    )


class Bucket(Blobs, Multipart, Inventory, Protocol):
    """The ports of a bucket."""


@pytest.fixture
def bucket(place: str, request: pytest.FixtureRequest) -> Bucket:
    """Give an empty bucket."""
    if place == "memory":
        return Memory().blobs
    aws: Aws = request.getfixturevalue("aws")
    name = fresh_name()
    client = aws.client("s3")
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    return S3Blobs(client, name)


class Outside(NamedTuple):
    """A bucket of ours, and another one."""

    bucket: Bucket
    elsewhere: Elsewhere
    name: str
    put: Callable[[str, bytes], object]

    def uri(self, key: str) -> str:
        """Name an object of the other bucket."""
        return f"s3://{self.name}/{key}"


@pytest.fixture
def outside(place: str, request: pytest.FixtureRequest) -> Outside:
    """Give an empty bucket, and another one that is empty too."""
    name = fresh_name()
    if place == "memory":
        memory = Memory()
        return Outside(
            memory.blobs, memory.elsewhere, name, lambda key, data: memory.blobs.put(f"s3://{name}/{key}", data)
        )
    client = request.getfixturevalue("aws").client("s3")
    ours = fresh_name()
    for bucket in (ours, name):
        client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    return Outside(
        S3Blobs(client, ours),
        S3Elsewhere(client, ours),
        name,
        lambda key, data: client.put_object(Bucket=name, Key=key, Body=data),
    )
