"""What the lifecycle builds on: state machines whose task states call functions, tokens, retries, names and stops."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError
from moto.stepfunctions.parser.asl.eval.callback.callback import CallbackOutcomeSuccess

from local.shim.tokens import Tokens
from tests.local.stack import PATIENCE, Stack, at_once, session, wait_for

TOKENS: "SimpleQueue[str]" = SimpleQueue()
"""The tokens that `ask` was given, in order."""
CALLS: Counter[str] = Counter()
"""How often each function was called for each execution, by "function execution"."""


class Throttled(Exception):  # noqa: N818 - a class named as an error of a state machine
    """What a function raises that wants to be called again."""


def _echo(event: dict[str, Any]) -> dict[str, Any]:
    CALLS[f"echo {event.get('execution')}"] += 1
    return event


def _ask(event: dict[str, Any]) -> None:
    TOKENS.put(event["token"])


def _flaky(event: dict[str, Any]) -> int:
    calls = f"flaky {event['execution']}"
    CALLS[calls] += 1
    if CALLS[calls] <= event["failures"]:
        raise Throttled("slow down")
    return CALLS[calls]


def _ask_twice(event: dict[str, Any]) -> None:
    TOKENS.put(event["token"])
    if CALLS[f"ask_twice {event['execution']}"] == 0:
        CALLS[f"ask_twice {event['execution']}"] += 1
        raise Throttled("not yet")


def _answer_itself(event: dict[str, Any]) -> None:
    client = session().client("stepfunctions", endpoint_url=event["input"]["endpoint"])
    client.send_task_success(taskToken=event["token"], output='{"ending": "at once"}')
    client.close()


FUNCTIONS = {
    "echo": _echo,
    "ask": _ask,
    "flaky": _flaky,
    "ask_twice": _ask_twice,
    "answer_itself": _answer_itself,
    "set": lambda _: {1, 2},
}


def _task(function: str, *, token: bool = False, **fields: Any) -> dict[str, Any]:
    payload: dict[str, Any] = {"execution.$": "$$.Execution.Name", "input.$": "$"}
    payload |= {"token.$": "$$.Task.Token"} if token else {}
    resource = "arn:aws:states:::lambda:invoke" + (".waitForTaskToken" if token else "")
    fields.setdefault("End", "Next" not in fields)
    fields = {name: value for name, value in fields.items() if value is not False}
    return {
        "Type": "Task",
        "Resource": resource,
        "Parameters": {"FunctionName": function, "Payload": payload},
        **fields,
    }


class Machines:
    """State machines by definition, and their executions."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.answered = False

    def create(self, states: dict[str, Any], **fields: Any) -> str:
        """Create a state machine that starts with the first of `states` and return its ARN."""
        definition = {"StartAt": next(iter(states)), "States": states, **fields}
        role = "arn:aws:iam::123456789012:role/lifecycle"
        created = self.client.create_state_machine(
            name=f"machine-{uuid4()}", definition=json.dumps(definition), roleArn=role
        )
        arn: str = created["stateMachineArn"]
        return arn

    def start(self, machine: str, content: Any = None, name: str | None = None) -> str:
        """Start an execution and return its ARN."""
        named = {"name": name or f"execution-{uuid4()}"}
        started = self.client.start_execution(stateMachineArn=machine, input=json.dumps(content or {}), **named)
        arn: str = started["executionArn"]
        return arn

    def ended(self, execution: str) -> dict[str, Any]:
        """Wait for the end of an execution and return it, its output as an object."""

        def look() -> dict[str, Any] | None:
            seen: dict[str, Any] = self.client.describe_execution(executionArn=execution)
            return None if seen["status"] == "RUNNING" else seen

        end: dict[str, Any] = wait_for(look)
        return end | {"output": json.loads(end.get("output", "null"))}

    def run(self, states: dict[str, Any], content: Any = None) -> dict[str, Any]:
        """Run a state machine to its end and return the execution."""
        return self.ended(self.start(self.create(states), content))

    def answer(self, token: str, output: Any = None) -> str:
        """Answer a task; return "accepted" or an error's code."""
        try:
            self.client.send_task_success(taskToken=token, output=json.dumps(output or {}))
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "accepted"


