"""Rows of JSONL out of bytes that come in pieces of any size."""

from collections.abc import Iterable, Iterator


def split(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the rows without their newlines; what follows the last newline is none."""
    pending = bytearray()
    for piece in pieces:
        head, newline, rest = piece.partition(b"\n")
        pending += head
        if newline:
            yield bytes(pending)
            *rows, last = rest.split(b"\n")
            yield from rows
            pending = bytearray(last)
