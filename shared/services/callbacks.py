"""Where a caller may have us send a webhook: over HTTPS, and nowhere inside a network.

A name is looked up when it is given and again when something is sent: what it resolves to may change in between. A name that does not resolve (yet) is
no reason to refuse a batch; nothing can be sent there either.
"""

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from shared.core.addresses import Network, is_public
from shared.core.errors import NotFound, Refused, Unavailable

Resolve = Callable[[str], Sequence[str]]
"""Give the addresses of a host's name; NotFound when it has none, Unavailable when nobody answered."""

PARAM = "callback_url"


class Callbacks:
    """Checks addresses. Args: what looks names up; the networks that are allowed although they are private (in tests, loopback)."""

    def __init__(self, resolve: Resolve, allowed: Sequence[Network] = ()) -> None:
        self._resolve = resolve
        self._allowed = allowed

    def check(self, url: str) -> None:
        """Refused `invalid_request` unless the URL may be called."""
        host = _host(url)
        addresses: Sequence[str]
        try:
            ip_address(host)
            addresses = [host]
        except ValueError:
            addresses = self._look_up(host)
        if not all(is_public(address, self._allowed) for address in addresses):
            raise _refused("leads into a private network")

    def _look_up(self, host: str) -> Sequence[str]:
        try:
            return self._resolve(host)
        except (NotFound, Unavailable):
            return ()


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refused("is malformed") from None
    if parts.scheme != "https" or not host or port == 0:
        raise _refused("must be an HTTPS URL with a host")
    if parts.username is not None or parts.password is not None:
        raise _refused("must not hold a user name or a password")
    if not url.isprintable() or " " in url:
        raise _refused("is malformed")
    return host


def _refused(why: str) -> Refused:
    return Refused(
        "invalid_request", f"'{PARAM}' {why}. Send an HTTPS URL that is reachable from the internet.", param=PARAM
    )
