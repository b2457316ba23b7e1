"""The bodies of requests about uploads, checked. Every refusal names the field at fault."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.core.batch_request import whole
from shared.core.errors import Refused
from shared.services.upload_parts import LEAST_URL_PART, PARTS
from shared.services.uploads import URLS, NewUpload

_MD5 = re.compile(r"[0-9A-Fa-f]{32}")


class Completion(NamedTuple):
    """What a file is to be made of: the parts by id, or those that went to signed URLs by ETag; and the MD5 of the whole."""

    part_ids: list[str] | None
    etags: list[str] | None
    md5: str | None


def creation(body: Mapping[str, Any]) -> NewUpload:
    """Read the body of a create. Refused `unknown_parameter`, `missing_required_parameter` or `invalid_request`."""
    _check_fields(body, ("filename", "purpose", "bytes", "mime_type"), ("expires_after",))
    for name in ("filename", "purpose", "mime_type"):
        if not isinstance(body[name], str):
            raise Refused("invalid_request", f"{name!r} must be a string.", param=name)
    return NewUpload(
        filename=body["filename"],
        purpose=body["purpose"],
        bytes=_integer(body["bytes"], "bytes"),
        expires_after=expires_after(body.get("expires_after")),
    )


def completion(body: Mapping[str, Any]) -> Completion:
    """Read the body of a complete. Refused likewise."""
    _check_fields(body, (), ("part_ids", "etags", "md5"))
    part_ids, etags, md5 = (body.get(name) for name in ("part_ids", "etags", "md5"))
    if (part_ids is None) == (etags is None):
        message = "Send 'part_ids', the parts in their order; or 'etags', if the parts went to signed URLs."
        raise Refused("missing_required_parameter", message, param="part_ids")
    if md5 is not None and not (isinstance(md5, str) and _MD5.fullmatch(md5)):
        raise Refused("invalid_request", "'md5' must be 32 hexadecimal digits.", param="md5")
    return Completion(_strings(part_ids, "part_ids"), _strings(etags, "etags"), md5)


def part_numbers(body: Mapping[str, Any]) -> list[int]:
    """Read which parts need URLs: `part_numbers`, or the first `count`; `part_bytes` says how large they will be. Refused likewise."""
    _check_fields(body, (), ("part_numbers", "count", "part_bytes"))
    size = body.get("part_bytes")
    if size is not None and _integer(size, "part_bytes") < LEAST_URL_PART:
        message = f"'part_bytes' must be at least {LEAST_URL_PART}; only the last part may be smaller."
        raise Refused("integer_below_min_value", message, param="part_bytes")
    numbers, count = body.get("part_numbers"), body.get("count")
    if (numbers is None) == (count is None):
        raise Refused("missing_required_parameter", "Send 'part_numbers' or 'count'.", param="part_numbers")
    if numbers is None:
        found = list(range(1, min(_integer(count, "count"), PARTS) + 1))
    elif isinstance(numbers, list):
        found = [_integer(number, "part_numbers") for number in numbers]
    else:
        raise Refused("invalid_request", "'part_numbers' must be an array of integers.", param="part_numbers")
    if not 1 <= len(found) <= URLS or not all(1 <= number <= PARTS for number in found):
        message = f"Ask for 1 to {URLS} parts at a time, numbered from 1 to {PARTS}."
        raise Refused("invalid_request", message, param="part_numbers" if count is None else "count")
    return found


def expires_after(value: object) -> int | None:
    """Read `expires_after`: its seconds, whose bounds are the contract's to say. Refused `invalid_request`."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.keys() != {"anchor", "seconds"} or value["anchor"] != "created_at":
        message = "'expires_after' must be an object with the anchor created_at, and seconds."
        raise Refused("invalid_request", message, param="expires_after")
    return _integer(value["seconds"], "expires_after[seconds]")


def _check_fields(body: Mapping[str, Any], required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    for name in body:
        if name not in {*required, *optional}:
            raise Refused("unknown_parameter", f"Unknown field: {name!r}. Leave it out.", param=name)
    for name in required:
        if body.get(name) is None:
            raise Refused("missing_required_parameter", f"Missing required field: {name!r}.", param=name)


def _integer(value: object, name: str) -> int:
    found = whole(value)
    if found is None:
        raise Refused("invalid_request", f"{name!r} must be an integer.", param=name)
    return found


def _strings(value: object, name: str) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        raise Refused("invalid_request", f"{name!r} must be an array of strings, and not empty.", param=name)
    return value
