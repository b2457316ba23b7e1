"""Step Functions and Lambda: state machines run in moto's interpreter, their task states call handlers in process.

What moto 5.2.5 does otherwise, and what stands here instead:

- a task state makes a boto3 client and an HTTP call to its own server (45 ms): the handler is called directly;
- a definition is parsed for every execution and a JSON path for every use (0.1 s and 4 ms): both are parsed once, so
  that creating the state machine also warms the first execution up;
- a task token lives as long as the state, retries included, and a stale one is accepted: each attempt gets its own,
  and exactly one of answer, timeout and stop takes it;
- StopExecution does not wake a task that waits for its token: it does, and the execution is ABORTED when it returns;
- two StartExecutions of one name may both start, and one without a name is called "None".

Heartbeats, activities and every service integration but `lambda:invoke` are left as moto has them.
"""

# ruff: noqa: ANN401, SLF001 - this module exists to reach inside moto, whose interpreter is untyped

import copy
import functools
import json
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from threading import Lock
from typing import Any
from uuid import uuid4

from botocore.exceptions import ClientError
from moto.core.config import default_user_config
from moto.stepfunctions.parser.api import (
    ExecutionStatus,
    InvalidOutput,
    InvalidToken,
    SendTaskFailureOutput,
    TaskTimedOut,
)
from moto.stepfunctions.parser.asl.component.common.path import result_path
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.resource import ResourceCondition
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_callback import (
    StateTaskServiceCallback,
)
from moto.stepfunctions.parser.asl.eval.callback.callback import (
    CallbackEndpoint,
    CallbackOutcome,
    CallbackOutcomeFailure,
    CallbackOutcomeSuccess,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramStopped, ProgramTimedOut
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.utils import json_path
from moto.stepfunctions.parser.backend.execution import Execution
from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends
from moto.stepfunctions.parser.utils import TMP_THREADS

from local.shim.functions import Functions
from local.shim.patches import replace

_STARTING_SECONDS = 0.005


class _Tokens:
    """The open task tokens of this server. A token that it issued and that is not open any more is a stale one."""

    def __init__(self) -> None:
        self._prefix = f"{uuid4()}."
        self._open: dict[str, CallbackEndpoint] = {}

    def issue(self, seconds: float) -> "_TokenEndpoint":
        """Return the endpoint of a new token, that times out `seconds` from now."""
        endpoint = _TokenEndpoint(f"{self._prefix}{uuid4()}", time.monotonic() + seconds, self)
        self._open[endpoint.callback_id] = endpoint
        return endpoint

    def take(self, token: str) -> CallbackEndpoint | None:
        """Close `token` and return its endpoint: to the first that asks, and to nobody after."""
        return self._open.pop(token, None)

    def answer(self, outcome: CallbackOutcome) -> None:
        """Hand an outcome to its task. Raises `TaskTimedOut` for a stale token, `InvalidToken` for a foreign one."""
        endpoint = self.take(outcome.callback_id)
        if endpoint is not None:
            endpoint.notify(outcome)
        elif outcome.callback_id.startswith(self._prefix):
            raise TaskTimedOut("Task Timed Out: 'Provided task does not exist anymore'")
        else:
            raise InvalidToken


class _TokenEndpoint(CallbackEndpoint):
    """Where one attempt of a task waits for its answer."""

    def __init__(self, token: str, deadline: float, tokens: _Tokens) -> None:
        super().__init__(token)
        self._deadline = deadline
        self._tokens = tokens

    def wait(self, timeout: float | None = None) -> CallbackOutcome | None:  # noqa: ARG002 - the deadline is the attempt's
        """Return the answer, or None once the deadline has passed or the execution was stopped.

        The deadline takes the token like anyone else: an answer that was accepted before it counts, and one after it
        was told that the task timed out. Nothing is accepted and then lost.
        """
        remaining = max(0.0, self._deadline - time.monotonic())
        if not self._notify_event.wait(remaining) and self._tokens.take(self.callback_id) is None:
            self._notify_event.wait()
        return self._outcome


def install(undo: ExitStack, functions: Functions) -> None:
    """Make moto's Step Functions run state machines whose task states call `functions`."""
    undo.callback(default_user_config.__setitem__, "stepfunctions", default_user_config["stepfunctions"])
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    tokens = _Tokens()
    _parse_once(undo)
    _call_directly(undo, functions)
    _wait_at_tokens(undo, tokens)
    _stop_at_once(undo, tokens)
    _start_once(undo)


def stop_executions() -> None:
    """Abort every running execution, so that a server that stops runs no other state."""
    for regions in stepfunctions_parser_backends.values():
        for backend in regions.values():
            for execution in backend._get_executions(ExecutionStatus.RUNNING):
                execution.stop(datetime.now(tz=UTC), None, None)


def _parse_once(undo: ExitStack) -> None:
    parse = functools.cache(AmazonStateLanguageParser.parse)
    replace(undo, AmazonStateLanguageParser, "parse", staticmethod(parse))
    # A parsed program is shared by executions that run at once, and holds no state but this lazily made key.
    replace(undo, EvalComponent, "heap_key", property(lambda component: str(id(component))))
    for module in (json_path, result_path):
        replace(undo, module, "parse", functools.cache(vars(module)["parse"]))


def _call_directly(undo: ExitStack, functions: Functions) -> None:
    def invoke(parameters: dict[str, Any], region: str, state_credentials: object) -> dict[str, Any]:
        del region, state_credentials
        name = parameters["FunctionName"]
        if name not in functions:
            raise _unknown_function(name)
        answer = functions.invoke(name, parameters.get("Payload") or b"{}")
        failed = {"FunctionError": "Unhandled"} if answer.failed else {}
        payload = json.loads(answer.payload)
        return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": payload, **failed}

    replace(undo, lambda_eval_utils, "_invoke_lambda_function", invoke)


def _unknown_function(name: str) -> ClientError:
    # What the interpreter makes Lambda.ResourceNotFoundException of.
    response: Any = {
        "Error": {"Code": "ResourceNotFoundException", "Message": f"Function not found: {name}"},
        "ResponseMetadata": {"HTTPStatusCode": 404, "RequestId": "local"},
    }
    return ClientError(response, "Invoke")


def _wait_at_tokens(undo: ExitStack, tokens: _Tokens) -> None:
    def evaluate(state: ExecutionState, env: Environment) -> None:
        if isinstance(state, StateTaskServiceCallback) and (
            state.resource.condition == ResourceCondition.WaitForTaskToken
        ):
            _evaluate_at_token(state, env, tokens)
        else:
            evaluate_in_moto(state, env)

    evaluate_in_moto = replace(undo, ExecutionState, "_evaluate_with_timeout", evaluate)

    def succeed(backend: StepFunctionsParserBackend, task_token: str, outcome: str) -> None:
        del backend
        try:
            json.loads(outcome)
        except ValueError as error:
            raise InvalidOutput("Invalid Output: 'the output of a task is JSON'") from error
        tokens.answer(CallbackOutcomeSuccess(callback_id=task_token, output=outcome))

    def fail(
        backend: StepFunctionsParserBackend, task_token: str, error: str | None = None, cause: str | None = None
    ) -> SendTaskFailureOutput:
        del backend
        tokens.answer(CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause))
        return SendTaskFailureOutput()

    replace(undo, StepFunctionsParserBackend, "send_task_success", succeed)
    replace(undo, StepFunctionsParserBackend, "send_task_failure", fail)


