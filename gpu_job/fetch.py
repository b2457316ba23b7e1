"""Fetches what callers name, over HTTPS, from the internet and from nowhere else.

What a name resolves to is checked in the same breath as it is connected to, each time: of a name that has one address inside a network, none is used.
Redirects are followed a few times, under the same rules. Sizes, times and the number of fetches at once are bounded, since the other side is a stranger.

    NotFetched      it could not be had; the message says why, and nothing of what is inside our network
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from ipaddress import ip_address
from typing import NamedTuple

import aiohttp
from aiohttp import AddrInfoType
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from shared.core.addresses import Network, is_public
from shared.core.errors import NotFound, Unavailable

SECONDS = 30.0
"""For all of one fetch: looking up, redirects, tries, and the whole body."""
CONNECT_SECONDS = 10.0
AT_ONCE = 16
LOOK_UPS = 8
REDIRECTS = 3
PAUSES = (0.5, 2.0)
"""Seconds between tries, when the other side failed rather than refused."""
CHUNK = 1 << 16

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII | re.IGNORECASE)
_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_MOVED = {301, 302, 303, 307, 308}


class NotFetched(Exception):  # noqa: N818 - it is named for what happened
    """It could not be had, and asking again would not help."""


class _TryAgain(Exception):  # noqa: N818 - it never leaves this module
    """It could not be had this time; the message says why."""


class Fetched(NamedTuple):
    """A body, and the media type that the server gave it."""

    kind: str
    data: bytes


class Fetcher:
    """Fetches. Used in one event loop; `close` ends it.

    Args:
        resolve: Gives the addresses of a host's name, blocking; NotFound when it has none, Unavailable when nobody answered.
        allowed: Networks that may be connected to although they are private (in tests, loopback).
        trust: Whose certificates count; None: those of the well-known authorities.
        seconds: For all of one fetch.

    """

    def __init__(
        self,
        resolve: Callable[[str], Sequence[str]],
        allowed: Sequence[Network] = (),
        *,
        trust: ssl.SSLContext | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._checked = _Checked(resolve, allowed)
        self._allowed = allowed
        self._trust = trust
        self._seconds = seconds
        self._places = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, url: str, most: int) -> Fetched:
        """Give what is at an https URL, of at most that many bytes. NotFetched."""
        async with self._places:
            try:
                async with asyncio.timeout(self._seconds):
                    return await self._patiently(url, most)
            except TimeoutError:
                raise NotFetched(f"it did not come within {self._seconds:g} s") from None

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        self._checked.end()

    async def _patiently(self, url: str, most: int) -> Fetched:
        for pause in (*PAUSES, None):
            try:
                return await self._follow(_read(url), most)
            except _TryAgain as error:
                if pause is None:
                    raise NotFetched(str(error)) from error
                await asyncio.sleep(pause)
        raise AssertionError("the last try raises")

    async def _follow(self, url: URL, most: int) -> Fetched:
        for _ in range(1 + REDIRECTS):
            found = await self._get(url, most)
            if isinstance(found, Fetched):
                return found
            url = found
        raise NotFetched("it is redirected too often")

    async def _get(self, url: URL, most: int) -> Fetched | URL:
        self._check(url)
        try:
            async with self._opened().get(url, allow_redirects=False) as answer:
                if answer.status in _MOVED:
                    return _read(answer.headers.get("Location", ""), url)
                if answer.status in _PASSING or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise _TryAgain(f"the server answered {answer.status}")
                if answer.status != HTTPStatus.OK:
                    raise NotFetched(f"the server answered {answer.status}")
                return Fetched(_kind(answer.content_type), await _body(answer, most))
        except aiohttp.ClientConnectorCertificateError as error:
            raise NotFetched("the server's certificate is not good") from error
        except aiohttp.ClientConnectorSSLError as error:
            raise NotFetched("the server does not speak TLS as it should") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _TryAgain("the server could not be reached, or broke off") from error
        except ValueError as error:  # what yarl takes for a URL and cannot be asked for
            raise NotFetched("the URL is malformed") from error

    def _check(self, url: URL) -> None:
        """Refuse an address that is written out: no resolver is asked about those, nor about what C's library takes for one (`127.1`)."""
        host = url.host or ""
        if ":" in host or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
            try:
                public = is_public(host, self._allowed)
            except ValueError:
                raise NotFetched("the URL is malformed") from None
            if not public:
                raise NotFetched(INSIDE)

    def _socket(self, address: AddrInfoType) -> socket.socket:
        """Make the socket of a connection. Whatever way led to this address, it is looked at here, and it is what is connected to."""
        family, kind, protocol, _, place = address
        if not is_public(str(place[0]), self._allowed):
            raise OSError(INSIDE)
        return socket.socket(family, kind, protocol)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=self._checked, use_dns_cache=False, ssl=self._trust or True, socket_factory=self._socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                headers={"User-Agent": "slackwater", "Accept-Encoding": "identity"},
                auto_decompress=False,  # a small body may unfold into one without end
            )
        return self._session


INSIDE = "it leads into a private network"


class _Checked(AbstractResolver):
    """Gives addresses that may be connected to, or none. It has threads of its own: strangers' name servers may hang."""

    def __init__(self, resolve: Callable[[str], Sequence[str]], allowed: Sequence[Network]) -> None:
        self._resolve = resolve
        self._allowed = allowed
        self._threads = ThreadPoolExecutor(LOOK_UPS, thread_name_prefix="look-up")

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002 - the port's own
    ) -> list[ResolveResult]:
        """Look a name up. NotFetched when it may not be connected to."""
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, host)
        except NotFound:
            raise NotFetched("there is no such host") from None
        except Unavailable as error:
            raise _TryAgain("its host could not be looked up") from error
        if not all(is_public(address, self._allowed) for address in found):
            raise NotFetched(INSIDE)
        return [_result(host, address, port) for address in found]

    async def close(self) -> None:
        """Stay open: the fetcher ends it."""

    def end(self) -> None:
        """Let the threads go."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _result(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET  # noqa: PLR2004 - that is its name
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=flags)


def _read(text: str, base: URL | None = None) -> URL:
    try:
        url = URL(text) if base is None else base.join(URL(text))
    except ValueError:
        raise NotFetched("the URL is malformed") from None
    if url.scheme != "https" or not url.host:
        raise NotFetched("it is not at an https URL" if base is None else "it is redirected to what is no https URL")
    if url.user is not None or url.password is not None:
        raise NotFetched("the URL holds a user name or a password")
    return url


def _kind(said: str) -> str:
    return said if _TYPE.fullmatch(said) else "application/octet-stream"


async def _body(answer: aiohttp.ClientResponse, most: int) -> bytes:
    data = bytearray()
    async for piece in answer.content.iter_chunked(CHUNK):
        data += piece
        if len(data) > most:
            raise NotFetched(f"it has more than {most} bytes")
    return bytes(data)
