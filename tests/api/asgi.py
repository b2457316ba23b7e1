"""One upload, spoken to the application as a server would, so that a test decides how the body arrives."""

import json
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple

from fastapi import FastAPI

from tests.api.world import KEY

HEADERS = {"authorization": f"Bearer {KEY}", "content-type": "multipart/form-data; boundary=XX"}


class Answer(NamedTuple):
    """What the application answered."""

    status_code: int
    body: bytes

    def json(self) -> Any:
        """Decode the body."""
        return json.loads(self.body)


async def call(
    app: FastAPI, pieces: Iterator[bytes], headers: dict[str, str] | None = None, *, goes_away: bool = False
) -> Answer:
    """Post to /v1/files a body that arrives in these pieces; after them the client closes the connection where it `goes_away`."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/files",
        "raw_path": b"/v1/files",
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in (HEADERS | (headers or {})).items()],
    }
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        piece = next(pieces, None)
        if piece is not None:
            return {"type": "http.request", "body": piece, "more_body": True}
        if goes_away:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status, body
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            body += message.get("body", b"")

    await app(scope, receive, send)
    return Answer(status, body)
