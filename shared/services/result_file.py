"""A result file on its way into the store: its parts are written in order, and what the next ones need is read, or copied, meanwhile.

Every part follows from the cursor and from records that are frozen, so that whoever writes it again, or ahead of the cursor, writes the same bytes. In
memory are the part that is written and the one behind it; parts that are copied inside the store are never there.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial

import msgspec

from shared.core import assembly, merge, paths, plan
from shared.core.assembly import Made, Piece, Place
from shared.core.merge import Unanswered
from shared.core.records import Batch, Cursor, Ending
from shared.ports import Blobs, Multipart
from shared.services.ahead import ahead

Write = Callable[[], object]
Read = Callable[[], bytearray]


class ResultFile:
    """The file that has these pieces, in order.

    Attributes:
        is_small: Whether it has one part at most, and needs no multipart upload.

    """

    def __init__(
        self,
        batch: Batch,
        key: str,
        pieces: Sequence[Piece | Unanswered],
        *,
        blobs: Blobs,
        multipart: Multipart,
        readers: Executor,
    ) -> None:
        self._batch = batch
        self._key = key
        self._pieces = pieces
        self._most_bytes = sum(map(merge.most_bytes, pieces))
        self._blobs = blobs
        self._multipart = multipart
        self._readers = readers
        self.is_small = self._most_bytes <= assembly.PART_BYTES

    def read(self) -> bytes:
        """Give all of it. Conflict or NotFound when a chunk is not the committed one."""
        return bytes(self._reading(list(self._made(0)))())

    def parts(self, cursor: Cursor, upload: str) -> Iterator[tuple[Write, Cursor]]:
        """Give what writes each part from the cursor on, with the cursor behind it. A write raises as `read`, and NotFound when the upload is complete."""
        return ahead(self._begun(cursor, upload))

    def _begun(self, cursor: Cursor, upload: str) -> Iterator[tuple[tuple[Write, Cursor], int]]:
        start = Place(cursor.piece, cursor.offset)
        parts = assembly.parts(self._made(start.piece), self._most_bytes, start)
        for number, part in enumerate(parts, cursor.part):
            after = msgspec.structs.replace(cursor, piece=part.behind.piece, offset=part.behind.offset, part=number + 1)
            if part.copied is not None:
                copying = self._readers.submit(self._copy, upload, number, part.copied)
                yield (copying.result, after), 0
            else:
                yield (partial(self._put, upload, number, self._reading(part.ranges)), after), part.size

    def _copy(self, upload: str, number: int, piece: Piece) -> None:
        self._multipart.copy(
            self._key, upload, number, source=piece.source, start=piece.start, end=piece.end, etag=piece.etag
        )

    def _put(self, upload: str, number: int, read: Read) -> None:
        self._multipart.part(self._key, upload, number, read())

    def _made(self, index: int) -> Iterator[Piece | Made]:
        """Give the pieces from `index` on; the plans of unanswered lines are read ahead."""
        return (make() for make in ahead(map(self._begin, self._pieces[index:])))

    def _begin(self, piece: Piece | Unanswered) -> tuple[Callable[[], Piece | Made], int]:
        if isinstance(piece, Piece):
            return (lambda: piece), 0
        reading = self._readers.submit(self._blobs.get, paths.plan(self._batch.ref, piece.shard))
        return (lambda: Made(unanswered(self._batch, piece, reading.result()))), merge.most_bytes(piece)

    def _reading(self, pieces: Sequence[Piece | Made]) -> Read:
        """Begin to read pieces; give what waits for them, and lets go of them: it is called once."""
        # Into one buffer of this thread: what each reader keeps goes into a heap of its own, and eight of those grow to several times a part.
        data = bytearray(sum(piece.size for piece in pieces))
        reading, kept, end = [], [data], 0
        for piece in pieces:
            start, end = end, end + piece.size
            reading.append(self._readers.submit(self._read, piece, memoryview(data)[start:end]))

        def read() -> bytearray:
            for each in reading:
                each.result()
            return kept.pop()

        return read

    def _read(self, piece: Piece | Made, into: memoryview) -> None:
        if isinstance(piece, Made):
            into[:] = piece.data
        else:
            into[:] = self._blobs.get(piece.source, piece.start, piece.end, etag=piece.etag)


def unanswered(batch: Batch, piece: Unanswered, shard_plan: bytes) -> bytes:
    """Make the rows of the lines of a shard that have none."""
    return merge.rows(plan.decode(shard_plan), piece, batch.ending or Ending.FAILED)
