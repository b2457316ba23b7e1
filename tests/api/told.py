"""Holds every answer of the application against its OpenAPI document: status, headers and body must be told of there.

The clients of a test's world speak through it, so that whatever a test asks for is a test of the document too.
"""

import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import Message, Receive, Scope, Send

from functions.api.document import document
from shared.core.contract import Contract

FRAMEWORK = {404, 405}
"""What is answered where there is no such path or method, by no operation of the document."""


_DOCUMENTS: dict[tuple[str, bool], dict[str, Any]] = {}


class Told:
    """The application, for clients that are to be told the truth about it. Args: the app and its mounts; whether contents come by redirect."""

    def __init__(self, app: FastAPI, mounts: Mapping[str, Contract], *, redirects: bool) -> None:
        self._app = app
        self._mounts = mounts
        self._redirects = redirects

    def _told(self, path: str) -> dict[str, Any] | None:
        for prefix, contract in self._mounts.items():
            if path.startswith(f"{prefix}/"):
                key = contract.name, self._redirects
                if key not in _DOCUMENTS:  # making one takes longer than most tests
                    routes = [route for route in self._app.state.routes if route.path.startswith(f"{prefix}/")]
                    _DOCUMENTS[key] = document(routes, contract)
                return _DOCUMENTS[key]
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and check its answer. AssertionError."""
        start: Message = {}
        body = bytearray()

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.extend(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, note)
        route = scope.get("route")
        if not isinstance(route, APIRoute):
            assert start["status"] in FRAMEWORK
            return
        told = self._told(route.path_format)
        if told is not None:
            _check(told, scope["method"], route.path_format, start, bytes(body))


def _check(told: dict[str, Any], method: str, path: str, start: Message, body: bytes) -> None:
    operation = told["paths"][path].get(method.lower())
    if operation is None:
        assert start["status"] in FRAMEWORK
        return
    where = f"{method} {path} -> {start['status']}"
    assert str(start["status"]) in operation["responses"], f"{where} is not told of"
    answer = operation["responses"][str(start["status"])]
    headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
    missing = {name for name, header in answer["headers"].items() if header["required"]} - headers.keys()
    assert not missing, f"{where} lacks the headers {missing}"
    if method == "HEAD" or not body:
        return
    kind = headers["content-type"]
    assert kind in answer["content"], f"{where} is not told to be {kind}"
    if kind == "application/json":
        schema = {**answer["content"][kind]["schema"], "components": told["components"]}
        error = next(jsonschema_rs.validator_for(schema).iter_errors(json.loads(body)), None)
        assert error is None, f"{where}: {error}"
