"""Who calls: an organization, known by an API key of which we keep the SHA-256 alone."""

from hashlib import sha256
from typing import NamedTuple

from shared.core.contract import Contract
from shared.core.errors import NotFound, Refused
from shared.core.ids import Space
from shared.core.records import ApiKey
from shared.ports import Clock, Keys
from shared.services.recent import Recent

REMEMBERED = 60.0
"""Seconds for which a revoked key may still be taken."""


class Caller(NamedTuple):
    """The organization that calls, and what its key allows."""

    org: str
    scopes: frozenset[str]

    def space(self, contract: Contract) -> Space:
        """Name what the caller sees under the contract's mount."""
        return Space(self.org, contract.name)

    def must_read(self, contract: Contract) -> None:
        """Refused `insufficient_permissions` unless the key may read."""
        if not self.scopes & contract.read_scopes:
            wanted = " or ".join(sorted(contract.read_scopes))
            raise Refused("insufficient_permissions", f"This API key needs the scope {wanted}.")

    def must_write(self, contract: Contract) -> None:
        """Refused `insufficient_permissions` unless the key may change things."""
        if not self.scopes >= contract.write_scopes:
            wanted = " and ".join(sorted(contract.write_scopes))
            raise Refused("insufficient_permissions", f"This API key needs the scope {wanted}.")


class Accounts:
    """The organizations' keys."""

    def __init__(self, keys: Keys, *, clock: Clock) -> None:
        self._keys = keys
        self._recent = Recent[str, ApiKey](clock, REMEMBERED)

    def authenticate(self, secret: str) -> Caller:
        """Give the caller with this secret; Refused `invalid_api_key` when there is none. An unknown key is asked for each time."""
        digest = sha256(secret.encode()).hexdigest()
        try:
            key = self._recent.get(digest, lambda: self._keys.find(digest))
        except NotFound:
            message = "Incorrect API key: it is not known here, or it was revoked. Check the key and the base URL."
            raise Refused("invalid_api_key", message) from None
        return Caller(key.org, frozenset(key.scopes))