def _evaluate_at_token(state: StateTaskServiceCallback, env: Environment, tokens: _Tokens) -> None:
    """One attempt of a task that waits for a token: what moto does, in the thread that runs the program.

    Moto gives the attempt a thread and a second clock beside the token's; then an answer can be accepted by one and
    the attempt timed out by the other.
    """
    state.timeout.eval(env=env)
    endpoint = tokens.issue(env.stack.pop())
    env.callback_pool_manager._pool[endpoint.callback_id] = endpoint
    env.states.context_object.context_object_data["Task"] = {"Token": endpoint.callback_id}
    frame = env.open_frame()
    frame.states.reset(input_value=env.states.get_input())
    frame.stack = copy.deepcopy(env.stack)
    try:
        state._eval_execution(frame)
    finally:
        tokens.take(endpoint.callback_id)
        frame.set_ended()
        env.close_frame(frame)
    output = frame.stack.pop()
    env.stack.append(output)
    if not state._is_language_query_jsonpath():
        env.states.set_result(output)
    if state.assign_decl:
        state.assign_decl.eval(env=env)
    if state.result_selector:
        state.result_selector.eval(env=env)
    if state.result_path:
        state.result_path.eval(env)
    else:
        env.states.reset(input_value=env.stack.pop())


def _stop_at_once(undo: ExitStack, tokens: _Tokens) -> None:
    def release(env: Environment) -> None:
        # Branches share the pool with the whole execution: only its end wakes every task.
        if not env.is_frame():
            for endpoint in list(env.callback_pool_manager._pool.values()):
                tokens.take(endpoint.callback_id)
                endpoint.interrupt_all()

    def set_stop(env: Environment, *args: Any, **named: Any) -> None:
        set_stop_in_moto(env, *args, **named)
        release(env)

    def set_timed_out(env: Environment) -> None:
        set_timed_out_in_moto(env)
        release(env)

    def set_error(env: Environment, error: Any) -> None:
        # The wake-up of a stopped task surfaces as an error of its state; the execution stays what the stop made it.
        if not isinstance(env._program_state, (ProgramStopped, ProgramTimedOut)):
            set_error_in_moto(env, error)

    set_stop_in_moto = replace(undo, Environment, "set_stop", set_stop)
    set_timed_out_in_moto = replace(undo, Environment, "set_timed_out", set_timed_out)
    set_error_in_moto = replace(undo, Environment, "set_error", set_error)
    replace(undo, Execution, "stop", _stop)


def _stop(execution: Execution, stop_date: datetime, error: str | None, cause: str | None) -> None:
    worker: Any = execution.exec_worker
    while worker.env is None or worker.env.program_state() is None:
        time.sleep(_STARTING_SECONDS)  # its thread is about to make the environment
    worker.env.set_stop(stop_date=stop_date, cause=cause, error=error)
    if isinstance(worker.env.program_state(), ProgramStopped):
        execution.stop_date = stop_date
        execution.exec_status = ExecutionStatus.ABORTED


def _start_once(undo: ExitStack) -> None:
    one_at_a_time = Lock()

    def start(
        backend: StepFunctionsParserBackend,
        state_machine_arn: str,
        name: str | None = None,
        execution_input: str | None = None,
        trace_header: str | None = None,
    ) -> Execution:
        TMP_THREADS.clear()  # moto keeps every thread it ever started, and with it what the thread worked on
        with one_at_a_time:
            return start_in_moto(  # type: ignore[no-any-return]
                backend, state_machine_arn, name or str(uuid4()), execution_input, trace_header
            )

    start_in_moto = replace(undo, StepFunctionsParserBackend, "start_execution", start)