@pytest.fixture(scope="module")
def machines(stack: Stack) -> Iterator[Machines]:
    """Return the one client that all tests share."""
    client = stack.client("stepfunctions")
    yield Machines(client)
    client.close()


@pytest.fixture(scope="module")
def waiting(machines: Machines) -> str:
    """Return a state machine whose only state waits for a token."""
    return machines.create({"Ask": _task("ask", token=True)})


def _token() -> str:
    return TOKENS.get(timeout=PATIENCE)


@pytest.mark.parametrize("name", ["echo", "arn:aws:lambda:us-east-1:123456789012:function:echo", "echo:$LATEST"])
def test_a_task_state_calls_its_function(machines: Machines, name: str) -> None:
    """A function is found by name and by ARN; its answer goes on as the payload."""
    end = machines.run({"Only": _task(name, OutputPath="$.Payload.input")}, {"batch": "b1"})
    assert ("SUCCEEDED", {"batch": "b1"}) == (end["status"], end["output"])


def test_a_choice_follows_what_a_task_selected(machines: Machines) -> None:
    """ResultSelector, ResultPath, Choice, Pass and Wait pass data on as the language says."""
    states = {
        "Look": _task("echo", ResultSelector={"n.$": "$.Payload.input.n"}, ResultPath="$.seen", Next="Many"),
        "Many": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.seen.n", "NumericGreaterThan": 1, "Next": "Pause"}],
            "Default": "Few",
        },
        "Few": {"Type": "Pass", "Result": {"said": "few"}, "End": True},
        "Pause": {"Type": "Wait", "SecondsPath": "$.pause", "Next": "Done"},
        "Done": {"Type": "Pass", "Result": "many", "ResultPath": "$.said", "End": True},
    }
    assert {"said": "few"} == machines.run(states, {"n": 1, "pause": 0})["output"]
    assert {"n": 2, "pause": 1, "seen": {"n": 2}, "said": "many"} == machines.run(states, {"n": 2, "pause": 1})[
        "output"
    ]


def test_an_error_is_retried_by_the_name_of_its_class(machines: Machines) -> None:
    """A function that is throttled twice is called three times."""
    retry = {"IntervalSeconds": 1, "MaxAttempts": 2, "BackoffRate": 2, "MaxDelaySeconds": 1, "JitterStrategy": "FULL"}
    states = {"Only": _task("flaky", OutputPath="$.Payload", Retry=[{"ErrorEquals": ["Throttled"], **retry}])}
    states["Only"]["Parameters"]["Payload"]["failures"] = 2
    assert 3 == machines.run(states)["output"]


def test_an_error_is_caught_by_the_name_of_its_class(machines: Machines) -> None:
    """The catcher gets class and message; an error that is not named ends the execution."""
    catch = {"ErrorEquals": ["Throttled"], "ResultPath": "$.error", "Next": "Caught"}
    states = {"Only": _task("flaky", Catch=[catch]), "Caught": {"Type": "Pass", "End": True}}
    states["Only"]["Parameters"]["Payload"]["failures"] = 1
    error = machines.run(states)["output"]["error"]
    assert ("Throttled", "slow down") == (error["Error"], json.loads(error["Cause"])["errorMessage"])
    states["Only"]["Catch"][0]["ErrorEquals"] = ["Other"]
    end = machines.run(states)
    assert ("FAILED", "Throttled") == (end["status"], end["error"])


def test_a_function_that_is_not_there_is_an_error_of_its_own(machines: Machines) -> None:
    """It is the error that the service has for it; an answer that is not JSON is the function's."""
    assert "Lambda.ResourceNotFoundException" == machines.run({"Only": _task("missing")})["error"]
    assert "TypeError" == machines.run({"Only": _task("set")})["error"]


def test_an_answer_ends_the_wait_for_it(machines: Machines, waiting: str) -> None:
    """Its output is the output of the state."""
    execution = machines.start(waiting)
    assert "accepted" == machines.answer(_token(), {"ending": "drained"})
    assert {"ending": "drained"} == machines.ended(execution)["output"]


