"""The gate of a mount: a Bearer key, and the scope that the contract wants for what it is used for.

What a person is logged in with is no key: a token of three parts, as JSON Web Tokens are, or anything that is not a Bearer. A batch runs on after the
person has left, so a create says which of the two it was given.
"""

import re
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from shared.core.contract import Contract
from shared.core.errors import Refused
from shared.services.accounts import Accounts, Caller

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]

_SESSION = re.compile(r"[\w-]+\.[\w-]+\.[\w-]*")


class Gate:
    """Lets callers in under one contract. Its methods are dependencies of routes.

    All raise Refused: `invalid_api_key`, `insufficient_permissions`.
    """

    def __init__(self, accounts: Accounts, contract: Contract) -> None:
        self._accounts = accounts
        self._contract = contract

    def reader(self, credentials: Credentials) -> Caller:
        """Give the caller, who may read."""
        caller = self._authenticate(credentials)
        caller.must_read(self._contract)
        return caller

    def writer(self, credentials: Credentials) -> Caller:
        """Give the caller, who may change things."""
        caller = self._authenticate(credentials)
        caller.must_write(self._contract)
        return caller

    def creator(self, credentials: Credentials) -> Caller:
        """Give the caller, who may create batches. Refused with the contract's own code for what is no API key."""
        if credentials is None or _SESSION.fullmatch(credentials.credentials):
            message = "A batch is created with an API key. Send one as 'Authorization: Bearer <key>'."
            raise Refused(self._contract.no_key, message)
        return self.writer(credentials)

    def _authenticate(self, credentials: HTTPAuthorizationCredentials | None) -> Caller:
        if credentials is None:
            raise Refused("invalid_api_key", "No API key was sent. Send it as 'Authorization: Bearer <key>'.")
        return self._accounts.authenticate(credentials.credentials)
