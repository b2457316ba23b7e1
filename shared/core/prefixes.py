"""Where in S3, outside of our own bucket, files may come from and results may go: below prefixes that the deployment lists, and nowhere else.

A listed prefix `s3://bucket/path` may hold `{org}`, for which the organization's id stands: so that each has a place of its own.
"""

import re
from collections.abc import Sequence

from shared.core.errors import Refused

KEY_BYTES = 1024
"""The longest key that S3 takes."""

_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\x00-\x1f\x7f]+")


class Prefixes:
    """The prefixes of a deployment."""

    def __init__(self, listed: Sequence[str] = ()) -> None:
        self._listed = tuple(f"{prefix.rstrip('/')}/" for prefix in listed)

    @classmethod
    def of(cls, text: str) -> "Prefixes":
        """Read a list that is separated by commas."""
        return cls([prefix for prefix in text.split(",") if prefix])

    def check(self, org: str, uri: str, param: str) -> None:
        """Refused `invalid_request` unless the organization may use an object of this URI, or objects below it."""
        if not _URI.fullmatch(uri):
            raise Refused("invalid_request", f"{param!r} must look like s3://bucket/key.", param=param)
        if len(uri.removeprefix("s3://").partition("/")[2].encode()) > KEY_BYTES:
            raise Refused("invalid_request", f"{param!r} makes a key of more than {KEY_BYTES} bytes.", param=param)
        mine = [prefix.replace("{org}", org) for prefix in self._listed]
        if not any(uri.startswith(prefix) for prefix in mine):
            places = ", ".join(mine) or "none"
            raise Refused(
                "invalid_request", f"{param!r} must lie below a prefix that is open here: {places}.", param=param
            )


NOWHERE = Prefixes()


def result(prefix: str, batch_id: str, kind: str) -> str:
    """Name a result file of a batch, `output` or `errors`, below a prefix, which is taken for a folder."""
    return f"{prefix.rstrip('/')}/{batch_id}_{kind}.jsonl"