def test_an_answer_may_come_before_the_function_returns(stack: Stack, machines: Machines) -> None:
    """A function that finds its work done sends its own token."""
    end = machines.run({"Only": _task("answer_itself", token=True)}, {"endpoint": stack.aws.endpoint})
    assert ("SUCCEEDED", {"ending": "at once"}) == (end["status"], end["output"])


def test_a_failure_that_is_sent_is_caught_by_its_name(machines: Machines) -> None:
    """SendTaskFailure is an error like a function's."""
    catch = [{"ErrorEquals": ["Gone"], "Next": "Caught"}]
    states = {
        "Ask": _task("ask", token=True, Catch=catch),
        "Caught": {"Type": "Pass", "Result": {"caught": True}, "End": True},
    }
    execution = machines.start(machines.create(states))
    machines.client.send_task_failure(taskToken=_token(), error="Gone")
    assert {"caught": True} == machines.ended(execution)["output"]


def test_a_wait_that_is_too_long_is_a_tick(machines: Machines) -> None:
    """TimeoutSecondsPath ends the wait, Catch States.Timeout goes on to the next attempt with a token of its own."""
    tick = [{"ErrorEquals": ["States.Timeout"], "ResultPath": "$.timeout", "Next": "Reconcile"}]
    states = {
        "Run": _task("ask", token=True, TimeoutSecondsPath="$.tick", Catch=tick),
        "Reconcile": _task("echo", ResultSelector={"tick": 30}, Next="Again"),
        "Again": _task("ask", token=True, TimeoutSecondsPath="$.tick"),
    }
    execution = machines.start(machines.create(states), {"tick": 1})
    first, second = _token(), _token()
    assert "TaskTimedOut" == machines.answer(first)
    assert "accepted" == machines.answer(second, {"ending": "drained"})
    assert {"ending": "drained"} == machines.ended(execution)["output"]


def test_a_token_is_answered_once(machines: Machines, waiting: str) -> None:
    """A second answer, one to a token that never was, and one that is not JSON are told apart."""
    execution = machines.start(waiting)
    token = _token()
    with pytest.raises(machines.client.exceptions.InvalidOutput):
        machines.client.send_task_success(taskToken=token, output="no JSON")
    assert ["accepted", "TaskTimedOut", "InvalidToken"] == [machines.answer(it) for it in (token, token, "other")]
    assert "SUCCEEDED" == machines.ended(execution)["status"]


