"""The commit protocol: finished rows become durable, each exactly once, whatever answer is lost on the way.

1. The rows are written to an object that nobody else ever writes: its key holds shard, epoch, number and a nonce, and it is written only if absent.
2. One transaction commits it, if the lease is still ours and no chunk has this number.
3. After an answer that was lost, the record is read back before anything else: it tells whether the transaction took effect.

What is written and not committed is never read. The losing interleavings and what stops them:
- a zombie puts its object after its successor committed: the object has another key, and its commit fails on the epoch;
- a commit takes effect and its answer is lost: the record read back has our key, and nothing is committed again;
- a commit races Close: the transaction checks the epoch that Close bumps; one of the two is first, and the loser sees it.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from gpu_job.row import Finished
from shared.core import merge, paths, plan
from shared.core.errors import Conflict, Fenced, NotFound, Unavailable
from shared.core.records import Chunk, Shard, Usage
from shared.ports import Blobs, ChunkLog, NewId

PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)
"""Seconds between tries: in all less than a lease lasts."""


class Committer:
    """Commits chunks of leased shards. Blocking: the worker calls it in threads, one call a shard at a time."""

    def __init__(
        self, *, blobs: Blobs, log: ChunkLog, new_id: NewId, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._blobs = blobs
        self._log = log
        self._new_id = new_id
        self._sleep = sleep

    def commit(self, shard: Shard, seq: int, rows: Sequence[Finished], gpu_ms: int = 0) -> Shard:
        """Make the rows durable as chunk `seq` of this lease, and count the GPU time that they took; give the shard as it then is.

        Fenced when the lease is lost: then nothing of this chunk counts. Unavailable when the stores stay away: the same call, with
        the same rows and number, may be made again.
        """
        chunk = self._put(shard, seq, rows, gpu_ms)
        for pause in (*PAUSES, None):
            try:
                self._log.commit(shard, chunk)
            except Unavailable:
                if self._committed(shard, chunk):
                    break
                if pause is None:
                    raise
                self._sleep(pause)
            else:
                break
        return plan.committed(shard, chunk)

    def _put(self, shard: Shard, seq: int, rows: Sequence[Finished], gpu_ms: int) -> Chunk:
        good = [row for row in rows if row.ok]
        bad = [row for row in rows if not row.ok]
        output, error = b"".join(row.data for row in good), b"".join(row.data for row in bad)
        key = paths.chunk(shard.ref, shard.index, shard.epoch, seq, self._new_id(""))
        return Chunk(
            shard=shard.index,
            epoch=shard.epoch,
            seq=seq,
            key=key,
            etag=self._write(key, output + error),
            output_bytes=len(output),
            error_bytes=len(error),
            completed=len(good),
            failed=len(bad),
            usage=sum((row.usage for row in rows), Usage()),
            bitmap=merge.bitmap((row.position for row in rows), shard.lines),
            gpu_ms=gpu_ms,
        )

    def _write(self, key: str, data: bytes) -> str:
        for pause in PAUSES:
            with suppress(NotFound, Unavailable):
                return self._written(key, data)
            self._sleep(pause)
        return self._written(key, data)

    def _written(self, key: str, data: bytes) -> str:
        try:
            return self._blobs.put(key, data, only_if_absent=True)
        except Conflict:
            # Nobody else knows the key: an earlier try of ours was written after all, or is about to be.
            return self._blobs.stat(key).etag

    def _committed(self, shard: Shard, chunk: Chunk) -> bool:
        try:
            found = self._log.find(shard.ref, shard.index, chunk.epoch, chunk.seq)
        except Unavailable:
            return False  # not known yet: the next try of the commit finds its own record and is harmless
        if found is not None and found.key != chunk.key:
            raise Fenced(f"{shard.ref} shard {shard.index}: chunk {chunk.epoch}-{chunk.seq} is another's")
        return found is not None
