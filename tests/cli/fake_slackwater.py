"""A Slackwater server for the command line's tests: the contract's wire shapes, in memory, with faults on request.

It is an httpx transport. What it is given and what it gives are copies. Batches move one step of their script at each
look; a fault meets the next request, before or after it took effect.
"""

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from email import message_from_bytes
from typing import Any

import httpx

from tests.cli.fake_uploads import FakeUploads

Json = dict[str, Any]
Fault = Callable[[httpx.Request, Callable[[], httpx.Response]], httpx.Response]

STORE = "https://store.example"
CREATED_AT = 1_780_000_000


def batch_object(batch_id: str, **fields: object) -> Json:
    """Make a batch as the wire has it, all keys there."""
    nothing: Json = dict.fromkeys(
        (
            "errors",
            "output_file_id",
            "error_file_id",
            "in_progress_at",
            "finalizing_at",
            "completed_at",
            "failed_at",
            "expired_at",
            "cancelling_at",
            "cancelled_at",
            "usage",
            "metadata",
            "model",
        )
    )
    return {
        "id": batch_id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "input_file_id": "file-in",
        "completion_window": "24h",
        "status": "validating",
        "created_at": CREATED_AT,
        "expires_at": CREATED_AT + 86_400,
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        **nothing,
        **fields,
    }


def counts(total: int, completed: int, failed: int = 0) -> Json:
    """Make a batch's request_counts."""
    return {"request_counts": {"total": total, "completed": completed, "failed": failed}}


