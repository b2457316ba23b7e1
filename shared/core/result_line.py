"""The rows of result files, as bytes with their newline.

A row that the engine answered carries `response`; one that never ran, or that was given up, carries `error`. U+2028, U+2029 and U+0085 are escaped,
since some readers take them for line ends; a newline or NaN inside a row cannot come out of the encoder.
"""

from typing import Any

import msgspec

from shared.core import ids
from shared.core.records import Ending

_ESCAPES = (
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
    ("\u0085".encode(), b"\\u0085"),
)

UNANSWERED: dict[Ending, tuple[str, str]] = {
    Ending.COMPLETED: (
        "server_error",
        "The request was not run because of an internal error. It was not charged; retry it.",
    ),
    Ending.FAILED: ("server_error", "The batch failed before this request ran. It was not charged; retry it."),
    Ending.EXPIRED: ("batch_expired", "This request could not be executed before the completion window expired."),
    Ending.CANCELLED: ("batch_cancelled", "This request was not executed because the batch was cancelled."),
}


def answered(batch: str, line: int, custom_id: str, status: int, body: object) -> bytes:
    """Give the row of a request that the engine answered, well (a status of 200) or with an HTTP error."""
    response = {"status_code": status, "request_id": ids.request_id(batch, line), "body": body}
    return _row(batch, line, custom_id, response, None)


def given_up(batch: str, line: int, custom_id: str, code: str, message: str) -> bytes:
    """Give the row of a request without an answer."""
    return _row(batch, line, custom_id, None, {"code": code, "message": message})


def unanswered(batch: str, line: int, custom_id: str, ending: Ending) -> bytes:
    """Give the row of a request that had no row when its batch ended."""
    return given_up(batch, line, custom_id, *UNANSWERED[ending])


def _row(batch: str, line: int, custom_id: str, response: dict[str, Any] | None, error: dict[str, str] | None) -> bytes:
    row = msgspec.json.encode(
        {"id": ids.row_id(batch, line), "custom_id": custom_id, "response": response, "error": error}
    )
    for separator, escape in _ESCAPES:
        if separator in row:
            row = row.replace(separator, escape)
    return row + b"\n"
