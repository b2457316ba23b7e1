"""BatchRouter's assignment fields: metadata that says who assigned the work, until when, and at which rates.

They can shorten the time of a batch and never change its price: rates are checked against the published ones.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from shared.core.errors import Refused
from shared.core.records import Prices

DEADLINE = "batchrouter_deadline"
WINDOW = "batchrouter_assignment_window"
RATES = {
    "batchrouter_input_rate": "input",
    "batchrouter_cached_input_rate": "cached_input",
    "batchrouter_output_rate": "output",
}
"""The rates, and the price that each must equal, in micro-USD per million tokens."""

INPUT_FORMAT = "batchrouter_input_format"
FIXED = {"batchrouter_tier": "standard", "batchrouter_role": "standard", INPUT_FORMAT: "sectioned.v1"}
"""Fields that may have one value alone."""

_RATE = (re.compile("[0-9]{1,18}"), "an integer in decimal digits, micro-USD per million tokens")
FORMS: dict[str, tuple[re.Pattern[str], str]] = {
    "batchrouter_work_unit_id": (re.compile(r"[\s\S]{1,512}"), "a string of 1 to 512 characters"),
    WINDOW: (re.compile("[1-9][0-9]{0,3}h"), "a number of hours such as 6h"),
    **dict.fromkeys(RATES, _RATE),
}

FIELDS = frozenset({DEADLINE, *FIXED, *FORMS})

_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


def check(metadata: Mapping[str, Any]) -> None:
    """Check everything but the rates' amounts. Refused `unknown_parameter` or `invalid_request`, naming the field."""
    for name, value in metadata.items():
        if name not in FIELDS:
            message = f"'metadata.{name}' is none of BatchRouter's assignment fields. Leave it out."
            raise Refused("unknown_parameter", message, param=f"metadata.{name}")
        if name == DEADLINE:
            _moment(value)
        elif name in FIXED:
            if value != FIXED[name]:
                raise _wrong(name, f"{FIXED[name]!r}: nothing else is supported")
        else:
            pattern, wanted = FORMS[name]
            if not isinstance(value, str) or pattern.fullmatch(value) is None:
                raise _wrong(name, wanted)


def check_format(metadata: Mapping[str, Any], *, sectioned: bool) -> None:
    """Refused `invalid_request` when the input file is not of the format that is said; where none is said it may be of any."""
    if INPUT_FORMAT in metadata and not sectioned:
        message = f"'metadata.{INPUT_FORMAT}' says that the input file is sectioned, and it is not. Leave it out."
        raise Refused("invalid_request", message, param=f"metadata.{INPUT_FORMAT}")


def check_rates(metadata: Mapping[str, Any], prices: Prices | None) -> None:
    """Refused `invalid_request` unless every rate is the published price; there is none (None) where GPU time is paid for."""
    for name, price in RATES.items():
        if name in metadata and (prices is None or int(metadata[name]) != getattr(prices, price)):
            published = "no price per token" if prices is None else f"{getattr(prices, price)}"
            raise _wrong(name, f"the published batch price of the model, which is {published}")


def deadline(metadata: Mapping[str, Any]) -> int | None:
    """Give the deadline of checked metadata, in Unix seconds."""
    return int(_moment(metadata[DEADLINE]).timestamp()) if DEADLINE in metadata else None


def window(metadata: Mapping[str, Any]) -> int | None:
    """Give the length of the assignment window of checked metadata, in seconds."""
    return int(metadata[WINDOW][:-1]) * 3600 if WINDOW in metadata else None


def _moment(value: object) -> datetime:
    try:
        return msgspec.convert(value, _Moment)
    except (msgspec.ValidationError, OverflowError):
        raise _wrong(DEADLINE, "a time such as 2030-01-31T12:00:00Z (RFC 3339)") from None


def _wrong(name: str, wanted: str) -> Refused:
    return Refused("invalid_request", f"'metadata.{name}' must be {wanted}.", param=f"metadata.{name}")