def refusal(status: int, code: str | None, message: str, **headers: str) -> httpx.Response:
    """Make an error answer in Slackwater's envelope; headers are written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return httpx.Response(status, json={"error": error}, headers={"x-request-id": "req_fake", **named})


def answers(response: httpx.Response) -> Fault:
    """Answer so in place of what was asked for, with no effect."""
    return lambda _request, _serve: response


def breaks(error: type[httpx.TransportError], message: str = "broken") -> Fault:
    """Break before the request took effect."""

    def fault(request: httpx.Request, _serve: Callable[[], httpx.Response]) -> httpx.Response:
        raise error(message, request=request)

    return fault


def loses_the_answer(request: httpx.Request, serve: Callable[[], httpx.Response]) -> httpx.Response:
    """Take effect, then break."""
    serve()
    raise httpx.ReadError("reset by peer", request=request)


class Cut(httpx.SyncByteStream):
    """A body whose connection breaks after some bytes."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        """Give the bytes, then break."""
        yield self._body
        raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


class FakeSlackwater(httpx.BaseTransport):
    """One mount of one deployment, with one key."""

    def __init__(self, *, key: str = "sk-local") -> None:
        self.key = key
        self.requests: list[httpx.Request] = []
        self.uploads: list[tuple[str, str, bytes]] = []  # purpose, file name, bytes
        self.created: list[Json] = []
        self.deleted: list[str] = []
        self.validated: list[Json] = []
        self.verdicts: list[Json] = []  # what the next dry runs find
        self.result_pages: dict[str, list[tuple[list[str], str]]] = {}  # of a batch: rows as JSON, and its status then
        self.faults: list[Fault] = []
        self.cuts: list[int] = []  # bytes after which the next answers with content break
        self.redirects_content = False
        self.ignores_if_range = False
        self.in_parts = FakeUploads(STORE, refusal)
        self._batches: dict[str, Json] = {}
        self._scripts: dict[str, list[Json]] = {}
        self._contents: dict[str, bytes] = {}
        self._versions: dict[str, int] = {}
        self._by_key: dict[str, str] = {}
        self._script_of_next: list[Json] = []

    def has_batch(self, batch: Json, *script: Json) -> None:
        """Keep a batch; each look at it first applies the next step of the script."""
        self._batches[batch["id"]] = deepcopy(batch)
        self._scripts[batch["id"]] = deepcopy(list(script))

    def has_content(self, file_id: str, body: bytes) -> None:
        """Keep a file's bytes; other bytes under the same id get another ETag."""
        self._contents[file_id] = body
        self._versions[file_id] = self._versions.get(file_id, 0) + 1

    def next_batch_plays(self, *script: Json) -> None:
        """Give the next batch that is created this script."""
        self._script_of_next = deepcopy(list(script))

    def paths(self) -> list[str]:
        """List the requests so far, e.g. `GET /v1/batches/batch_1`."""
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.requests]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Serve one request."""
        request.read()
        self.requests.append(request)
        if self.faults:
            return self.faults.pop(0)(request, lambda: self._serve(request))
        return self._serve(request)

    def _serve(self, request: httpx.Request) -> httpx.Response:
        if str(request.url).startswith(STORE):
            if "authorization" in request.headers:
                return httpx.Response(400, text="<Error><Code>InvalidArgument</Code></Error>")
            if request.method == "PUT":
                return self.in_parts.put(request)
            return self._content(request, request.url.path.removeprefix("/"))
        if request.headers.get("authorization") != f"Bearer {self.key}":
            return refusal(401, "invalid_api_key", "The API key is not known.")
        kind, *rest = request.url.path.removeprefix("/v1/").split("/")
        serve = {"files": self._files, "uploads": self.in_parts.serve}.get(kind, self._batches_served)
        served = serve(request, rest)
        return served or refusal(404, "not_found", "There is no such object.")

    def _files(self, request: httpx.Request, rest: list[str]) -> httpx.Response | None:
        match request.method, rest:
            case "POST", []:
                return self._upload(request)
            case "DELETE", [file_id]:
                self.deleted.append(file_id)
                return httpx.Response(200, json={"id": file_id, "object": "file", "deleted": True})
            case "GET", [file_id, "content"]:
                if self.redirects_content:
                    return httpx.Response(302, headers={"location": f"{STORE}/{file_id}?X-Amz-Signature=secret"})
                return self._content(request, file_id)
        return None

    def _batches_served(  # noqa: PLR0911 - one a route
        self, request: httpx.Request, rest: list[str]
    ) -> httpx.Response | None:
        match request.method, rest:
            case "POST", []:
                return self._create(request)
            case "GET", []:
                return self._list(request)
            case "GET", [batch_id] if batch_id in self._batches:
                if self._scripts[batch_id]:
                    self._batches[batch_id].update(self._scripts[batch_id].pop(0))
                return httpx.Response(200, json=deepcopy(self._batches[batch_id]))
            case "POST", ["validate"]:
                return self._validate(request)
            case "POST", [batch_id, "retry"] if batch_id in self._batches:
                return self._retry(request, batch_id)
            case "GET", [batch_id, "results"] if batch_id in self._batches:
                return self._results(request, batch_id)
            case "POST", [batch_id, "cancel"] if batch_id in self._batches:
                return self._cancel(self._batches[batch_id])
        return None

    def _validate(self, request: httpx.Request) -> httpx.Response:
        self.validated.append(json.loads(request.content))
        answer = {"object": "batch.validation", "endpoint": "x", "completion_window": "24h", **self.verdicts.pop(0)}
        return httpx.Response(200, json=answer)

    def _retry(self, request: httpx.Request, batch_id: str) -> httpx.Response:
        body = json.loads(request.content)
        self.created.append(body)
        new = f"batch_{len(self.created)}_of_{batch_id}"
        self.has_batch(batch_object(new, retry_of=batch_id, **body))
        return httpx.Response(200, json=deepcopy(self._batches[new]))

    def _results(self, request: httpx.Request, batch_id: str) -> httpx.Response:
        number = int(request.url.params.get("after", "0"))
        rows, status = self.result_pages[batch_id][number]
        last = number + 1 == len(self.result_pages[batch_id])
        rest = {"has_more": bool(rows) and not last, "next": None if last else str(number + 1), "status": status}
        data = ",".join(rows)
        tail = json.dumps(rest)[1:]
        return httpx.Response(200, content=f'{{"object":"list","data":[{data}],{tail}'.encode())

    def _cancel(self, batch: Json) -> httpx.Response:
        if batch["status"] in {"completed", "failed", "expired"}:
            return refusal(409, "batch_ended", "The batch has already ended.", x_should_retry="false")
        batch["status"] = "cancelling"
        return httpx.Response(200, json=deepcopy(batch))

    def _upload(self, request: httpx.Request) -> httpx.Response:
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        message = message_from_bytes(head + request.content)
        parts = {str(part.get_param("name", header="content-disposition")): part for part in message.walk()}
        body = parts["file"].get_payload(decode=True)
        purpose = parts["purpose"].get_payload(decode=True)
        assert isinstance(body, bytes)
        assert isinstance(purpose, bytes)
        filename = parts["file"].get_filename() or ""
        self.uploads.append((purpose.decode(), filename, body))
        file = {
            "id": f"file-{len(self.uploads)}",
            "object": "file",
            "bytes": len(body),
            "created_at": CREATED_AT,
            "filename": filename,
            "purpose": "batch",
            "status": "processed",
        }
        return httpx.Response(200, json=file)

    def _create(self, request: httpx.Request) -> httpx.Response:
        key = request.headers.get("idempotency-key")
        if key is None or key not in self._by_key:
            body = json.loads(request.content)
            self.created.append(body)
            batch_id = f"batch_{len(self.created)}"
            self.has_batch(batch_object(batch_id, **body), *self._script_of_next)
            self._by_key[key or batch_id] = batch_id
        else:
            batch_id = self._by_key[key]
        return httpx.Response(200, json=deepcopy(self._batches[batch_id]))

    def _list(self, request: httpx.Request) -> httpx.Response:
        limit = int(request.url.params.get("limit", "20"))
        if limit > 100:
            return refusal(400, "integer_above_max_value", "limit is at most 100.")
        newest_first = list(reversed(self._batches.values()))
        ids = [batch["id"] for batch in newest_first]
        after = request.url.params.get("after")
        start = ids.index(after) + 1 if after else 0
        page = newest_first[start : start + limit]
        answer = {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": start + limit < len(newest_first),
        }
        return httpx.Response(200, json=deepcopy(answer))

    def _content(self, request: httpx.Request, file_id: str) -> httpx.Response:
        if file_id not in self._contents:
            return refusal(404, "not_found", "There is no such file.")
        body = self._contents[file_id]
        etag = f'"{file_id}-{self._versions[file_id]}"'
        headers = {"etag": etag, "accept-ranges": "bytes", "content-type": "application/jsonl"}
        status, start = 200, 0
        wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))
        if wanted and (self.ignores_if_range or request.headers.get("if-range") == etag):
            status, start = 206, int(wanted[1])
            if start >= len(body):
                return httpx.Response(416, headers={"content-range": f"bytes */{len(body)}"})
            headers["content-range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        rest = body[start:]
        if self.cuts:
            return httpx.Response(status, headers=headers, stream=Cut(rest[: self.cuts.pop(0)]))
        return httpx.Response(status, headers=headers, stream=httpx.ByteStream(rest))
