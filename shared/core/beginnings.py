"""Hashes of the beginning of a request's content, at two lengths: equal hashes mean that prompts begin the same.

They are taken of the line as it is written, from the name of its content on, since what stands before (custom_id, model) differs from line to line. A
beginning that many lines share is hashed once: an `Opening` is the hash so far, with which each of them goes on.
"""

from zlib import crc32

import msgspec

from shared.core.request_line import CONTENT

SHORT, LONG = 256, 1024
_KEYS = {url: f'"{name}"'.encode() for url, (name, *_) in CONTENT.items()}


class Opening(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A beginning: how many bytes it has, and the hashes of as many of them as count."""

    length: int = 0
    short: int = 0
    long: int = 0

    @classmethod
    def of(cls, data: bytes) -> "Opening":
        """Hash a beginning."""
        return cls(len(data), crc32(data[:SHORT]), crc32(data[:LONG]))

    def then(self, data: bytes) -> tuple[int, int]:
        """Give the hashes of it with `data` behind it."""
        short, long = max(SHORT - self.length, 0), max(LONG - self.length, 0)
        return crc32(data[:short], self.short), crc32(data[:long], self.long)


NOTHING = Opening()


def hashes(raw: bytes, url: str) -> tuple[int, int]:
    """Give the hashes of a line."""
    start = max(raw.find(_KEYS[url]), 0)
    first = crc32(raw[start : start + SHORT])
    return first, crc32(raw[start + SHORT : start + LONG], first)
