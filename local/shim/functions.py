"""Lambda: named Python handlers called in this process.

Law: what crosses is JSON, both ways, as it would be: a handler never shares an object with its caller. A handler that
raises answers with `errorType` (the class's name) and `errorMessage`; nothing of an event or an answer is logged.
"""

import json
import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from threading import Thread
from typing import Any, NamedTuple

from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.core.config import default_user_config

from local.shim.patches import replace

Handler = Callable[[dict[str, Any]], Any]

_log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """What an invocation returned: a JSON text, and whether it is the error of a handler that raised."""

    payload: bytes
    failed: bool


class Functions:
    """The handlers by function name."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def __contains__(self, function: str) -> bool:
        return _name(function) in self._handlers

    def invoke(self, function: str, payload: bytes | str) -> Answer:
        """Call the handler of a function's name or ARN. Raises moto's `UnknownFunctionException` where there is none."""
        name = _name(function)
        if name not in self._handlers:
            raise UnknownFunctionException(name)
        try:
            return Answer(json.dumps(self._handlers[name](json.loads(payload)), allow_nan=False).encode(), failed=False)
        except Exception as error:  # noqa: BLE001 - the Lambda runtime: whatever a handler raises is its answer
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.warning("function %s raised %s\n%s", name, type(error).__name__, frames)
            failure = {"errorType": type(error).__name__, "errorMessage": str(error)}
            return Answer(json.dumps(failure).encode(), failed=True)


def _name(function: str) -> str:
    """Return the name in a name or an ARN, with or without a qualifier."""
    parts = function.split(":")
    return parts[6] if parts[0] == "arn" else parts[0]


def install(undo: ExitStack, functions: Functions) -> None:
    """Make boto3's `lambda.invoke` call `functions` (RequestResponse and Event; nothing needs to be created)."""
    undo.callback(default_user_config.__setitem__, "lambda", default_user_config["lambda"])
    default_user_config["lambda"] = {"use_docker": False}

    def invoke(  # noqa: PLR0917 - moto's signature
        backend: LambdaSimpleBackend,
        function_name: str,
        qualifier: str | None,
        body: str,
        headers: Mapping[str, str],
        response_headers: dict[str, str],
    ) -> bytes:
        del backend, qualifier
        if function_name not in functions:
            raise UnknownFunctionException(function_name)
        if headers.get("X-Amz-Invocation-Type") == "Event":
            Thread(target=functions.invoke, args=(function_name, body or "{}"), daemon=True).start()
            return b""
        answer = functions.invoke(function_name, body or "{}")
        if answer.failed:
            response_headers["x-amz-function-error"] = "Unhandled"
        return answer.payload

    replace(undo, LambdaSimpleBackend, "invoke", invoke)
