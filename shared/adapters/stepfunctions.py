"""The executions of the lifecycle. The name of an execution is its idempotency key: Step Functions takes each once, for ninety days."""

from typing import TYPE_CHECKING

import msgspec
from botocore.exceptions import ClientError

from shared.adapters.errors import code_of, translated
from shared.core.errors import NotFound
from shared.core.ids import BatchRef

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

STARTED_BEFORE = "ExecutionAlreadyExists"
STALE = frozenset({"InvalidToken", "TaskDoesNotExist", "TaskTimedOut"})


class StepFunctionsWorkflow:
    """`shared.ports.Workflow` over one state machine."""

    def __init__(self, client: "SFNClient", state_machine_arn: str) -> None:
        self._client = client
        self._arn = state_machine_arn

    def start(self, ref: BatchRef, generation: int) -> None:
        """Start the execution, whose whole input is `{"batch": "<org>/<contract>/<batch id>"}`."""
        text = msgspec.json.encode({"batch": str(ref)}).decode()
        try:
            with translated():
                self._client.start_execution(stateMachineArn=self._arn, name=_name(ref, generation), input=text)
        except ClientError as error:
            if code_of(error) != STARTED_BEFORE:
                raise

    def running(self, ref: BatchRef, generation: int) -> bool:
        """Whether the execution runs; one that was never started does not."""
        arn = f"{self._arn.replace(':stateMachine:', ':execution:')}:{_name(ref, generation)}"
        try:
            with translated():
                return self._client.describe_execution(executionArn=arn)["status"] == "RUNNING"
        except NotFound:
            return False

    def resume(self, token: str) -> None:
        """Wake the state that waits with this token, if one still does."""
        try:
            with translated():
                self._client.send_task_success(taskToken=token, output="{}")
        except ClientError as error:
            if code_of(error) not in STALE:
                raise


def _name(ref: BatchRef, generation: int) -> str:
    return f"{ref.id}-{generation}"
