"""The rows of result files, as bytes with their newline.

A row that the engine answered carries `response`; one that never ran, or that was given up, carries `error`; and so does a row that failed, where the
contract wants no HTTP answers in its files. U+2028, U+2029 and U+0085 are escaped,
since some readers take them for line ends; a newline or NaN inside a row cannot come out of the encoder.
"""

from http import HTTPStatus
from typing import Any

import msgspec

from shared.core import ids
from shared.core.contract import Contract
from shared.core.records import Ending, Usage

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


TOO_LARGE = "The answer did not fit into the result file. It was not charged; send the request in a smaller batch."

NO_USAGE = Usage()


def answered(batch: str, line: int, custom_id: str, body: object) -> bytes:
    """Give the row of a request that the engine answered well."""
    return _row(batch, line, custom_id, _response(batch, line, HTTPStatus.OK, body), None)


def failed(batch: str, line: int, custom_id: str, *, contract: Contract, status: int, error: dict[str, Any]) -> bytes:
    """Give the row of a request that the engine answered with an HTTP error; `error` is the API's, with `code` and `message`."""
    if contract.row_codes is None:
        return _row(batch, line, custom_id, _response(batch, line, status, {"error": error}), None)
    code = error["code"]
    if code not in contract.row_codes:
        code = "invalid_request" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
    return given_up(batch, line, custom_id, code, error["message"])


def given_up(batch: str, line: int, custom_id: str, code: str, message: str) -> bytes:
    """Give the row of a request without an answer."""
    return _row(batch, line, custom_id, None, {"code": code, "message": message})


def unanswered(batch: str, line: int, custom_id: str, ending: Ending) -> bytes:
    """Give the row of a request that had no row when its batch ended."""
    return given_up(batch, line, custom_id, *UNANSWERED[ending])


def too_large(row: bytes) -> tuple[bytes, Usage]:
    """Give the row that stands for one that its file has no room for, and what that one had used."""
    told = msgspec.json.decode(row)
    error = {"code": "output_too_large", "message": TOO_LARGE}
    response = told["response"]
    return _encode(told["id"], told["custom_id"], None, error), usage(response and response["body"])


def usage(body: object) -> Usage:
    """Read the tokens out of an engine's answer, whichever of the API's names it used; what is not there is 0."""
    told = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(told, dict):
        return NO_USAGE
    return Usage(
        input_tokens=_count(told, "prompt_tokens", "input_tokens"),
        cached_tokens=_count(_details(told, "prompt_tokens_details", "input_tokens_details"), "cached_tokens"),
        output_tokens=_count(told, "completion_tokens", "output_tokens"),
        reasoning_tokens=_count(
            _details(told, "completion_tokens_details", "output_tokens_details"), "reasoning_tokens"
        ),
    )


def _details(told: dict[str, Any], *names: str) -> dict[str, Any]:
    return next((told[name] for name in names if isinstance(told.get(name), dict)), {})


def _count(told: dict[str, Any], *names: str) -> int:
    return next((told[name] for name in names if isinstance(told.get(name), int)), 0)


def _response(batch: str, line: int, status: int, body: object) -> dict[str, Any]:
    return {"status_code": int(status), "request_id": ids.request_id(batch, line), "body": body}


def _row(batch: str, line: int, custom_id: str, response: dict[str, Any] | None, error: dict[str, str] | None) -> bytes:
    return _encode(ids.row_id(batch, line), custom_id, response, error)


def _encode(row_id: str, custom_id: str, response: dict[str, Any] | None, error: dict[str, str] | None) -> bytes:
    row = msgspec.json.encode({"id": row_id, "custom_id": custom_id, "response": response, "error": error})
    for separator, escape in _ESCAPES:
        if separator in row:
            row = row.replace(separator, escape)
    return row + b"\n"
