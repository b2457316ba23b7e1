"""What `shared.ports.Workflow` promises."""

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from shared.adapters.memory import Memory
from shared.adapters.stepfunctions import StepFunctionsWorkflow
from shared.core.ids import BatchRef
from shared.ports import Workflow
from tests.contracts.conftest import Aws, fresh_name
from tests.contracts.samples import REF

PATIENCE = 60  # seconds after which an execution that does not move is a broken test


class Rig(NamedTuple):
    """A workflow whose executions wait for a token, and what a test does to them.

    Attributes:
        port: The workflow.
        running: Whether an execution runs.
        token: Waits until an execution waits, and gives its token.
        end: Ends an execution that waits.
        awake: Waits until the execution that waited with a token has gone on.

    """

    port: Workflow
    running: Callable[[BatchRef, int], bool]
    token: Callable[[BatchRef, int], str]
    end: Callable[[BatchRef, int], object]
    awake: Callable[[BatchRef, int, str], object]


@pytest.fixture
def workflow(place: str, request: pytest.FixtureRequest) -> Rig:
    """Give a workflow in which nothing runs."""
    return _memory() if place == "memory" else _step_functions(request.getfixturevalue("aws"))


def _memory() -> Rig:
    workflow = Memory().workflow

    def awake(ref: BatchRef, generation: int, token: str) -> None:
        assert token in workflow.resumed
        workflow.end(ref, generation)

    return Rig(workflow, workflow.running, lambda ref, generation: f"token of {ref} {generation}", workflow.end, awake)


def _step_functions(aws: Aws) -> Rig:
    client, sqs = aws.client("stepfunctions"), aws.client("sqs")
    queue = sqs.create_queue(QueueName=fresh_name())["QueueUrl"]
    message = {"batch.$": "$.batch", "token.$": "$$.Task.Token"}
    wait = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": queue, "MessageBody": message},
        "End": True,
    }
    arn = client.create_state_machine(
        name=fresh_name(),
        definition=json.dumps({"StartAt": "Wait", "States": {"Wait": wait}}),
        roleArn="arn:aws:iam::123456789012:role/lifecycle",
    )["stateMachineArn"]
    port = StepFunctionsWorkflow(client, arn)
    tokens: dict[tuple[BatchRef, int], str] = {}

    def execution(ref: BatchRef, generation: int) -> str:
        return f"{arn.replace('stateMachine', 'execution')}:{ref.id}-{generation}"

    def token(ref: BatchRef, generation: int) -> str:
        assert {"batch": str(ref)} == json.loads(
            client.describe_execution(executionArn=execution(ref, generation))["input"]
        )
        found: Any = _until(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))
        body = json.loads(found[0]["Body"])
        assert str(ref) == body["batch"]
        tokens[ref, generation] = body["token"]
        return tokens[ref, generation]

    def running(ref: BatchRef, generation: int) -> bool:
        started = [made["executionArn"] for made in client.list_executions(stateMachineArn=arn)["executions"]]
        name = execution(ref, generation)
        return name in started and client.describe_execution(executionArn=name)["status"] == "RUNNING"

    def end(ref: BatchRef, generation: int) -> None:
        client.send_task_failure(taskToken=tokens[ref, generation])  # moto does not stop what waits for a token
        _until(lambda: not running(ref, generation))

    return Rig(port, running, token, end, lambda ref, generation, _: _until(lambda: not running(ref, generation)))


def _until(look: Callable[[], Any]) -> Any:
    for _ in range(PATIENCE * 50):
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise TimeoutError


def test_an_execution_runs_from_its_start_to_its_end(workflow: Rig) -> None:
    """Of each batch and generation there is one."""
    assert workflow.port.start(REF, 1)
    assert workflow.running(REF, 1)
    assert not workflow.running(REF, 2)
    assert not workflow.running(REF._replace(id="batch_2"), 1)
    workflow.token(REF, 1)
    workflow.end(REF, 1)
    assert not workflow.running(REF, 1)


def test_an_execution_is_started_once(workflow: Rig) -> None:
    """Neither while it runs nor after its end does a second start do anything; the answer says which of the two it is."""
    assert workflow.port.start(REF, 1)
    assert workflow.port.start(REF, 1)
    workflow.token(REF, 1)
    workflow.end(REF, 1)
    assert not workflow.port.start(REF, 1)
    assert not workflow.running(REF, 1)


def test_the_next_generation_is_another_execution(workflow: Rig) -> None:
    """It may start while the last one still runs."""
    workflow.port.start(REF, 1)
    workflow.token(REF, 1)
    workflow.port.start(REF, 2)
    workflow.token(REF, 2)
    workflow.end(REF, 1)
    assert workflow.running(REF, 2)
    workflow.end(REF, 2)


def test_a_state_that_waits_is_woken_by_its_token(workflow: Rig) -> None:
    """Sending the token again is no error."""
    workflow.port.start(REF, 1)
    token = workflow.token(REF, 1)
    workflow.port.resume(token)
    workflow.awake(REF, 1, token)
    workflow.port.resume(token)


def test_a_token_that_nobody_waits_with_is_no_error(workflow: Rig) -> None:
    """Whoever sends it cannot know."""
    workflow.port.resume("stale")
