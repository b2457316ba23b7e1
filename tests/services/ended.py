"""A batch whose run is over, made by hand: shards, committed chunks of rows of any size, and what its result files must be, byte by byte."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import msgspec

from shared.adapters.memory import Memory
from shared.core import lifecycle, merge, paths, plan, result_line
from shared.core.ids import BatchRef
from shared.core.lifecycle import Event
from shared.core.plan import PlanLine, ShardPlan
from shared.core.records import Batch, Chunk, Counts, File, Shard, ShardState, Status, Usage
from shared.core.window import Timing
from shared.services.finalize import Finalizer
from tests.fakes import Call, Fault
from tests.inline import Inline

START = 1_800_000_000
REF = BatchRef("acme", "openai", "batch_1")
MIB = 1 << 20


class Some(NamedTuple):
    """A chunk: how many good rows and how many bad ones it has, and how many bytes each of them at least."""

    good: int
    bad: int = 0
    row_bytes: int = 0


class Ended:
    """The batch, in a world of its own.

    Args:
        shards: The chunks of each shard, and how many lines besides have no row.
        how: What ended the run.
        custom_id_chars: How long custom_ids are.
        readers: What makes the threads that read.

    Attributes:
        output: What the output file must be.
        error: What the error file must be.
        meet: Every call that Finalize makes goes through it; a test may make calls fail there.

    """

    def __init__(
        self,
        *shards: tuple[Sequence[Some], int],
        how: Event = Event.EXPIRE,
        custom_id_chars: int = 8,
        readers: Callable[[], Executor] = Inline,
    ) -> None:
        self.memory = Memory()
        self.time = float(START)
        self.output = self.error = b""
        self.calls = 0
        self.meet: Fault = lambda call: call()
        self.readers = readers
        self._chars = custom_id_chars
        self._line = 0
        input_file = File(
            id="file-in", org=REF.org, contract=REF.contract, bytes=1, filename="in.jsonl", purpose="batch",
            created_at=START,
        )  # fmt: skip
        self.memory.files.put(input_file)
        batch = Batch(
            id=REF.id, org=REF.org, contract=REF.contract, endpoint="/v1/chat/completions", input_file_id="file-in",
            completion_window="24h", created_at=START, expires_at=START + 86400, status=Status.IN_PROGRESS,
            counts=Counts(total=sum(some.good + some.bad for chunks, _ in shards for some in chunks)
            + sum(left for _, left in shards)), shards=len(shards),
        )  # fmt: skip
        self.memory.batches.create(lifecycle.advance(batch, how, START), None)
        missing = [self._put(index, chunks, left) for index, (chunks, left) in enumerate(shards)]
        self.error += b"".join(
            result_line.unanswered(REF.id, line.line, line.custom_id, lifecycle.ENDINGS[how])
            for lines in missing
            for line in lines
        )

    def finalize(self, seconds: float = 1e9) -> Batch:
        """Run Finalize for so many seconds; each of its calls takes one."""
        until = self.time + seconds
        return self._finalizer().finalize(REF, until=until)

    def file(self, file_id: str | None) -> bytes:
        """Give a result file."""
        return b"" if file_id is None else self.memory.blobs.get(paths.file(REF.org, file_id))

    def assert_published(self) -> None:
        """Assert that the batch has ended with exactly its rows in its files, and that nothing is left of the run."""
        batch = self.memory.batches.get(REF)
        assert lifecycle.is_terminal(batch)
        assert self.output == self.file(batch.output_file_id)
        assert self.error == self.file(batch.error_file_id)
        assert (not self.output, not self.error) == (batch.output_file_id is None, batch.error_file_id is None)
        for file_id in (batch.output_file_id, batch.error_file_id):
            if file_id is not None:
                assert len(self.file(file_id)) == self.memory.files.get(REF.space, file_id).bytes
        completed = self.output.count(b"\n")
        assert (batch.counts.total, completed) == (completed + self.error.count(b"\n"), batch.counts.completed)
        assert Usage(input_tokens=3 * completed, output_tokens=completed) == batch.usage
        assert () == self.memory.files.get(REF.space, "file-in").held_by
        assert [] == self.memory.blobs.keys(paths.batch(REF))

    def _finalizer(self) -> Finalizer:
        blobs = _Through(self, self.memory.blobs)
        return Finalizer(
            batches=_Through(self, self.memory.batches), shards=_Through(self, self.memory.shards),
            chunks=_Through(self, self.memory.chunks), blobs=blobs, multipart=blobs, readers=self.readers,
            clock=lambda: self.time, timing=Timing(),
        )  # fmt: skip

    def call(self, call: Call) -> Any:
        """Make one of Finalize's calls."""
        self.calls += 1
        self.time += 1
        return self.meet(call)

    def _put(self, index: int, chunks: Sequence[Some], left: int) -> list[PlanLine]:
        """Keep a shard whose unanswered lines stand first, and give those."""
        lines = [self._next() for _ in range(left + sum(some.good + some.bad for some in chunks))]
        shard = Shard(
            org=REF.org, contract=REF.contract, batch=REF.id, index=index, revision="echo@1", lines=len(lines), rank="",
        )  # fmt: skip
        shard_plan = ShardPlan(REF.id, REF.org, REF.contract, paths.file(REF.org, "file-in"), "/v1/chat", lines)
        self.memory.blobs.put(paths.plan(REF, index), plan.encode(shard_plan))
        self.memory.shards.put([shard])
        shard = self.memory.shards.lease(shard, "worker", START + 60)
        at = left
        for seq, some in enumerate(chunks):
            shard = self._commit(shard, seq, lines, range(at, at + some.good + some.bad), some)
            at += some.good + some.bad
        if shard.state is not ShardState.DONE:
            self.memory.shards.close(shard)
        return lines[:left]

    def _commit(self, shard: Shard, seq: int, lines: list[PlanLine], positions: range, some: Some) -> Shard:
        rows = [self._row(lines[position], some.row_bytes) for position in positions[: some.good]]
        gone = [
            result_line.given_up(
                REF.id, lines[position].line, lines[position].custom_id, "server_error", "x" * some.row_bytes
            )
            for position in positions[some.good :]
        ]
        output, error = b"".join(rows), b"".join(gone)
        self.output, self.error = self.output + output, self.error + error
        key = paths.chunk(REF, shard.index, shard.epoch, seq, "nonce")
        chunk = Chunk(
            shard=shard.index, epoch=shard.epoch, seq=seq, key=key, etag=self.memory.blobs.put(key, output + error),
            output_bytes=len(output), error_bytes=len(error), completed=some.good, failed=some.bad,
            usage=Usage(input_tokens=3 * some.good, output_tokens=some.good),
            bitmap=merge.bitmap(positions, shard.lines),
        )  # fmt: skip
        self.memory.chunks.commit(shard, chunk)
        return plan.committed(shard, chunk)

    def _row(self, line: PlanLine, size: int) -> bytes:
        response = {"status_code": 200, "request_id": "r", "body": {"text": "y" * size}}
        row = {"id": f"row_{line.line}", "custom_id": line.custom_id, "response": response, "error": None}
        return msgspec.json.encode(row) + b"\n"

    def _next(self) -> PlanLine:
        self._line += 1
        return PlanLine(self._line, 0, 1, f"{self._line}".rjust(self._chars, "c"))


class _Through:
    """A port whose calls all go through `Ended.call`."""

    def __init__(self, ended: Ended, port: Any) -> None:
        self._ended = ended
        self._port = port

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._port, name)
        return lambda *args, **named: self._ended.call(lambda: method(*args, **named))
