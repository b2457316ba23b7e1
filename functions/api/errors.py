"""Errors, as callers see them: one envelope, and one table from its code to the HTTP status.

    {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}

All four keys are always there. What the framework would say in its own words is said in these as well.
"""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match

from shared.core.errors import Conflict, Limit, NotFound, Refused, Unavailable

STATUS: dict[str, HTTPStatus] = {
    "invalid_request": HTTPStatus.BAD_REQUEST,
    "missing_required_parameter": HTTPStatus.BAD_REQUEST,
    "unknown_parameter": HTTPStatus.BAD_REQUEST,
    "integer_below_min_value": HTTPStatus.BAD_REQUEST,
    "integer_above_max_value": HTTPStatus.BAD_REQUEST,
    "invalid_file_format": HTTPStatus.BAD_REQUEST,
    "invalid_encoding": HTTPStatus.BAD_REQUEST,
    "empty_file": HTTPStatus.BAD_REQUEST,
    "invalid_json_line": HTTPStatus.BAD_REQUEST,
    "url_mismatch": HTTPStatus.BAD_REQUEST,
    "duplicate_custom_id": HTTPStatus.BAD_REQUEST,
    "mismatched_model": HTTPStatus.BAD_REQUEST,
    "model_not_found": HTTPStatus.BAD_REQUEST,
    "too_many_requests_in_file": HTTPStatus.BAD_REQUEST,
    "request_too_large": HTTPStatus.BAD_REQUEST,
    "context_length_exceeded": HTTPStatus.BAD_REQUEST,
    "output_too_large": HTTPStatus.BAD_REQUEST,
    "batch_invalid_jsonl": HTTPStatus.BAD_REQUEST,
    "batch_multiple_models": HTTPStatus.BAD_REQUEST,
    "batch_model_not_supported": HTTPStatus.BAD_REQUEST,
    "batch_routing_unavailable": HTTPStatus.BAD_REQUEST,
    "invalid_api_key": HTTPStatus.UNAUTHORIZED,
    "missing_execution_api_key": HTTPStatus.UNAUTHORIZED,
    "insufficient_permissions": HTTPStatus.FORBIDDEN,
    "not_found": HTTPStatus.NOT_FOUND,
    "method_not_allowed": HTTPStatus.METHOD_NOT_ALLOWED,
    "storage_limit_exceeded": HTTPStatus.BAD_REQUEST,
    "file_in_use": HTTPStatus.CONFLICT,
    "file_not_ready": HTTPStatus.CONFLICT,
    "upload_not_pending": HTTPStatus.CONFLICT,
    "batch_not_cancellable": HTTPStatus.CONFLICT,
    "batch_not_ended": HTTPStatus.CONFLICT,
    "batch_not_retryable": HTTPStatus.CONFLICT,
    "nothing_to_retry": HTTPStatus.CONFLICT,
    "input_expired": HTTPStatus.CONFLICT,
    "idempotency_key_reused": HTTPStatus.CONFLICT,
    "results_expired": HTTPStatus.GONE,
    "file_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "body_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "unsupported_media_type": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
    "range_not_satisfiable": HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    "server_error": HTTPStatus.INTERNAL_SERVER_ERROR,
    "service_unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
}

HEADERS: dict[HTTPStatus, dict[str, str]] = {
    HTTPStatus.UNAUTHORIZED: {"www-authenticate": "Bearer"},
    HTTPStatus.CONFLICT: {"x-should-retry": "false"},  # SDKs repeat a 409 unless told not to
    HTTPStatus.TOO_MANY_REQUESTS: {"x-should-retry": "false", "retry-after": "60"},  # it lasts until a batch has ended
    HTTPStatus.SERVICE_UNAVAILABLE: {"retry-after": "2"},
}

_FRAMEWORK = {
    HTTPStatus.NOT_FOUND: (
        "not_found",
        "There is nothing at this path. Check the base URL, which usually ends in /v1.",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: ("method_not_allowed", "This path does not take this method."),
}


SAID_CHARS = 500
"""The most of a message, and of the name of a field: both may quote what was sent, which may be larger than an answer can be."""


def envelope(
    code: str,
    message: str,
    *,
    param: str | None = None,
    limit: Limit | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Give the answer for a code of `STATUS`; it names the limit that stands in the way, where one does."""
    status = STATUS[code]
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    error: dict[str, Any] = {"message": _cut(message), "type": kind, "param": param and _cut(param), "code": code}
    if limit is not None:
        error["limit"] = {"name": limit.name, "limit": limit.most, "current": limit.used}
    return JSONResponse({"error": error}, status, headers=HEADERS.get(status, {}) | (headers or {}))


def _cut(text: str) -> str:
    return text if len(text) <= SAID_CHARS else f"{text[: SAID_CHARS - 1]}…"


def internal_error() -> JSONResponse:
    """Give the answer where something broke that nobody foresaw."""
    return envelope("server_error", "Something went wrong on our side. Try again; if it stays, report the request id.")


async def _refused(_: Request, error: Refused) -> JSONResponse:
    return envelope(error.code, error.message, param=error.param, limit=error.limit)


async def _not_found(_: Request, __: NotFound) -> JSONResponse:
    return envelope("not_found", "There is no such object for this API key. Check the id, the key and the base URL.")


async def _unavailable(_: Request, __: Unavailable) -> JSONResponse:
    return envelope("service_unavailable", "A part of the service did not answer. Try again in a moment.")


async def _in_the_way(_: Request, __: Conflict) -> JSONResponse:
    return envelope("service_unavailable", "Too many requests change the same object at once. Try again in a moment.")


async def _framework(request: Request, error: HTTPException) -> JSONResponse:
    code, message = _FRAMEWORK.get(HTTPStatus(error.status_code), ("invalid_request", str(error.detail)))
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["allow"] = ", ".join(_methods(request))
    return envelope(code, message, headers=headers)


def _methods(request: Request) -> list[str]:
    """Give all methods of a path; each route of the framework knows its own only. Of paths with and without a parameter, the one without is meant."""
    here = [route for route in request.app.state.routes if route.matches(request.scope)[0] is not Match.NONE]
    path = min((route.path for route in here), key=lambda path: path.count("{"))
    return sorted({method for route in here if route.path == path for method in route.methods})


async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    return envelope("invalid_request", f"{first['msg']}.", param=str(first["loc"][-1]))


async def _gone(_: Request, __: ClientDisconnect) -> JSONResponse:
    return envelope("invalid_request", "The request ended before its body did.")


_HANDLERS: dict[type[Exception], Callable[..., Awaitable[JSONResponse]]] = {
    Refused: _refused,
    NotFound: _not_found,
    Unavailable: _unavailable,
    Conflict: _in_the_way,
    HTTPException: _framework,
    RequestValidationError: _invalid,
    ClientDisconnect: _gone,
}


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Let the app, which has these routes, answer errors in the envelope."""
    app.state.routes = routes
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)
