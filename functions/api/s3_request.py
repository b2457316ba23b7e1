"""The body that names a file in S3, checked. Every refusal names the field at fault."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from functions.api.upload_request import expires_after
from shared.core.errors import Refused
from shared.services.s3_files import URI

FIELDS = ("purpose", URI)


class S3Request(NamedTuple):
    """What a caller asks for."""

    uri: str
    purpose: str
    expires_after: int | None


def read(body: Mapping[str, Any]) -> S3Request:
    """Read a decoded body. Refused `unknown_parameter`, `missing_required_parameter` or `invalid_request`."""
    for name in body:
        if name not in {*FIELDS, "expires_after"}:
            raise Refused("unknown_parameter", f"Unknown field: {name!r}. Leave it out.", param=name)
    for name in FIELDS:
        if body.get(name) is None:
            raise Refused("missing_required_parameter", f"Missing required field: {name!r}.", param=name)
        if not isinstance(body[name], str):
            raise Refused("invalid_request", f"{name!r} must be a string.", param=name)
    return S3Request(body[URI], body["purpose"], expires_after(body.get("expires_after")))
