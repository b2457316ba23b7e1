"""Step Functions and Lambda: state machines run in moto's interpreter, their task states call handlers in process.

What moto 5.2.5 does otherwise, and what stands here instead:

- a task state makes a boto3 client and an HTTP call to its own server (45 ms): the handler is called directly;
- a definition is parsed for every execution and a JSON path for every use (0.1 s and 4 ms): both are parsed once, so
  that creating the state machine also warms the first execution up;
- a stale task token is accepted: see `local/shim/tokens.py`;
- StopExecution does not wake a task that waits for its token: it does, and the execution is ABORTED when it returns;
- two StartExecutions of one name may both start, and one without a name is called "None".

Heartbeats, activities and every service integration but `lambda:invoke` are left as moto has them.
"""

# ruff: noqa: ANN401, SLF001 - this module exists to reach inside moto, whose interpreter is untyped

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
from moto.stepfunctions.parser.api import ExecutionStatus
from moto.stepfunctions.parser.asl.component.common.path import result_path
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramStopped, ProgramTimedOut
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.utils import json_path
from moto.stepfunctions.parser.backend.execution import Execution
from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends
from moto.stepfunctions.parser.utils import TMP_THREADS

from local.shim import tokens as task_tokens
from local.shim.functions import Functions
from local.shim.patches import replace
from local.shim.tokens import Tokens

_STARTING_SECONDS = 0.005


def install(undo: ExitStack, functions: Functions) -> None:
    """Make moto's Step Functions run state machines whose task states call `functions`."""
    undo.callback(default_user_config.__setitem__, "stepfunctions", default_user_config["stepfunctions"])
    default_user_config["stepfunctions"] = {"execute_state_machine": True}
    tokens = Tokens()
    _parse_once(undo)
    _call_directly(undo, functions)
    task_tokens.install(undo, tokens)
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


def _stop_at_once(undo: ExitStack, tokens: Tokens) -> None:
    def release(env: Environment) -> None:
        # Branches share the pool with the whole execution: only its end wakes every task.
        if not env.is_frame():
            tokens.release(env)

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
    while (worker := execution.exec_worker) is None or worker.env is None or worker.env.program_state() is None:
        time.sleep(_STARTING_SECONDS)  # its thread is about to make the environment
    worker.env.set_stop(stop_date=stop_date, cause=cause, error=error)
    if isinstance(worker.env.program_state(), ProgramStopped):
        execution.stop_date = stop_date
        execution.exec_status = ExecutionStatus.ABORTED


def _start_once(undo: ExitStack) -> None:
    one_at_a_time = Lock()
    # An execution is listed a moment before it has a status.
    replace(undo, Execution, "status", property(lambda it: (it.exec_status or ExecutionStatus.RUNNING).value))

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
