"""A result file on its way into the store: its parts are written in order, and what the next ones need is read, or copied, meanwhile.

Every part follows from the cursor and from records that are frozen, so that whoever writes it again, or ahead of the cursor, writes the same bytes. In
memory are the part that is written and the one behind it; parts that are copied inside the store are never there.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial

import msgspec

from shared.core import assembly, merge, paths, plan
from shared.core.assembly import Made, Piece, Place
from shared.core.merge import Unanswered
from shared.core.records import Batch, Cursor, Ending
from shared.ports import Blobs, Multipart
from shared.services.ahead import ahead

Write = Callable[[], object]


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
        reading = [self._readers.submit(self._read, piece) for piece in self._made(0)]
        return b"".join(map(Future.result, reading))

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
                reading = [self._readers.submit(self._read, piece) for piece in part.ranges]
                yield (partial(self._put, upload, number, reading), after), part.size

    def _copy(self, upload: str, number: int, piece: Piece) -> None:
        self._multipart.copy(
            self._key, upload, number, source=piece.source, start=piece.start, end=piece.end, etag=piece.etag
        )

    def _put(self, upload: str, number: int, reading: list[Future[bytes]]) -> None:
        data = b"".join(map(Future.result, reading))
        reading.clear()  # the memory of a part
        self._multipart.part(self._key, upload, number, data)

    def _made(self, index: int) -> Iterator[Piece | Made]:
        """Give the pieces from `index` on; the rows of unanswered lines are made ahead."""
        for piece in ahead(map(self._begin, self._pieces[index:])):
            yield piece if isinstance(piece, Piece) else Made(piece.result())

    def _begin(self, piece: Piece | Unanswered) -> tuple[Piece | Future[bytes], int]:
        if isinstance(piece, Piece):
            return piece, 0
        rows = self._readers.submit(unanswered, self._blobs, self._batch, piece)
        return rows, merge.most_bytes(piece)

    def _read(self, piece: Piece | Made) -> bytes:
        if isinstance(piece, Made):
            return piece.data
        return self._blobs.get(piece.source, piece.start, piece.end, etag=piece.etag)


def unanswered(blobs: Blobs, batch: Batch, piece: Unanswered) -> bytes:
    """Make the rows of the lines of a shard that have none."""
    shard = plan.decode(blobs.get(paths.plan(batch.ref, piece.shard)))
    return merge.rows(shard, piece, batch.ending or Ending.FAILED)