def test_each_attempt_has_a_token_of_its_own(machines: Machines) -> None:
    """The token of an attempt that failed is stale when the next attempt waits."""
    retry = [{"ErrorEquals": ["Throttled"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    execution = machines.start(machines.create({"Ask": _task("ask_twice", token=True, Retry=retry)}))
    first, second = _token(), _token()
    assert ["TaskTimedOut", "accepted"] == [machines.answer(first), machines.answer(second)]
    assert "SUCCEEDED" == machines.ended(execution)["status"]


@pytest.mark.usefixtures("restless")
def test_of_many_answers_to_a_token_one_is_accepted(machines: Machines, waiting: str) -> None:
    """Twenty senders at once end the wait once."""
    execution = machines.start(waiting)
    token = _token()
    with ThreadPoolExecutor(20) as threads:
        outcomes = sorted(threads.map(lambda number: machines.answer(token, {"by": number + 1}), range(20)))
    assert ["TaskTimedOut"] * 19 + ["accepted"] == outcomes
    assert "SUCCEEDED" == machines.ended(execution)["status"]


def test_an_answer_that_was_accepted_at_the_deadline_counts() -> None:
    """The wait that runs out finds its token taken, and waits for what the taker brings."""
    tokens = Tokens()
    endpoint = tokens.issue(seconds=0)
    assert endpoint is tokens.take(endpoint.callback_id)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(endpoint.wait)
        assert not wait([waiting], timeout=0.1).done
        answer = CallbackOutcomeSuccess(callback_id=endpoint.callback_id, output="{}")
        endpoint.notify(answer)
        assert answer is waiting.result(PATIENCE)


def test_many_executions_wait_at_once(machines: Machines, waiting: str) -> None:
    """Fifty executions wait in a thread each and a few, and each gets the answer to its own token."""
    threads = threading.active_count()
    executions = [machines.start(waiting) for _ in range(50)]
    tokens = [_token() for _ in executions]
    assert threading.active_count() - threads <= 2 * 50 + 5
    assert {"accepted"} == {machines.answer(token, {"token": token}) for token in tokens}
    assert sorted(tokens) == sorted(machines.ended(execution)["output"]["token"] for execution in executions)


def test_a_running_name_is_one_execution(machines: Machines, waiting: str) -> None:
    """The same name and input is the same execution; with another input, or once it has ended, it is a conflict."""
    name = f"batch-{uuid4()}"
    first = machines.start(waiting, {"batch": 1}, name)
    assert first == machines.start(waiting, {"batch": 1}, name)
    with pytest.raises(machines.client.exceptions.ExecutionAlreadyExists):
        machines.start(waiting, {"batch": 2}, name)
    machines.answer(_token())
    machines.ended(first)
    with pytest.raises(machines.client.exceptions.ExecutionAlreadyExists):
        machines.start(waiting, {"batch": 1}, name)


@pytest.mark.usefixtures("restless")
def test_of_many_starts_of_one_name_one_runs(stack: Stack, machines: Machines, waiting: str) -> None:
    """Twenty starters at once get one execution between them."""
    start = {"stateMachineArn": waiting, "name": f"batch-{uuid4()}", "input": "{}"}
    target = {"X-Amz-Target": "AWSStepFunctions.StartExecution", "Content-Type": "application/x-amz-json-1.0"}
    starts = [("POST /", target, json.dumps(start).encode())] * 20
    answers = at_once(stack.aws.endpoint, "states", starts)
    assert {200} == {status for status, _ in answers}
    (execution,) = {json.loads(answer)["executionArn"] for _, answer in answers}
    assert "accepted" == machines.answer(_token())
    assert "SUCCEEDED" == machines.ended(execution)["status"]
    assert TOKENS.empty()


def test_executions_without_a_name_are_different_ones(machines: Machines) -> None:
    """Each gets a name of its own."""
    machine = machines.create({"Only": {"Type": "Pass", "End": True}})
    started = [machines.client.start_execution(stateMachineArn=machine)["executionArn"] for _ in range(2)]
    assert 2 == len(set(started))


def test_an_execution_that_never_was_is_said_not_to_exist(machines: Machines, waiting: str) -> None:
    """Neither describe nor stop knows it."""
    unknown = waiting.replace(":stateMachine:", ":execution:") + ":unknown"
    for operation in (machines.client.describe_execution, machines.client.stop_execution):
        with pytest.raises(machines.client.exceptions.ExecutionDoesNotExist):
            operation(executionArn=unknown)


def test_a_stop_ends_a_wait(machines: Machines) -> None:
    """The execution is ABORTED when the stop returns, its token is stale, and no catcher runs."""
    catch = [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}]
    states = {"Ask": _task("ask", token=True, Catch=catch), "Caught": _task("echo")}
    name = f"batch-{uuid4()}"
    execution = machines.start(machines.create(states), name=name)
    token = _token()
    assert "stopDate" in machines.client.stop_execution(executionArn=execution)
    assert "ABORTED" == machines.client.describe_execution(executionArn=execution)["status"]
    assert "TaskTimedOut" == machines.answer(token)

    def last() -> bool:
        events = machines.client.get_execution_history(executionArn=execution, maxResults=1000)["events"]
        return bool(events[-1]["type"] == "ExecutionAborted")

    assert wait_for(last)
    assert 0 == CALLS[f"echo {name}"]
    assert "ABORTED" == machines.ended(execution)["status"]


def test_an_execution_has_a_time_limit_of_its_own(machines: Machines) -> None:
    """TimeoutSeconds of the whole ends it as TIMED_OUT, and its token is stale then."""
    machine = machines.create({"Ask": _task("ask", token=True)}, TimeoutSeconds=1)
    execution = machines.start(machine)
    token = _token()
    assert "TIMED_OUT" == machines.ended(execution)["status"]
    assert "TaskTimedOut" == machines.answer(token)
