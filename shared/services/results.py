"""The results of a batch, page by page, while it runs and after: rows as they stand, or will stand, in its result files.

Nothing but committed chunks and published files is read. A reader that always goes on from the place it was given meets every row once, however chunks are
committed in between and whether or not the batch ends in between (`shared.core.follow`).
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from shared.core import follow, lease, lifecycle, paths, place
from shared.core.contracts import CONTRACTS
from shared.core.errors import Conflict, NotFound, Refused
from shared.core.follow import Span, Unit
from shared.core.ids import BatchRef
from shared.core.place import Place
from shared.core.records import Batch, Chunk, Shard
from shared.ports import Blobs, ChunkLog, Presigner, Shards
from shared.services.batches import Batches
from shared.services.files import Files

PAGE_BYTES = 2_500_000
"""The most of a page's rows together, unless one row alone is larger. In a Lambda's answer a byte may take two, of 6 MB."""

READ_BYTES = 256 << 10
MOST_READ_BYTES = 16 << 20
URL_SECONDS = 900


class Rows(NamedTuple):
    """A page.

    Attributes:
        rows: The rows, without their newlines.
        has_more: Whether there are more rows behind them now.
        next: The place behind them; None when the batch has ended and these are its last.
        status: The status of the batch.

    """

    rows: list[bytes]
    has_more: bool
    next: str | None
    status: str


class Results:
    """The results of every batch."""

    def __init__(
        self,
        *,
        batches: Batches,
        shards: Shards,
        chunks: ChunkLog,
        files: Files,
        blobs: Blobs,
        presigner: Presigner,
    ) -> None:
        self._batches = batches
        self._shards = shards
        self._chunks = chunks
        self._files = files
        self._blobs = blobs
        self._presigner = presigner
        self._last: tuple[BatchRef | None, list[Chunk]] = (None, [])

    def page(self, ref: BatchRef, *, after: str | None, limit: int) -> Rows:
        """Give up to `limit` rows behind a place (None: from the first on).

        NotFound; Refused `invalid_request` when `after` is no place in this batch, `results_expired` when the result files were deleted or have expired.
        """
        batch = self._batches.record(ref)
        try:
            before = place.START if after is None else place.decode(after, ref)
            try:
                return self._read(batch, before, limit)
            except (Conflict, NotFound):
                # Its end came in between, and the chunks have become files; or somebody has deleted those.
                return self._read_again(self._batches.record(ref), before, limit)
        except ValueError:
            message = "'after' must be the 'next' of an answer about this very batch. Begin again without it."
            raise Refused("invalid_request", message, param="after") from None

    def url(self, ref: BatchRef, body: bytes) -> str:
        """Keep a page that is too large to be an answer, and give a URL for it that needs no key, for a while."""
        key = paths.page(ref, sha256(body).hexdigest())
        self._blobs.put(key, body)
        return self._presigner.get_url(key, seconds=URL_SECONDS, content_type="application/json")

    def _read(self, batch: Batch, before: Place, limit: int) -> Rows:
        ended, file_limit = lifecycle.is_terminal(batch), CONTRACTS[batch.contract].result_bytes
        # The shards first: of one that is over by then, every chunk is seen afterwards.
        shards = [] if ended else self._shards.of(batch.ref)
        # Where every chunk has its place in the result files, or may not fit into them, none can be left out.
        chunks = self._frozen(batch.ref) if ended else self._open(batch.ref, before, everything=file_limit is not None)
        kept = follow.fitting(
            chunks,
            limit=file_limit,
            lines=batch.counts.total,
            first_open=None if ended else next((shard.index for shard in shards if lease.is_open(shard)), len(shards)),
        )
        ahead = follow.ahead(self._published(batch, kept) if ended else follow.stored(kept), before)
        rows, given, part = self._take(ahead, limit)
        after = follow.place(before, given, part, _over(shards, chunks, ended=ended))
        has_more = len(given) < len(ahead)
        at_end = ended and not has_more
        return Rows(rows, has_more, None if at_end else place.encode(after, batch.ref), batch.status)

    def _open(self, ref: BatchRef, before: Place, *, everything: bool) -> list[Chunk]:
        """Give the chunks so far, those of the shards that lie behind left out unless everything is asked for."""
        return list(self._chunks.of(ref, first=0 if everything else before.behind().first))

    def _frozen(self, ref: BatchRef) -> list[Chunk]:
        """Give the chunks of a batch that has ended. There are no more to come, so that those of the batch that was read last are kept for its next pages."""
        kept, chunks = self._last
        if kept != ref:
            chunks = list(self._chunks.of(ref))
            self._last = ref, chunks
        return chunks

    def _read_again(self, batch: Batch, before: Place, limit: int) -> Rows:
        if not lifecycle.is_terminal(batch):
            raise AssertionError(f"a committed chunk of {batch.ref} is not there")
        try:
            return self._read(batch, before, limit)
        except NotFound:
            raise _gone() from None

    def _published(self, batch: Batch, chunks: list[Chunk]) -> Iterator[Unit]:
        """Give the units of a batch that has ended. Refused `results_expired`."""
        keys, sizes = ["", ""], [0, 0]
        for number, file_id in enumerate((batch.output_file_id, batch.error_file_id)):
            if file_id is not None:
                try:
                    sizes[number] = self._files.get(batch.space, file_id).bytes
                except NotFound:
                    raise _gone() from None
                keys[number] = paths.file(batch.org, file_id)
        if batch.output_file_id is None and batch.error_file_id is None:
            return iter(())
        return follow.published(chunks, follow.Files(keys[0], sizes[0], keys[1], sizes[1]))

    def _take(
        self, ahead: list[tuple[Unit, int]], limit: int
    ) -> tuple[list[bytes], list[Unit], tuple[Unit, int] | None]:
        """Give rows, the units that they use up, and the one that they leave a part of, with where that begins."""
        rows: list[bytes] = []
        size = 0
        for number, (unit, begin) in enumerate(ahead):
            at = begin
            if len(rows) == limit:
                return rows, [unit for unit, _ in ahead[:number]], None
            for row in self._rows(unit, begin):
                if len(rows) == limit or (rows and size + len(row) > PAGE_BYTES):
                    part = (unit, at) if at else None
                    return rows, [unit for unit, _ in ahead[:number]], part
                rows.append(row)
                size += len(row) + 1
                at += len(row) + 1
        return rows, [unit for unit, _ in ahead], None

    def _rows(self, unit: Unit, begin: int) -> Iterator[bytes]:
        """Give the rows of a unit from a byte on. ValueError when no row begins there."""
        for span in unit.spans:
            if begin < span.length:
                yield from self._span(span, begin)
            begin = max(0, begin - span.length)

    def _span(self, span: Span, begin: int) -> Iterator[bytes]:
        pending, window = bytearray(), READ_BYTES
        at, end = span.start + begin, span.start + span.length
        if begin:
            at -= 1  # the newline before it
        while at < end:
            data = self._blobs.get(span.key, at, min(at + window, end), etag=span.etag)
            if not data:
                raise AssertionError(f"{span.key} ends before {end}")
            if begin and not data.startswith(b"\n"):
                raise ValueError("a place within a row")
            at, window = at + len(data), min(2 * window, MOST_READ_BYTES)
            *rows, last = data[1 if begin else 0 :].split(b"\n")
            begin = 0
            for row in rows:
                yield bytes(pending) + row
                pending.clear()
            pending += last


def _over(shards: list[Shard], chunks: list[Chunk], *, ended: bool) -> dict[int, int | None]:
    """Give how many chunks each shard has that gets no more; None for the others."""
    count = max([len(shards), *(chunk.shard + 1 for chunk in chunks)])
    had = dict.fromkeys(range(count), 0)
    for chunk in chunks:
        had[chunk.shard] += 1
    over = {shard.index for shard in shards if not lease.is_open(shard)}
    return {shard: number if ended or shard in over else None for shard, number in had.items()}


def _gone() -> Refused:
    return Refused("results_expired", "The result files of the batch were deleted or have expired.")
