"""Host names to addresses, as this machine resolves them."""

import socket
from collections.abc import Sequence

from shared.core.errors import NotFound, Unavailable


def resolve(host: str) -> Sequence[str]:
    """Give the addresses of a host; NotFound when it has none, Unavailable when nobody answered."""
    try:
        found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise Unavailable(f"the name {host} could not be looked up") from error
        raise NotFound(f"there is no host {host}") from error
    except UnicodeError as error:  # no name of a host can be that long, or have such labels
        raise NotFound(f"there is no host {host}") from error
    return sorted({str(address[0]) for *_, address in found})
