"""How an object is put together from pieces of others, within what S3 takes: parts of at least 5 MiB, and at most 10,000 of them.

The parts follow from the pieces alone, so that an assembly that was stopped goes on with the number of the next part and nothing else. A part that is
one range of one piece can be copied inside the store; one of several ranges has to be read and written.
"""

from collections.abc import Iterator, Sequence

import msgspec

PART_BYTES = 8 << 20
LEAST_COPY = 5 << 20
MOST_COPY = 1 << 30
"""Of one server-side copy; S3 allows 5 GiB."""

PARTS = 9000


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """Bytes of an object: its key, or `s3://bucket/key` outside of our bucket; its ETag; from `start` to before `end`, at least one."""

    source: str
    etag: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start


Part = tuple[Piece, ...]

_PIECES = msgspec.msgpack.Decoder(list[Piece])


def encode(pieces: Sequence[Piece]) -> bytes:
    """Write a list of pieces."""
    return msgspec.msgpack.encode(pieces)


def decode(data: bytes) -> list[Piece]:
    """Read what `encode` wrote."""
    return _PIECES.decode(data)


def parts(pieces: Sequence[Piece]) -> Iterator[Part]:
    """Give the parts that make the object, in order; all but the last have at least 5 MiB."""
    size = max(PART_BYTES, sum(piece.size for piece in pieces) // PARTS + 1)
    gathered: list[Piece] = []
    room = size
    for piece in pieces:
        rest = piece
        while rest.size:
            if not gathered and rest.size >= LEAST_COPY:
                head, rest = _split(rest, MOST_COPY)
                yield (head,)
                continue
            head, rest = _split(rest, room)
            gathered.append(head)
            room -= head.size
            if not room:
                yield tuple(gathered)
                gathered, room = [], size
    if gathered:
        yield tuple(gathered)


def _split(piece: Piece, size: int) -> tuple[Piece, Piece]:
    cut = min(piece.start + size, piece.end)
    return msgspec.structs.replace(piece, end=cut), msgspec.structs.replace(piece, start=cut)
