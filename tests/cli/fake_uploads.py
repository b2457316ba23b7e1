"""The uploads of the fake server: parts through the API, or straight to its store."""

import json
from collections.abc import Callable
from email import message_from_bytes
from hashlib import sha256
from typing import Any

import httpx

Json = dict[str, Any]
Refuse = Callable[[int, str, str], httpx.Response]


class FakeUploads:
    """In memory.

    Attributes:
        signs: Whether parts may go straight to the store.
        parts: The bytes of every part that arrived, by what the completion names it by.
        arrived: How many parts arrived, those that came again included.
        files: The bytes of each file that was made, in order.

    """

    def __init__(self, store: str, refuse: Refuse) -> None:
        self._store = store
        self._refuse = refuse
        self.signs = True
        self.parts: dict[str, bytes] = {}
        self.arrived = 0
        self.files: list[bytes] = []
        self.uploads: dict[str, Json] = {}

    def serve(self, request: httpx.Request, rest: list[str]) -> httpx.Response | None:
        """Serve a request below /uploads."""
        match request.method, rest:
            case "POST", []:
                return self._create(request)
            case "GET", [upload_id] if upload_id in self.uploads:
                return httpx.Response(200, json=self.uploads[upload_id])
            case "POST", [upload_id, "parts"] if upload_id in self.uploads:
                head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
                (part,) = message_from_bytes(head + request.content).get_payload()
                return httpx.Response(200, json={"id": self._keep(part.get_payload(decode=True))})
            case "POST", [upload_id, "urls"] if upload_id in self.uploads:
                return self._urls(request, upload_id)
            case "POST", [upload_id, "complete"] if upload_id in self.uploads:
                return self._complete(request, self.uploads[upload_id])
        return None

    def put(self, request: httpx.Request) -> httpx.Response:
        """Serve a PUT to the store."""
        return httpx.Response(200, headers={"etag": self._keep(request.content)})

    def expire(self) -> None:
        """Let every upload be over."""
        for upload in self.uploads.values():
            upload["status"] = "expired"

    def _keep(self, data: bytes) -> str:
        name = f"part_{sha256(data).hexdigest()[:16]}"
        self.parts[name] = data
        self.arrived += 1
        return name

    def _create(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        upload = {**body, "id": f"upload_{len(self.uploads) + 1}", "status": "pending", "file": None}
        self.uploads[upload["id"]] = upload
        return httpx.Response(200, json=upload)

    def _urls(self, request: httpx.Request, upload_id: str) -> httpx.Response:
        if not self.signs:
            return self._refuse(400, "invalid_request", "There are no signed URLs here.")
        numbers = json.loads(request.content)["part_numbers"]
        data = [{"part_number": n, "url": f"{self._store}/{upload_id}/{n}?X-Amz-Signature=secret"} for n in numbers]
        return httpx.Response(200, json={"object": "upload.urls", "upload_id": upload_id, "data": data})

    def _complete(self, request: httpx.Request, upload: Json) -> httpx.Response:
        if upload["file"] is None:
            body = json.loads(request.content)
            content = b"".join(self.parts[name] for name in body.get("etags") or body["part_ids"])
            self.files.append(content)
            upload["file"] = {"id": f"file-{len(self.files)}", "bytes": len(content)}
            upload["status"] = "completed"
        return httpx.Response(200, json=upload)
