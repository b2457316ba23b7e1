"""The outermost layer of every request: its id, its line in the log, and the answer when something unforeseen broke.

The log says what was asked of which route, never with what: paths are logged as the route's pattern, exceptions as their type and place,
since messages may quote what a caller sent.
"""

import logging
from traceback import extract_tb

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from functions.api.errors import internal_error
from shared.core.ids import REQUEST
from shared.ports import Clock, NewId

logger = logging.getLogger("slackwater.api")

REQUEST_ID = "x-request-id"


class BrokenAnswerError(Exception):
    """An answer broke off after it had begun; the log says where. The server can only close the connection."""


class Edge:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, *, clock: Clock, new_id: NewId) -> None:
        self._app = app
        self._clock = clock
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI protocol."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id, began, status = self._new_id(REQUEST), self._clock(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception as error:  # noqa: BLE001 - the entry point: whatever it is, the caller gets the envelope
            _log_failure(request_id, error)
            if status:
                raise BrokenAnswerError from None
            await internal_error()(scope, receive, send_with_id)
        finally:
            took = round((self._clock() - began) * 1000)
            logger.info("%s %s %s -> %d in %d ms", request_id, scope["method"], _pattern(scope), status, took)


def _pattern(scope: Scope) -> str:
    route = scope.get("route")
    return str(getattr(route, "path", "-"))


def _log_failure(request_id: str, error: Exception) -> None:
    kind = type(error)
    places = " < ".join(
        f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(extract_tb(error.__traceback__))
    )
    logger.error("%s failed: %s.%s at %s", request_id, kind.__module__, kind.__qualname__, places)
