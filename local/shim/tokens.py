"""Task tokens: a task that waits for one, and the answers that end the wait.

Law: each attempt of a task has its own token, and exactly one of answer, deadline and stop takes it. So an answer that
was accepted counts, and one that came too late is told so; moto lets a token live as long as the state, retries
included, accepts stale ones, and decides timeouts by a second clock.
"""

# ruff: noqa: SLF001 - this module exists to reach inside moto

import copy
import json
import time
from contextlib import ExitStack
from uuid import uuid4

from moto.stepfunctions.parser.api import InvalidOutput, InvalidToken, SendTaskFailureOutput, TaskTimedOut
from moto.stepfunctions.parser.asl.component.state.exec.execute_state import ExecutionState
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
from moto.stepfunctions.parser.models import StepFunctionsParserBackend

from local.shim.patches import replace


class Tokens:
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

    def release(self, env: Environment) -> None:
        """Close the tokens of an execution that is over, and wake the tasks that wait for them."""
        for endpoint in list(env.callback_pool_manager._pool.values()):
            self.take(endpoint.callback_id)
            endpoint.interrupt_all()

    def answer(self, outcome: CallbackOutcome) -> None:
        """Hand an outcome to its task. Raises `TaskTimedOut` for a stale token, `InvalidToken` for a foreign one."""
        endpoint = self.take(outcome.callback_id)
        if endpoint is not None:
            endpoint.notify(outcome)
        elif outcome.callback_id.startswith(self._prefix):
            raise TaskTimedOut("Task Timed Out: 'Provided task does not exist anymore'", TaskTimedOut.code)
        else:
            raise InvalidToken


class _TokenEndpoint(CallbackEndpoint):
    """Where one attempt of a task waits for its answer."""

    def __init__(self, token: str, deadline: float, tokens: Tokens) -> None:
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


def install(undo: ExitStack, tokens: Tokens) -> None:
    """Make moto's tasks wait at `tokens`, and its SendTaskSuccess and SendTaskFailure answer there."""

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
            raise InvalidOutput("Invalid Output: 'the output of a task is JSON'", InvalidOutput.code) from error
        tokens.answer(CallbackOutcomeSuccess(callback_id=task_token, output=outcome))

    def fail(
        backend: StepFunctionsParserBackend, task_token: str, error: str | None = None, cause: str | None = None
    ) -> SendTaskFailureOutput:
        del backend
        tokens.answer(CallbackOutcomeFailure(callback_id=task_token, error=error, cause=cause))
        return SendTaskFailureOutput()

    replace(undo, StepFunctionsParserBackend, "send_task_success", succeed)
    replace(undo, StepFunctionsParserBackend, "send_task_failure", fail)


def _evaluate_at_token(state: StateTaskServiceCallback, env: Environment, tokens: Tokens) -> None:
    """One attempt of a task that waits for a token: what moto does, in the thread that runs the program.

    Moto gives the attempt a thread and a second clock beside the token's; then an answer can be accepted by one and
    the attempt timed out by the other.
    """
    state.timeout.eval(env=env)
    endpoint = tokens.issue(env.stack.pop())
    env.callback_pool_manager._pool[endpoint.callback_id] = endpoint
    if not env.is_running():
        endpoint.interrupt_all()  # the stop looked at the pool before this token was there
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
