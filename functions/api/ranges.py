"""Byte ranges of a download, as RFC 9110 has them: one range is served; what is malformed or more than one is ignored, as it allows."""

import re
from typing import NamedTuple

from shared.ports import BlobInfo

_RANGE = re.compile(r"bytes\s*=\s*(\d{0,19})\s*-\s*(\d{0,19})", re.ASCII | re.IGNORECASE)


class ByteRange(NamedTuple):
    """The bytes from `start` to before `end`."""

    start: int
    end: int


class Unsatisfiable(NamedTuple):
    """The range lies outside of the object."""


def etag(info: BlobInfo) -> str:
    """Give the ETag as the header wants it."""
    return f'"{info.etag.strip(chr(34))}"'


def wanted(info: BlobInfo, range_header: str | None, if_range: str | None) -> ByteRange | Unsatisfiable | None:
    """Say which bytes to send; None means all of them.

    A range is only good for the object that the caller has the beginning of: with an `If-Range` that is not its ETag, all is sent.
    """
    if range_header is None or (if_range is not None and if_range.strip() != etag(info)):
        return None
    found = _RANGE.fullmatch(range_header.strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        last = int(found[2])
        return ByteRange(max(0, info.size - last), info.size) if last and info.size else Unsatisfiable()
    start = int(found[1])
    end = int(found[2]) + 1 if found[2] else info.size
    if end <= start and found[2]:
        return None
    return ByteRange(start, min(end, info.size)) if start < info.size else Unsatisfiable()
