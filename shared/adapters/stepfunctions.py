"""The executions of the lifecycle. The name of an execution is its idempotency key: Step Functions takes each once, for ninety days."""

from typing import TYPE_CHECKING

import msgspec
from botocore.exceptions import ClientError

from shared.adapters.errors import code_of, translated
from shared.core import ids
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

    def start(self, ref: BatchRef, generation: int) -> bool:
        """Start the execution, whose whole input is `{"batch": "<org>/<contract>/<batch id>"}`; False when it has ended already.

        Step Functions itself tells the two apart: the same start again is answered like the first while the execution runs, and refused
        afterwards. Its status is not asked for, since a description may lag behind a start.
        """
        text = msgspec.json.encode({"batch": str(ref)}).decode()
        name = ids.execution(ref.id, generation)
        try:
            with translated():
                self._client.start_execution(stateMachineArn=self._arn, name=name, input=text)
        except ClientError as error:
            if code_of(error) != STARTED_BEFORE:
                raise
            return False
        return True

    def resume(self, token: str) -> None:
        """Wake the state that waits with this token, if one still does."""
        try:
            with translated():
                self._client.send_task_success(taskToken=token, output="{}")
        except ClientError as error:
            if code_of(error) not in STALE:
                raise
