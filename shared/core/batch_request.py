"""The body of a create, checked against the rules of its contract.

Nothing here looks at the world: whether the input file exists is the service's to say. Every refusal names the field at fault.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from shared.core.contract import Contract
from shared.core.errors import Refused

REQUIRED = ("input_file_id", "endpoint", "completion_window")
FIELDS = frozenset({*REQUIRED, "metadata"})

METADATA_PAIRS = 16
METADATA_KEY_CHARS = 64
METADATA_VALUE_CHARS = 512


class BatchRequest(msgspec.Struct, frozen=True):
    """What a caller asks for."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None

    def fingerprint(self, contract: Contract) -> str:
        """Hash what was asked, and where: the same hash under one idempotency key is the same create."""
        return sha256(msgspec.json.encode((contract.name, self), order="sorted")).hexdigest()


def read(body: Mapping[str, Any], contract: Contract) -> BatchRequest:
    """Read a decoded body. Refused `unknown_parameter`, `missing_required_parameter` or `invalid_request`."""
    for name in body:
        if name not in FIELDS:
            raise Refused("unknown_parameter", f"Unknown field: {name!r}. Leave it out.", param=name)
    for name in REQUIRED:
        if body.get(name) is None:
            raise Refused("missing_required_parameter", f"Missing required field: {name!r}.", param=name)
    return BatchRequest(
        input_file_id=_string(body, "input_file_id"),
        endpoint=_one_of(body, "endpoint", contract.endpoints),
        completion_window=_one_of(body, "completion_window", tuple(contract.windows)),
        metadata=_metadata(body.get("metadata")),
    )


def _string(body: Mapping[str, Any], name: str) -> str:
    value = body[name]
    if not isinstance(value, str):
        raise Refused("invalid_request", f"{name!r} must be a string.", param=name)
    return value


def _one_of(body: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = _string(body, name)
    if value not in allowed:
        raise Refused("invalid_request", f"{name!r} must be one of {', '.join(allowed)}.", param=name)
    return value


def _metadata(value: object) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Refused("invalid_request", "'metadata' must be an object of strings.", param="metadata")
    if len(value) > METADATA_PAIRS:
        raise Refused("invalid_request", f"'metadata' has more than {METADATA_PAIRS} pairs.", param="metadata")
    for key, text in value.items():
        if len(key) > METADATA_KEY_CHARS:
            message = f"A key of 'metadata' is longer than {METADATA_KEY_CHARS} characters."
            raise Refused("invalid_request", message, param="metadata")
        if not isinstance(text, str) or len(text) > METADATA_VALUE_CHARS:
            message = f"'metadata.{key}' must be a string of at most {METADATA_VALUE_CHARS} characters."
            raise Refused("invalid_request", message, param=f"metadata.{key}")
    return value
