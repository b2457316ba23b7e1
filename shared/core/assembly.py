"""How an object is put together from pieces, within what S3 takes: parts of at least 5 MiB, and at most 10,000 of them.

The parts follow from the pieces alone, so that an assembly that was stopped behind any of them goes on with the same ones. A part that is one range of
an object is copied inside the store; one of several ranges has to be read and written. A border between parts is wherever a piece that is
large enough to be copied begins, or, where there is too little in front of it for a part, as near to its beginning as can be.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import msgspec

PART_BYTES = 8 << 20
"""Of a part that is read and written, unless the object is so large that there would be too many."""

LEAST_PART = 5 << 20
MOST_COPY = 1 << 30
"""Of one server-side copy; S3 allows 5 GiB."""

PARTS = 9000
"""Of 10,000: pieces that do not know their sizes beforehand may turn out larger than expected."""


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

    def split(self, size: int) -> tuple[Self, Self]:
        """Give the first bytes, up to `size` of them, and the others."""
        cut = min(self.start + size, self.end)
        return msgspec.structs.replace(self, end=cut), msgspec.structs.replace(self, start=cut)


class Made(msgspec.Struct, frozen=True):
    """Bytes that no object has."""

    data: bytes

    @property
    def size(self) -> int:
        """How many bytes."""
        return len(self.data)

    def split(self, size: int) -> tuple[Self, Self]:
        """Give the first bytes, up to `size` of them, and the others."""
        replace = msgspec.structs.replace
        return replace(self, data=self.data[:size]), replace(self, data=self.data[size:])


class _Splits(Protocol):
    @property
    def size(self) -> int: ...

    def split(self, size: int) -> tuple[Self, Self]: ...


T = TypeVar("T", bound=_Splits)


class Place(NamedTuple):
    """Before a piece, by its number among all (from 0), or behind its first `offset` bytes."""

    piece: int = 0
    offset: int = 0


BEGINNING = Place()


class Part(NamedTuple, Generic[T]):
    """A part: the ranges that make it, and the place behind it."""

    ranges: tuple[T, ...]
    behind: Place

    @property
    def size(self) -> int:
        """How many bytes."""
        return sum(piece.size for piece in self.ranges)

    @property
    def copied(self) -> Piece | None:
        """The range that is copied inside the store; None when the part has to be read and written."""
        first = self.ranges[0]
        return first if len(self.ranges) == 1 and isinstance(first, Piece) and first.size > LEAST_PART else None


_PIECES = msgspec.msgpack.Decoder(list[Piece])


def encode(pieces: Sequence[Piece]) -> bytes:
    """Write a list of pieces."""
    return msgspec.msgpack.encode(pieces)


def decode(data: bytes) -> list[Piece]:
    """Read what `encode` wrote."""
    return _PIECES.decode(data)


def parts(pieces: Iterable[T], total: int, start: Place = BEGINNING) -> Iterator[Part[T]]:
    """Give the parts that make an object of `total` bytes at most, in order, from a place on that lies behind one of them.

    `pieces` are those from `start.piece` on. All parts but the last have at least 5 MiB.
    """
    least = max(LEAST_PART, total // PARTS + 1)
    most = max(PART_BYTES, least)
    gathered: list[T] = []
    size = 0
    for index, piece in enumerate(pieces, start.piece):
        _, rest = piece.split(start.offset if index == start.piece else 0)
        while rest.size:
            # More than the least: S3 copies ranges only of objects that are larger than it.
            large = isinstance(rest, Piece) and rest.size > least
            if large and size >= least:
                yield Part(tuple(gathered), Place(index, piece.size - rest.size))
                gathered, size = [], 0
            full = most if not large else least if gathered else MOST_COPY
            head, rest = rest.split(full - size)
            gathered.append(head)
            size += head.size
            if large or size == full:
                behind = Place(index, piece.size - rest.size) if rest.size else Place(index + 1)
                yield Part(tuple(gathered), behind)
                gathered, size = [], 0
    if gathered:
        yield Part(tuple(gathered), Place(index + 1))
