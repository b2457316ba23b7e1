"""A running local AWS as the tests see it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import boto3
from botocore.config import Config

from local.aws import REGION, JobEnded, LocalAws


class Stack:
    """A running local AWS, its clients, and the ends of its jobs."""

    def __init__(self, aws: LocalAws, directory: Path, ended: "SimpleQueue[JobEnded]") -> None:
        self.aws = aws
        self.directory = directory
        self.ended = ended
        self.session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)

    def client(self, service: Any) -> Any:
        """Return a boto3 client of the running server."""
        retries = {"total_max_attempts": 1}
        config = Config(retries=retries, max_pool_connections=50)  # type: ignore[arg-type]
        return self.session.client(service, endpoint_url=self.aws.endpoint, config=config)


def python_job(definition: str, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Run the script that the job's environment names SCRIPT."""
    assert definition == "worker"
    return [sys.executable, "-I", "-c", environment.get("SCRIPT", "")], dict(environment)
