"""Finalize: after the fence, committed chunks and rows for unanswered lines become the result files, and the batch ends.

It is a loop of short steps. Each step writes one part (or a whole small file) and only then moves the saved cursor; a step that is repeated, by a
retry or by a second invocation at the same time, writes the same bytes to the same place (`shared.services.result_file`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import msgspec

from shared.core import ids, lifecycle, merge, paths
from shared.core.contracts import CONTRACTS
from shared.core.errors import Conflict, NotFound
from shared.core.fit import Rows, fit
from shared.core.ids import BatchRef
from shared.core.merge import Unanswered
from shared.core.records import Batch, Chunk, Cursor, Ending, File, Shard
from shared.core.window import Timing, input_until
from shared.ports import BatchStore, Blobs, ChunkLog, Clock, Multipart, Shards
from shared.services.result_file import ResultFile, unanswered

_PHASES = {"output": "error", "error": "done"}


class Finalizer:
    """The Finalize state. Args: the ports, and what makes the threads that read, for each call anew."""

    def __init__(
        self,
        *,
        batches: BatchStore,
        shards: Shards,
        chunks: ChunkLog,
        blobs: Blobs,
        multipart: Multipart,
        readers: Callable[[], Executor],
        clock: Clock,
        timing: Timing,
    ) -> None:
        self._batches = batches
        self._shards = shards
        self._chunks = chunks
        self._blobs = blobs
        self._multipart = multipart
        self._readers = readers
        self._clock = clock
        self._timing = timing

    def finalize(self, ref: BatchRef, *, until: float) -> Batch:
        """Write result files until they are done or the clock passes `until`; give the batch, terminal once it is published."""
        batch = self._batches.get(ref)
        if not lifecycle.is_terminal(batch):
            shards, chunks = self._shards.of(ref), list(self._chunks.of(ref))
            batch = self._write(batch, shards, chunks, until)
            if batch.cursor.phase == "done" and not lifecycle.is_terminal(batch):
                batch = self._publish(batch, shards, chunks)
        if lifecycle.is_terminal(batch):
            self._sweep(ref)
        return batch

    def _write(self, batch: Batch, shards: Sequence[Shard], chunks: Sequence[Chunk], until: float) -> Batch:
        while not lifecycle.is_terminal(batch) and batch.cursor.phase != "done" and self._clock() < until:
            limit = CONTRACTS[batch.contract].result_bytes
            try:
                if limit is not None and merge.largest(shards, chunks) > limit:
                    batch = self._moved(batch, self._fit(batch, shards, chunks, limit))
                else:
                    batch = self._write_file(batch, shards, chunks, until)
            except (Conflict, NotFound):
                # Another invocation may have finished the file, or the batch, under our hands: then its place is where we go on.
                latest = self._batches.get(batch.ref)
                if latest.cursor == batch.cursor and not lifecycle.is_terminal(latest):
                    raise
                batch = latest
        return batch

    def _moved(self, batch: Batch, cursor: Cursor) -> Batch:
        """Save the cursor, unless another invocation has moved it meanwhile: then its place is where we go on."""
        seen = batch.cursor

        def change(latest: Batch) -> Batch:
            return latest if latest.cursor != seen else msgspec.structs.replace(latest, cursor=cursor)

        return self._batches.update(batch.ref, change)

    def _fit(self, batch: Batch, shards: Sequence[Shard], chunks: Sequence[Chunk], limit: int) -> Cursor:
        """Write both files, which are too large as they are, in one step: the contract keeps them small enough for the memory."""
        ordered = sorted(chunks, key=lambda chunk: (chunk.shard, chunk.epoch, chunk.seq))
        rows = (self._blobs.get(chunk.key, etag=chunk.etag) for chunk in ordered)
        parts = (
            Rows(row[: chunk.output_bytes], row[chunk.output_bytes :]) for chunk, row in zip(ordered, rows, strict=True)
        )
        left = (piece for piece in merge.pieces(shards, chunks, "error") if isinstance(piece, Unanswered))
        rows_left = (unanswered(batch, piece, self._blobs.get(paths.plan(batch.ref, piece.shard))) for piece in left)
        fitted = fit(parts, rows_left, limit=limit, lines=batch.counts.total)
        self._blobs.put(paths.file(batch.org, _file_id(batch, "output")), fitted.output)
        self._blobs.put(paths.file(batch.org, _file_id(batch, "error")), fitted.error)
        return Cursor(
            phase="done",
            output_bytes=len(fitted.output),
            error_bytes=len(fitted.error),
            too_large=fitted.too_large,
            unbilled=fitted.unbilled,
        )

    def _write_file(self, batch: Batch, shards: Sequence[Shard], chunks: Sequence[Chunk], until: float) -> Batch:
        """Go on with the file of the phase until it is there, the time is up, or another invocation has moved the cursor."""
        cursor, key = batch.cursor, paths.file(batch.org, _file_id(batch, batch.cursor.phase))
        pieces = list(merge.pieces(shards, chunks, cursor.phase))
        readers = self._readers()
        try:
            file = ResultFile(batch, key, pieces, blobs=self._blobs, multipart=self._multipart, readers=readers)
            if file.is_small:
                data = file.read()
                if data or _has_both(batch):
                    self._blobs.put(key, data)
                return self._moved(batch, _next_phase(cursor, len(data)))
            if cursor.upload_id is None:
                # Saved before the first part: should we die in between, the upload is one that the bucket's lifecycle removes.
                begun = msgspec.structs.replace(cursor, upload_id=self._multipart.begin(key))
                return self._moved(batch, begun)
            for write, after in file.parts(cursor, cursor.upload_id):
                write()
                batch = self._moved(batch, after)
                if batch.cursor != after or self._clock() >= until:
                    return batch
            return self._moved(batch, _next_phase(cursor, self._multipart.complete(key, cursor.upload_id).size))
        finally:
            readers.shutdown(cancel_futures=True)

    def _publish(self, batch: Batch, shards: Sequence[Shard], chunks: Sequence[Chunk]) -> Batch:
        totals = merge.totals(batch, shards, chunks)
        output = self._file(batch, "output", batch.cursor.output_bytes)
        error = self._file(batch, "error", batch.cursor.error_bytes)

        def change(latest: Batch) -> Batch:
            if lifecycle.is_terminal(latest):
                return latest
            done = msgspec.structs.replace(
                latest,
                counts=totals.counts,
                usage=totals.usage,
                gpu_ms=sum(chunk.gpu_ms for chunk in chunks),
                output_file_id=output and output.id,
                error_file_id=error and error.id,
            )
            return lifecycle.advance(done, lifecycle.PUBLISH[latest.ending or Ending.FAILED], int(self._clock()))

        files = [file for file in (output, error) if file is not None]
        return self._batches.finish(batch.ref, change, files, input_until=input_until(batch, int(self._clock())))

    def _file(self, batch: Batch, phase: str, size: int) -> File | None:
        if not size and not _has_both(batch):
            return None
        now = int(self._clock())
        lifetime = batch.output_lifetime or CONTRACTS[batch.contract].result_lifetime
        return File(
            id=_file_id(batch, phase),
            org=batch.org,
            contract=batch.contract,
            bytes=size,
            filename=f"{batch.id}_{phase}.jsonl",
            purpose="batch_output",
            created_at=now,
            expires_at=now + self._timing.seconds(lifetime),
            source_batch=batch.id,
        )

    def _sweep(self, ref: BatchRef) -> None:
        """Remove what only the run needed. A chunk that a zombie writes later is read by nobody."""
        self._blobs.delete(paths.plans(ref))
        self._blobs.delete(paths.chunks(ref))


def _has_both(batch: Batch) -> bool:
    return CONTRACTS[batch.contract].both_files and batch.ending is not Ending.FAILED


def _file_id(batch: Batch, phase: str) -> str:
    at = batch.finalizing_at or batch.cancelling_at or batch.created_at
    return ids.derived(ids.FILE, at, str(batch.ref), phase)


def _next_phase(cursor: Cursor, size: int) -> Cursor:
    return Cursor(
        phase=_PHASES[cursor.phase],
        output_bytes=size if cursor.phase == "output" else cursor.output_bytes,
        error_bytes=size if cursor.phase == "error" else cursor.error_bytes,
    )
