"""Where the requests go and who asks: base URL and API key, from options or the environment.

On this machine the local stack's own key is the default; elsewhere there is none, and the server says so.
"""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Self
from urllib.parse import urlsplit

BASE_URL_VARIABLE = "SLACKWATER_BASE_URL"
API_KEY_VARIABLE = "SLACKWATER_API_KEY"
DEFAULT_BASE_URL = "http://127.0.0.1:8000/v1"
LOCAL_KEY = "sk-local"


@dataclass(frozen=True)
class Target:
    """One deployment's mount, without a trailing slash, and the key for it (None: no key is sent)."""

    base_url: str
    api_key: str | None

    @classmethod
    def of(cls, base_url: str, api_key: str | None) -> Self:
        """Check what the caller gave; ValueError says what is wrong with it, and never shows the key."""
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"the base URL has to look like {DEFAULT_BASE_URL}, not {base_url!r}")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError(f"the base URL takes no user, query or fragment; the key belongs in {API_KEY_VARIABLE}")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise ValueError(f"the API key has characters that no key has: check {API_KEY_VARIABLE}")
        if not api_key:
            api_key = LOCAL_KEY if _is_loopback(parts.hostname) else None
        return cls(base_url.rstrip("/"), api_key)

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine."""
        return _is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def key_hint(self) -> str:
        """What to do about a key that the server does not know."""
        if self.api_key is None:
            return f"no key was sent: set {API_KEY_VARIABLE} or give --api-key"
        if self.api_key == LOCAL_KEY:
            return (
                f"the key was the local stack's {LOCAL_KEY}: set {API_KEY_VARIABLE} or give --api-key for another one"
            )
        return f"check the key in {API_KEY_VARIABLE} or --api-key"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, not an address
        return False
