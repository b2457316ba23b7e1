"""The AWS clients of an entry point: made once each, on first use, with timeouts that fit what they are asked."""

from functools import cached_property
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from shared.adapters.functions import Invokes

if TYPE_CHECKING:
    from mypy_boto3_batch import BatchClient
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_stepfunctions import SFNClient

ATTEMPTS = 3
CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0
TRANSFER_SECONDS = 60.0
"""The longest silence in a transfer; copying a large part inside S3 is such a silence."""


class Clients:
    """The clients.

    Args:
        region: The AWS region.
        endpoint_url: Where AWS is when it is not AWS: the local stack's address, without a trailing slash.
        connections: How many connections a client keeps open: at least as many as threads use it at once.

    """

    def __init__(self, *, region: str, endpoint_url: str | None = None, connections: int = 10) -> None:
        self._session = boto3.Session(region_name=region)
        self._endpoint_url = endpoint_url
        self._connections = connections

    @cached_property
    def dynamodb(self) -> "DynamoDBClient":
        """DynamoDB, which answers in milliseconds or not at all."""
        return self._session.client("dynamodb", endpoint_url=self._endpoint_url, config=self._config(ANSWER_SECONDS))

    @cached_property
    def s3(self) -> "S3Client":
        """S3; at a given endpoint, buckets are paths there and not host names."""
        # Said outright, for signed URLs: boto3 would sign some as S3 does not take them for objects under a KMS key, and for
        # the global host, from which a young bucket of another region redirects to where the signature does not hold.
        signed = Config(signature_version="s3v4", s3={"addressing_style": "path" if self._endpoint_url else "virtual"})
        config = self._config(TRANSFER_SECONDS).merge(signed)
        return self._session.client("s3", endpoint_url=self._endpoint_url, config=config)

    @cached_property
    def stepfunctions(self) -> "SFNClient":
        """Step Functions."""
        return self._session.client(
            "stepfunctions", endpoint_url=self._endpoint_url, config=self._config(ANSWER_SECONDS)
        )

    @cached_property
    def batch(self) -> "BatchClient":
        """AWS Batch."""
        return self._session.client("batch", endpoint_url=self._endpoint_url, config=self._config(ANSWER_SECONDS))

    @cached_property
    def functions(self) -> Invokes:
        """Lambda, which is only ever asked to start something."""
        client: Invokes = self._session.client(
            "lambda", endpoint_url=self._endpoint_url, config=self._config(ANSWER_SECONDS)
        )
        return client

    def _config(self, answer_seconds: float) -> Config:
        return Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=answer_seconds,
            max_pool_connections=self._connections,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        )
