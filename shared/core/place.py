"""The place of a reader in the results of a batch, as an opaque text.

Chunks of one shard are committed one after the other, those of different shards in any order. So a place is, for each shard, how many of its chunks lie behind;
a chunk that is committed later lies behind no place that was given before, and a reader misses none and sees none twice. Shards that are over with all of their
chunks are one mark, whatever they had, and equal neighbours are one run: a batch is worked on at its front, so that a place is short.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import accumulate, groupby

import msgspec

from shared.core.ids import BatchRef

ALL = -1
"""The mark of a shard whose chunks all lie behind, and that gets no more."""

_CHECK_BYTES = 6


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A place.

    Attributes:
        runs: For the shards from the first on: how many neighbours, and how many chunks of each of them lie behind (or `ALL`).
        shard: The shard whose next chunk lies behind in part; `at` says how many bytes of it.
        tail: How many bytes lie behind of the rows that stand in no chunk.

    """

    runs: tuple[tuple[int, int], ...] = ()
    shard: int | None = None
    at: int = 0
    tail: int = 0

    def behind(self) -> "Behind":
        """Give the runs, to be asked for shards."""
        return Behind(self.runs)


class Behind:
    """How many chunks of a shard lie behind."""

    def __init__(self, runs: Sequence[tuple[int, int]]) -> None:
        self._ends = list(accumulate(length for length, _ in runs))
        self._values = [value for _, value in runs]

    def __getitem__(self, shard: int) -> int:
        run = bisect_right(self._ends, shard)
        return self._values[run] if run < len(self._values) else 0

    @property
    def first(self) -> int:
        """The first shard of which not all lies behind."""
        return self._ends[0] if self._values and self._values[0] == ALL else 0


START = Place()


def runs(values: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Give the runs of the shards' values; shards of which nothing lies behind are left out at the end."""
    found = [(len(list(group)), value) for value, group in groupby(values)]
    if found and found[-1][1] == 0:
        found.pop()
    return tuple(found)


def encode(place: Place, ref: BatchRef) -> str:
    """Write a place in the results of this batch."""
    body = msgspec.msgpack.encode(place)
    return urlsafe_b64encode(_check(body, ref) + body).rstrip(b"=").decode()


def decode(text: str, ref: BatchRef) -> Place:
    """Read what `encode` wrote for this batch; ValueError for anything else."""
    data = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    body = data[_CHECK_BYTES:]
    if data[:_CHECK_BYTES] != _check(body, ref):
        raise ValueError("a place in the results of no batch, or of another")
    try:
        return msgspec.msgpack.decode(body, type=Place)
    except msgspec.DecodeError:
        raise ValueError("no place") from None


def _check(body: bytes, ref: BatchRef) -> bytes:
    return sha256(str(ref).encode() + b"\n" + body).digest()[:_CHECK_BYTES]
