"""Other Lambda functions of the deployment, asked to work without waiting for them. Lambda itself tries a failed one twice more."""

from typing import Any, Protocol

import msgspec

from shared.adapters.errors import translated
from shared.core.ids import Space


class Invokes(Protocol):
    """What is used of boto3's client."""

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> Any:  # noqa: ANN401, N803 - boto3's
        """Invoke a function."""


class LambdaScans:
    """`shared.ports.ScanStarter`. Args: boto3's client, and the name or ARN of the function (`functions.tasks.scan`)."""

    def __init__(self, client: Invokes, function: str) -> None:
        self._client = client
        self._function = function

    def start(self, space: Space, file_id: str) -> None:
        """Have the file's pending work done soon."""
        event = msgspec.json.encode({"space": str(space), "file": file_id})
        with translated():
            self._client.invoke(FunctionName=self._function, InvocationType="Event", Payload=event)
