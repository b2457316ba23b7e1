"""What AWS says, and what we make of it."""

from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    IncompleteReadError,
    NoCredentialsError,
    ReadTimeoutError,
)

from shared.adapters.errors import Busy, translate, translated
from shared.core.errors import Conflict, NotFound, SlackwaterError, Unavailable


def said(code: str, status: int = 400, reasons: tuple[str | None, ...] = ()) -> ClientError:
    """Give an error as boto3 raises it."""
    answer: Any = {
        "Error": {"Code": code, "Message": "with a secret in it"},
        "ResponseMetadata": {"HTTPStatusCode": status},
        "CancellationReasons": [{"Code": reason} for reason in reasons],
    }
    return ClientError(answer, "Call")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (said("ConditionalCheckFailedException"), Conflict),
        (said("PreconditionFailed", 412), Conflict),
        (said("412", 412), Conflict),
        (said("ConditionalRequestConflict", 409), Conflict),
        (said("NoSuchKey", 404), NotFound),
        (said("NoSuchUpload", 404), NotFound),
        (said("404", 404), NotFound),
        (said("ExecutionDoesNotExist"), NotFound),
        (said("ThrottlingException"), Busy),
        (said("ProvisionedThroughputExceededException"), Busy),
        (said("RequestLimitExceeded"), Busy),
        (said("TransactionConflictException"), Busy),
        (said("TooManyRequestsException", 429), Busy),
        (said("SlowDown", 503), Busy),
        (said("InvalidPart"), Busy),
        (said("ExecutionLimitExceeded"), Busy),
        (said("InternalServerError", 500), Unavailable),
        (said("InternalError", 200), Unavailable),
        (said("ServiceUnavailable", 503), Unavailable),
        (said("anything", 502), Unavailable),
        (said("TransactionInProgressException"), Unavailable),
        (said("RequestTimeout"), Unavailable),
        (said("TransactionCanceledException", reasons=("None", "ConditionalCheckFailed")), Conflict),
        (said("TransactionCanceledException", reasons=("TransactionConflict", "ConditionalCheckFailed")), Conflict),
        (said("TransactionCanceledException", reasons=("TransactionConflict", "None")), Busy),
        (said("TransactionCanceledException", reasons=("ThrottlingError", None)), Busy),
        (said("TransactionCanceledException", reasons=("ProvisionedThroughputExceeded",)), Busy),
        (ReadTimeoutError(endpoint_url="https://aws"), Unavailable),
        (ConnectTimeoutError(endpoint_url="https://aws"), Unavailable),
        (EndpointConnectionError(endpoint_url="https://aws"), Unavailable),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), Unavailable),
    ],
)
def test_what_we_have_a_word_for_is_said_in_it(error: Exception, kind: type[SlackwaterError]) -> None:
    """Exactly that kind; and nothing of AWS's message, which may quote values."""
    ours = translate(error)
    assert kind is type(ours)
    assert "secret" not in str(ours)
    with pytest.raises(kind), translated():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        said("AccessDeniedException"),
        said("ValidationException"),
        said("ResourceNotFoundException"),
        said("NoSuchBucket", 404),
        said("IdempotentParameterMismatchException"),
        said("TransactionCanceledException", reasons=("ValidationError", "TransactionConflict")),
        said("TransactionCanceledException"),
        NoCredentialsError(),
        ValueError("ours"),
    ],
)
def test_what_we_do_not_know_is_raised_as_it_is(error: Exception) -> None:
    """It is a mistake to be seen, not a state to be handled."""
    assert translate(error) is None
    with pytest.raises(type(error)) as raised, translated():
        raise error
    assert raised.value is error


def test_our_own_errors_pass() -> None:
    """They are ours already."""
    with pytest.raises(Conflict, match="mine"), translated():
        raise Conflict("mine")
