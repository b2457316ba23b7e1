"""What AWS says went wrong, in our words: the one function that reads botocore's errors.

    a condition did not hold                       Conflict
    there is no such thing                         NotFound
    a throttle, or a transaction in the way        Busy, an Unavailable that is known to have had no effect
    5xx, a timeout, a broken connection            Unavailable: the effect is unknown

Anything else is a mistake of ours or of the deployment (a missing permission, a wrong name) and is raised as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from botocore.exceptions import (
    ClientError,
    ConnectionError,  # noqa: A004 - botocore calls it so
    HTTPClientError,
    IncompleteReadError,
)

from shared.core.errors import Conflict, NotFound, SlackwaterError, Unavailable


class Busy(Unavailable):
    """The call was turned away before it had any effect."""


_BROKEN = (ConnectionError, HTTPClientError, IncompleteReadError)
_KINDS: dict[str, type[SlackwaterError]] = {
    "412": Conflict,
    "ConditionalCheckFailedException": Conflict,
    "ConditionalRequestConflict": Conflict,
    "PreconditionFailed": Conflict,
    "404": NotFound,
    "ExecutionDoesNotExist": NotFound,
    "ExecutionLimitExceeded": Busy,
    "InvalidPart": Busy,  # written again between the list of parts and the call
    "NoSuchKey": NotFound,
    "NoSuchUpload": NotFound,
    "ProvisionedThroughputExceededException": Busy,
    "RequestLimitExceeded": Busy,
    "SlowDown": Busy,
    "ThrottlingException": Busy,
    "TooManyRequestsException": Busy,
    "TransactionConflictException": Busy,
    "InternalError": Unavailable,
    "InternalServerError": Unavailable,
    "RequestTimeout": Unavailable,
    "TransactionInProgressException": Unavailable,
}
_CANCELLED = "TransactionCanceledException"
_CONDITION = "ConditionalCheckFailed"
_IN_THE_WAY = frozenset({"None", "ProvisionedThroughputExceeded", "ThrottlingError", "TransactionConflict"})


@contextmanager
def translated() -> Iterator[None]:
    """Raise botocore's errors from the block as ours, where there is a word for them."""
    try:
        yield
    except (ClientError, *_BROKEN) as error:
        known = translate(error)
        if known is None:
            raise
        raise known from error


def translate(error: Exception) -> SlackwaterError | None:
    """Give our error for one of botocore's, None where we have none. Messages name the call and AWS's code, never values."""
    if not isinstance(error, ClientError):
        return Unavailable(f"AWS did not answer: {type(error).__name__}") if isinstance(error, _BROKEN) else None
    code = code_of(error)
    text = f"{error.operation_name}: {code}"
    if code == _CANCELLED:
        return _cancelled(error, text)
    status: Any = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = _KINDS.get(code, Unavailable if status >= HTTPStatus.INTERNAL_SERVER_ERROR else None)
    return None if kind is None else kind(text)


def code_of(error: ClientError) -> str:
    """Give AWS's code of an error."""
    return error.response.get("Error", {}).get("Code", "")


def _cancelled(error: ClientError, text: str) -> SlackwaterError | None:
    details: Any = error.response
    reasons = {reason.get("Code") or "None" for reason in details.get("CancellationReasons", ())}
    if _CONDITION in reasons:
        return Conflict(text)
    return Busy(text) if reasons and reasons <= _IN_THE_WAY else None
