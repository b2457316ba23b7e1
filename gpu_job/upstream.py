"""One request row to the engine and its answer back: the bytes, whatever they say, or one of two errors.

What is known about a row that got no answer decides what may be done with it, so it is kept exactly:

    EngineUnreachable(sent=False)   the engine saw nothing of the row: no connection, or it closed before the first byte
    EngineUnreachable(sent=True)    the engine may have seen it, and went away before a full answer
    EngineTimeout                   no full answer within the row's own limit

A row is sent again here only while nothing of it was sent. That happens to kept-alive connections: the server closes
an idle one just when it is used again. Whether the other side has closed is asked of the kernel in the same breath as
the first byte is handed to it, and aiohttp itself never repeats a POST.
"""

import asyncio
import re
import select
import sys
from collections import defaultdict
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Protocol, Self

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import StreamWriter

from gpu_job.engine import Engine

_RESENDS = 2
_KEEP_ALIVE = 4.0  # seconds; vLLM's server closes a connection that was idle for 5
_CONNECT_TIMEOUT = 10.0
_METRICS_TIMEOUT = 5.0
# What poll reports of a socket whose other side has closed. Data that waits to be read (TLS sends some) is no sign of it.
if sys.platform == "linux":
    _PEER_CLOSED = select.POLLRDHUP
else:
    _PEER_CLOSED = select.POLLHUP
_SAMPLE = re.compile(
    r"^([A-Za-z_:][\w:]*)(?:\{.*\})? ([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|Inf|NaN))(?!\S)", re.MULTILINE
)


@dataclass(frozen=True)
class Reply:
    """The engine's whole answer: an HTTP status, and a body that need not be JSON."""

    status: int
    body: bytes


class EngineUnreachable(Exception):  # noqa: N818 - it is named for what happened
    """No full answer, because there is no connection to the engine or it broke; `sent`: it may have seen the row."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class EngineTimeout(Exception):  # noqa: N818 - it is named for what happened
    """No full answer within the row's limit. The connection is closed, which tells the engine to give the row up."""


class Way(Protocol):
    """The way into the engine, as those see it who send something: `Upstream`."""

    async def post(self, url_path: str, body: bytes, *, timeout: float) -> Reply:  # noqa: ASYNC109 - each row has its own
        """Send one row's body and give the whole answer. EngineUnreachable, EngineTimeout."""

    async def metrics(self) -> dict[str, float]:
        """Read the engine's counters and gauges; empty where it has none. EngineUnreachable, EngineTimeout."""


class Upstream:
    """The connections to one engine, wherever its newest generation serves. Built in a running loop, used `async with`.

    Args:
        engine: Asked for its base URL at every request.
        max_in_flight: The most connections at once; a further row waits for one, within its own limit.

    """

    def __init__(self, engine: Engine, *, max_in_flight: int) -> None:
        self._engine = engine
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=max_in_flight, keepalive_timeout=_KEEP_ALIVE),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def post(self, url_path: str, body: bytes, *, timeout: float) -> Reply:  # noqa: ASYNC109 - each row has its own
        """Send one row's body (JSON) to a path that begins with `/v1/`; any HTTP status is a reply.

        Raises EngineUnreachable or EngineTimeout. Cancelling it tells the engine to give the row up.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._send(self._engine.base_url + url_path, body)
        except TimeoutError:
            raise EngineTimeout(f"the engine gave no full answer within {timeout:g} s") from None

    async def metrics(self) -> dict[str, float]:
        """Read the engine's counters and gauges: name -> value, summed over labels; empty where it has none.

        Raises EngineUnreachable or EngineTimeout. It takes no connection away from rows.
        """
        timeout = aiohttp.ClientTimeout(total=_METRICS_TIMEOUT)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self._engine.base_url + "/metrics") as response,
            ):
                body = await response.read() if response.status == HTTPStatus.OK else b""
        except TimeoutError:
            raise EngineTimeout(f"the engine gave no metrics within {_METRICS_TIMEOUT:g} s") from None
        except aiohttp.ClientError as error:
            raise EngineUnreachable("the engine gave no metrics", sent=True) from error
        totals: defaultdict[str, float] = defaultdict(float)
        for name, value in _SAMPLE.findall(body.decode(errors="replace")):
            if not name.endswith("_bucket"):
                totals[name] += float(value)
        return dict(totals)

    async def _send(self, url: str, body: bytes) -> Reply:
        for _ in range(1 + _RESENDS):
            sending = _Body(body)
            try:
                async with self._session.post(url, data=sending, allow_redirects=False) as response:
                    return Reply(response.status, await response.read())
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                raise EngineUnreachable("the engine takes no connection", sent=False) from error
            except aiohttp.ClientError as error:
                if sending.sent:
                    raise EngineUnreachable("the engine went away before it had answered", sent=True) from error
        raise EngineUnreachable("the engine closes every connection before a request", sent=False)


class _Body(aiohttp.Payload):
    """A request's body that knows whether its first byte was handed to a connection that the other side holds open."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body, content_type="application/json")
        self._body = body
        self._size = len(body)
        self.sent = False

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the body; OSError, and nothing written, where the other side has closed."""
        if not isinstance(writer, StreamWriter) or _closed(writer.transport):
            raise ConnectionResetError("the engine closed the connection before the request")
        # Nothing is awaited between the look and the write, which also carries the headers.
        self.sent = True
        await writer.write(self._body)


def _closed(transport: asyncio.Transport | None) -> bool:
    """Whether the other side has closed, be it so recently that the event loop has not noticed."""
    if transport is None or transport.is_closing():
        return True
    look = select.poll()
    look.register(transport.get_extra_info("socket"), _PEER_CLOSED)
    return bool(look.poll(0))
