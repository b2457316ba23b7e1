"""The body of a create, checked against the rules of its contract.

Nothing here looks at the world: whether the input file exists is the service's to say. Every refusal names the field at fault.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from shared.core import assignment
from shared.core.contract import Contract, MetadataRule
from shared.core.errors import Refused

NEEDED = ("input_file_id", "endpoint", "completion_window")
OFFERED = ("auto", "platform")
EXECUTIONS = (*OFFERED, "provider")

METADATA_PAIRS = 16
METADATA_KEY_CHARS = 64
METADATA_VALUE_CHARS = 512
METADATA_BYTES = 16 << 10
METADATA_LEVELS = 100
LARGEST_INTEGER = (1 << 63) - 1

OUTPUT_SECONDS = (3600, 30 * 86400)
URL_CHARS = 2048
S3_PREFIX = "output_s3_prefix"


class BatchRequest(msgspec.Struct, frozen=True):
    """What a caller asks for."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, Any] | None = None
    execution: str = "auto"
    callback_url: str | None = None
    output_lifetime: int | None = None
    output_s3_prefix: str | None = None

    def fingerprint(self, contract: Contract, retry_of: str | None = None) -> str:
        """Hash what was asked, and where: the same hash under one idempotency key is the same create, or retry of that batch."""
        asked = (contract.name, self) if retry_of is None else (contract.name, self, retry_of)
        return sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()


def required(contract: Contract) -> list[str]:
    """Give the fields that a create must have."""
    return [name for name in NEEDED if name not in contract.defaults]


def read(body: Mapping[str, Any], contract: Contract) -> BatchRequest:
    """Read a decoded body. Refused `unknown_parameter`, `missing_required_parameter`, `invalid_request` or `batch_routing_unavailable`."""
    known = {*NEEDED, "metadata", *contract.options}
    for name in body:
        if name not in known:
            raise Refused("unknown_parameter", f"Unknown field: {name!r}. Leave it out.", param=name)
    said = {**contract.defaults, **{name: value for name, value in body.items() if value is not None}}
    for name in NEEDED:
        if name not in said:
            raise Refused("missing_required_parameter", f"Missing required field: {name!r}.", param=name)
    return BatchRequest(
        input_file_id=_string(said, "input_file_id"),
        endpoint=_one_of(said, "endpoint", contract.endpoints),
        completion_window=_one_of(said, "completion_window", tuple(contract.windows)),
        metadata=_metadata(said.get("metadata"), contract.metadata),
        execution=_execution(said),
        callback_url=_callback_url(said),
        output_lifetime=_output_lifetime(said.get("output_expires_after")),
        output_s3_prefix=_string(said, S3_PREFIX) if S3_PREFIX in said else None,
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


def _execution(body: Mapping[str, Any]) -> str:
    if "execution" not in body:
        return "auto"
    wanted = _one_of(body, "execution", EXECUTIONS)
    if wanted == "provider":
        message = "No provider runs batches here. Send 'execution': 'auto' or 'platform', or leave it out."
        raise Refused("batch_routing_unavailable", message, param="execution")
    return wanted


def _callback_url(body: Mapping[str, Any]) -> str | None:
    if "callback_url" not in body:
        return None
    url = _string(body, "callback_url")
    if len(url) > URL_CHARS:
        raise Refused("invalid_request", f"'callback_url' is longer than {URL_CHARS} characters.", param="callback_url")
    return url


def _output_lifetime(value: object) -> int | None:
    if value is None:
        return None
    name, (least, most) = "output_expires_after", OUTPUT_SECONDS
    if not isinstance(value, dict) or value.keys() - {"anchor", "seconds"}:
        raise Refused("invalid_request", f"{name!r} must be an object with 'anchor' and 'seconds'.", param=name)
    if value.get("anchor") != "created_at":
        raise Refused("invalid_request", f"'{name}.anchor' must be created_at.", param=f"{name}.anchor")
    seconds = whole(value.get("seconds"))
    if seconds is None or not least <= seconds <= most:
        message = f"'{name}.seconds' must be an integer from {least} to {most}."
        raise Refused("invalid_request", message, param=f"{name}.seconds")
    return seconds


def whole(value: object) -> int | None:
    """Read an integer of JSON, where 3600.0 is one as well; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _metadata(value: object, rule: MetadataRule) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Refused("invalid_request", "'metadata' must be an object.", param="metadata")
    _RULES[rule](value)
    return None if rule is MetadataRule.ASSIGNMENT and not value else value


def _pairs(value: Mapping[str, Any]) -> None:
    if len(value) > METADATA_PAIRS:
        raise Refused("invalid_request", f"'metadata' has more than {METADATA_PAIRS} pairs.", param="metadata")
    for key, text in value.items():
        if len(key) > METADATA_KEY_CHARS:
            message = f"A key of 'metadata' is longer than {METADATA_KEY_CHARS} characters."
            raise Refused("invalid_request", message, param="metadata")
        if not isinstance(text, str) or len(text) > METADATA_VALUE_CHARS:
            message = f"'metadata.{key}' must be a string of at most {METADATA_VALUE_CHARS} characters."
            raise Refused("invalid_request", message, param=f"metadata.{key}")


def _any(value: Mapping[str, Any]) -> None:
    stack: list[tuple[object, int]] = [(value, 1)]
    while stack:
        node, level = stack.pop()
        if isinstance(node, int) and abs(node) > LARGEST_INTEGER:
            raise Refused("invalid_request", "'metadata' has an integer of more than 64 bits.", param="metadata")
        if not isinstance(node, dict | list):
            continue
        if level > METADATA_LEVELS:  # what encodes the answers gives up at some depth
            message = f"'metadata' is nested deeper than {METADATA_LEVELS} levels."
            raise Refused("invalid_request", message, param="metadata")
        stack.extend((child, level + 1) for child in (node.values() if isinstance(node, dict) else node))
    if len(msgspec.json.encode(value)) > METADATA_BYTES:
        raise Refused("invalid_request", f"'metadata' is larger than {METADATA_BYTES} bytes.", param="metadata")


_RULES: dict[MetadataRule, Callable[[Mapping[str, Any]], None]] = {
    MetadataRule.PAIRS: _pairs,
    MetadataRule.ASSIGNMENT: assignment.check,
    MetadataRule.ANY: _any,
}
