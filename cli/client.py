"""HTTP with a Slackwater server: requests, repeated where that is safe; every failure becomes a CliError.

The key goes to the base URL's origin alone: a redirect of a file's content to a store leaves it behind, and anything
else that redirects is not Slackwater.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from cli.errors import AnswerError, CliError, ForeignError, NoAnswerError, RefusedError, UnreachableError
from cli.retry import ONCE, PART, UPLOAD, Backoff, Patience, Trouble, retry_after
from cli.target import BASE_URL_VARIABLE, Target
from cli.wire import Batch, ErrorEnvelope, File, Page, Part, PartUrls, Results, Upload, Verdict

CONNECT_TIMEOUT = 10.0
READ_TIMEOUT = 60.0
SCAN_TIMEOUT = 600.0  # an upload is answered when the whole file was scanned
PAGE_LIMIT = 100  # the longest page that the API gives
RESULTS_LIMIT = 1000  # and of results

UNAUTHORIZED = 401
TOO_LARGE = 413
RANGE_OUTSIDE = 416
NO_URLS = frozenset({400, 404, 405})

T = TypeVar("T")


class Client:
    """One server, one key. Methods raise CliError."""

    def __init__(
        self, http: httpx.Client, target: Target, *, sleep: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self._http = http
        self._target = target
        self._sleep = sleep
        self._clock = clock

    def backoff(self, patience: Patience, on_trouble: Trouble | None = None) -> Backoff:
        """Begin an effort with this client's sleep and clock."""
        return Backoff(patience, sleep=self._sleep, clock=self._clock, on_trouble=on_trouble)

    def batch(self, batch_id: str, *, patience: Patience = ONCE, on_trouble: Trouble | None = None) -> Batch:
        """Read one batch."""
        return self._decode(self._get(f"/batches/{batch_id}", patience=patience, on_trouble=on_trouble), Batch)

    def batch_as_sent(self, batch_id: str) -> dict[str, Any]:
        """Read one batch, every field of it."""
        return self._decode(self._get(f"/batches/{batch_id}"), dict[str, Any])

    def batches(self, at_most: int | None) -> Iterator[dict[str, Any]]:
        """Walk the batches as they were sent, newest first, page after page; `at_most` None: all of them."""
        after: str | None = None
        left = at_most
        while left is None or left > 0:
            limit = PAGE_LIMIT if left is None else min(left, PAGE_LIMIT)
            answer = self._get("/batches", params={"limit": limit} | ({"after": after} if after else {}))
            page = self._decode(answer, Page)
            yield from page.data[:limit]
            last = self.read_batch(page.data[-1]).id if page.data else after
            if not page.has_more:
                return
            if last == after:  # more of the same page for ever
                raise self._foreign(answer, "promised another page and did not give it")
            after = last
            left = None if left is None else left - len(page.data)

    def read_batch(self, as_sent: dict[str, Any]) -> Batch:
        """Read a batch out of a list."""
        try:
            return msgspec.convert(as_sent, Batch)
        except msgspec.ValidationError as error:
            raise ForeignError(
                f"{self._target.base_url} listed something that is no batch: {error}", status=200
            ) from error

    def upload(self, path: Path) -> File:
        """Upload an input file, streaming it. Repeated only where the server cannot have kept the first try."""

        def send() -> httpx.Response:
            with path.open("rb") as source:
                return self._http.post(
                    self._url("/files"),
                    data={"purpose": "batch"},
                    files={"file": (path.name, source, "application/jsonl")},
                    timeout=httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT, read=SCAN_TIMEOUT),
                )

        return self._decode(self._exchange(send, self.backoff(UPLOAD)), File)

    @property
    def base_url(self) -> str:
        """The server."""
        return self._target.base_url

    def create_upload(self, filename: str, size: int) -> Upload:
        """Begin an upload in parts; one whose answer was lost expires by itself."""
        body = {"filename": filename, "purpose": "batch", "bytes": size, "mime_type": "application/jsonl"}
        return self._decode(self._post("/uploads", body, {}, PART), Upload)

    def get_upload(self, upload_id: str) -> Upload:
        """Read an upload."""
        return self._decode(self._get(f"/uploads/{upload_id}"), Upload)

    def part_urls(self, upload_id: str, numbers: Sequence[int], part_bytes: int) -> dict[int, str]:
        """Ask for URLs that take parts straight to the store; none where the server gives none."""
        body = {"part_numbers": list(numbers), "part_bytes": part_bytes}
        try:
            found = self._decode(self._post(f"/uploads/{upload_id}/urls", body, {}, PART), PartUrls)
        except RefusedError as error:
            if error.status in NO_URLS:
                return {}
            raise
        return {one.part_number: one.url for one in found.data}

    def put_part(self, url: str, data: bytes) -> str:
        """Send a part to a signed URL, without the key; gives its ETag. Again, it is the same part."""

        def send() -> httpx.Response:
            request = self._http.build_request("PUT", url, content=data)
            request.headers.pop("Authorization", None)
            return self._http.send(request)

        return self._exchange(send, self.backoff(PART)).headers["etag"]

    def add_part(self, upload_id: str, data: bytes) -> str:
        """Send a part through the API; gives its id. One whose answer was lost is there in vain."""
        files = {"data": ("part", data, "application/octet-stream")}
        url = self._url(f"/uploads/{upload_id}/parts")
        return self._decode(self._exchange(lambda: self._http.post(url, files=files), self.backoff(PART)), Part).id

    def complete_upload(self, upload_id: str, body: Mapping[str, Any]) -> Upload:
        """Make the file of the parts; again, it is the same file."""
        url, patient = self._url(f"/uploads/{upload_id}/complete"), httpx.Timeout(SCAN_TIMEOUT, connect=CONNECT_TIMEOUT)
        answer = self._exchange(lambda: self._http.post(url, json=body, timeout=patient), self.backoff(PART))
        return self._decode(answer, Upload)

    def create_batch(self, body: Mapping[str, Any], idempotency_key: str) -> Batch:
        """Create a batch; under one key there is one, however often an answer was lost."""
        return self._decode(self._post("/batches", body, {"Idempotency-Key": idempotency_key}), Batch)

    def retry_batch(self, batch_id: str, body: Mapping[str, Any], idempotency_key: str) -> Batch:
        """Create a batch of the lines of another that are left; under one key there is one."""
        return self._decode(self._post(f"/batches/{batch_id}/retry", body, {"Idempotency-Key": idempotency_key}), Batch)

    def validate(self, body: Mapping[str, Any]) -> Verdict:
        """Ask what would become of a create; again, it is the same answer."""
        return self._decode(self._post("/batches/validate", body, {}, PART), Verdict)

    def delete_file(self, file_id: str) -> None:
        """Delete a file."""
        self._exchange(lambda: self._http.delete(self._url(f"/files/{file_id}")), self.backoff(ONCE))

    def results(
        self, batch_id: str, after: str | None, *, patience: Patience = ONCE, on_trouble: Trouble | None = None
    ) -> Results:
        """Read a page of results; one with a very large row comes from the store."""
        params = {"limit": RESULTS_LIMIT} | ({} if after is None else {"after": after})
        answer = self._exchange(
            lambda: self._http.get(self._url(f"/batches/{batch_id}/results"), params=params, follow_redirects=True),
            self.backoff(patience, on_trouble),
        )
        return self._decode(answer, Results)

    def cancel_batch(self, batch_id: str) -> Batch:
        """Ask for a cancel; a second time changes nothing."""
        return self._decode(self._post(f"/batches/{batch_id}/cancel", {}, {}), Batch)

    @contextmanager
    def content(self, file_id: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Open a file's bytes as they are stored, one try; 200, 206 and 416 are answers, all else raises."""
        plain = {"Accept-Encoding": "identity", **headers}  # a range counts stored bytes, not compressed ones
        with (
            self._translated(),
            self._http.stream(
                "GET", self._url(f"/files/{file_id}/content"), headers=plain, follow_redirects=True
            ) as answer,
        ):
            if not answer.is_success and answer.status_code != RANGE_OUTSIDE:
                answer.read()
                raise self._refusal(answer)
            yield answer

    def _get(
        self,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        patience: Patience = ONCE,
        on_trouble: Trouble | None = None,
    ) -> httpx.Response:
        return self._exchange(
            lambda: self._http.get(self._url(path), params=params), self.backoff(patience, on_trouble)
        )

    def _post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str], patience: Patience = ONCE
    ) -> httpx.Response:
        return self._exchange(
            lambda: self._http.post(self._url(path), json=body, headers=headers), self.backoff(patience)
        )

    def _url(self, path: str) -> str:
        return self._target.base_url + path

    def _exchange(self, send: Callable[[], httpx.Response], backoff: Backoff) -> httpx.Response:
        while True:
            try:
                with self._translated():
                    answer = send()
                    if not answer.is_success:
                        raise self._refusal(answer)
                    return answer
            except CliError as error:
                backoff.rest(error)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn httpx's failures into ours, here and nowhere else."""
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._unreachable(error) from error
        except httpx.TimeoutException as error:
            raise NoAnswerError(f"{self._server(error)} took too long to answer", "try again") from error
        except httpx.TransportError as error:
            raise NoAnswerError(f"the connection to {self._server(error)} broke ({error})", "try again") from error
        except httpx.RequestError as error:  # undecodable content, redirects in a circle
            raise ForeignError(
                f"{self._server(error)} gave an unreadable answer ({error})", f"check {BASE_URL_VARIABLE}", status=0
            ) from error

    def _server(self, error: httpx.RequestError) -> str:
        """Name who failed: the base URL, or the store that a file's content was redirected to."""
        url, base = error.request.url, httpx.URL(self._target.base_url)
        same = (url.scheme, url.host, url.port) == (base.scheme, base.host, base.port)
        return self._target.base_url if same else f"{url.scheme}://{url.netloc.decode('ascii')}"

    def _unreachable(self, error: httpx.RequestError) -> UnreachableError:
        server = self._server(error)
        why = f"no connection in {CONNECT_TIMEOUT:.0f} s" if isinstance(error, httpx.ConnectTimeout) else str(error)
        local = server == self._target.base_url and self._target.loopback
        hint = "is `slackwater up` running there?" if local else f"check {BASE_URL_VARIABLE} and the network"
        return UnreachableError(f"cannot reach {server} ({why})", hint)

    def _refusal(self, answer: httpx.Response) -> AnswerError:
        try:
            body = msgspec.json.decode(answer.content, type=ErrorEnvelope).error
        except (msgspec.DecodeError, UnicodeDecodeError):
            if answer.status_code == TOO_LARGE:
                return self._foreign(answer, "takes no request this large")
            return self._foreign(answer, "gave an answer that is not Slackwater's")
        details = [body.code or f"HTTP {answer.status_code}"]
        if request_id := answer.headers.get("x-request-id"):
            details.append(f"request {request_id}")
        return RefusedError(
            f"{body.message} ({', '.join(details)})",
            self._target.key_hint if answer.status_code == UNAUTHORIZED else None,
            status=answer.status_code,
            final=answer.headers.get("x-should-retry") == "false",
            retry_after=retry_after(answer.headers),
        )

    def _decode(self, answer: httpx.Response, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._foreign(answer, "gave an answer that is not Slackwater's") from error

    def _foreign(self, answer: httpx.Response, what: str) -> ForeignError:
        # The query of a store's URL is a signature: it stays out of terminals and logs.
        url = answer.url.copy_with(query=None)
        return ForeignError(
            f"{url} {what} (HTTP {answer.status_code})",
            f"check {BASE_URL_VARIABLE}, which usually ends in /v1",
            status=answer.status_code,
            retry_after=retry_after(answer.headers),
        )


def open_http(target: Target, transport: httpx.BaseTransport | None) -> httpx.Client:
    """Make the HTTP client of a target; without a transport it is the real network.

    Proxies and certificates of the environment count, except on this machine, where no proxy can help.
    """
    headers = {"User-Agent": "slackwater-cli"}
    if target.api_key is not None:
        headers["Authorization"] = f"Bearer {target.api_key}"
    return httpx.Client(
        headers=headers,
        timeout=httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT),
        transport=transport,
        trust_env=not target.loopback,
    )
