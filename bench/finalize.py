"""Finalize, against reading the committed rows once; and a million of them in flat memory.

    python -m bench.finalize [--rows 50000,1000000]

The smaller sizes are measured on moto's S3, through the deployed adapter, in wall time, medians of several runs: their chunks are read, packed and written
again. The reading is one chunk after the other, in one thread; Finalize has threads of its own. Above 100,000 rows objects are files on the disk, since moto
would keep them in memory, and both times are hardly more than the processor's; it is the memory that counts there, and one run is enough. In these, a tenth
of the lines was never answered. Each run has a fresh process, whose memory is what Linux says it had at most.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from hashlib import md5
from pathlib import Path
from statistics import median
from threading import RLock
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from bench.measure import process_peak
from shared.adapters.clients import Clients
from shared.adapters.memory import Memory, MemoryBlobs
from shared.adapters.s3 import S3Blobs
from shared.core import lifecycle, merge, paths, plan
from shared.core.errors import Conflict, NotFound
from shared.core.ids import BatchRef
from shared.core.lifecycle import Event
from shared.core.plan import PlanLine, ShardPlan
from shared.core.records import Batch, Chunk, Counts, File, Shard, Status, Usage
from shared.core.window import Timing
from shared.ports import BlobInfo
from shared.services.ahead import READERS
from shared.services.finalize import Finalizer

REF = BatchRef("acme", "openai", "batch_1")
SHARD_LINES = 1000
UNANSWERED = 100
"""Of each shard, where objects are on the disk."""
ROW_BYTES = 600
MOTO_ROWS = 100_000
MOTO_RUNS = 5
STEP_SECONDS = 5.0
"""What one call of the loop may take, as a Lambda is called again and again."""
GOAL = 3.0
START = 1_800_000_000


class DiskBlobs(MemoryBlobs):
    """A bucket in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(RLock())
        self._folder = folder
        self._sums: dict[str, str] = {}

    def put(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:
        """As `Blobs.put`."""
        if only_if_absent and key in self._sums:
            raise Conflict(key)
        self._path(key).write_bytes(data)
        self._sums[key] = md5(data, usedforsecurity=False).hexdigest()
        return self._sums[key]

    def get(self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None) -> bytes:
        """As `Blobs.get`."""
        self._check(key, etag)
        with self._path(key).open("rb") as file:
            file.seek(start)
            return file.read() if end is None else file.read(end - start)

    def stat(self, key: str) -> BlobInfo:
        """As `Blobs.stat`."""
        self._check(key, None)
        return BlobInfo(self._path(key).stat().st_size, self._sums[key])

    def delete(self, prefix: str) -> None:
        """As `Blobs.delete`."""
        for key in [key for key in self._sums if key.startswith(prefix)]:
            self._path(key).unlink()
            del self._sums[key]

    def part(self, key: str, upload: str, number: int, data: bytes | bytearray) -> None:
        """As `Multipart.part`."""
        self._part(key, upload, number).write_bytes(data)

    def copy(self, key: str, upload: str, number: int, *, source: str, start: int, end: int, etag: str) -> None:
        """As `Multipart.copy`."""
        self._check(source, etag)
        part = self._part(key, upload, number)
        part.unlink(missing_ok=True)  # a call before this one may have copied it already, ahead of the cursor
        _append(self._path(source), part, start, end)

    def complete(self, key: str, upload: str) -> BlobInfo:
        """As `Multipart.complete`."""
        parts = sorted(self._folder.glob(f"{self._path(key).name}.{upload}.*"))
        self._path(key).write_bytes(b"")
        for part in parts:
            _append(part, self._path(key), 0, part.stat().st_size)
            part.unlink()
        self._sums[key] = upload
        return self.stat(key)

    def _check(self, key: str, etag: str | None) -> None:
        if key not in self._sums:
            raise NotFound(key)
        if etag not in {None, self._sums[key]}:
            raise Conflict(key)

    def _path(self, key: str) -> Path:
        return self._folder / key.replace("/", "_")

    def _part(self, key: str, upload: str, number: int) -> Path:
        return self._folder / f"{self._path(key).name}.{upload}.{number:05d}"


def _append(source: Path, target: Path, start: int, end: int) -> None:
    with source.open("rb") as reader, target.open("r+b" if target.exists() else "wb") as writer:
        at = writer.seek(0, os.SEEK_END)
        while start < end:
            start += (copied := os.copy_file_range(reader.fileno(), writer.fileno(), end - start, start, at))
            at += copied


class World(Memory):
    """Records in memory, objects elsewhere."""

    def __init__(self, blobs: Any) -> None:  # noqa: ANN401 - any adapter of `Blobs` and `Multipart`
        super().__init__()
        self.blobs = blobs


def ended(memory: World, rows: int, left: int) -> Iterator[str]:
    """Make a batch whose run is over, a shard at a time; give the keys of its chunks."""
    count = rows // SHARD_LINES
    memory.files.put(
        File(
            id="file-in",
            org=REF.org,
            contract=REF.contract,
            bytes=1,
            filename="in.jsonl",
            purpose="batch",
            created_at=START,
        )
    )
    batch = Batch(
        id=REF.id,
        org=REF.org,
        contract=REF.contract,
        endpoint="/v1/chat/completions",
        input_file_id="file-in",
        completion_window="24h",
        created_at=START,
        expires_at=START + 86400,
        status=Status.IN_PROGRESS,
        counts=Counts(total=rows),
        shards=count,
    )
    memory.batches.create(lifecycle.advance(batch, Event.EXPIRE, START), None)
    for index in range(count):
        yield _shard(memory, index, left)


def _shard(memory: World, index: int, left: int) -> str:
    first = index * SHARD_LINES
    lines = [PlanLine(first + n + 1, 0, 1, f"request-{first + n}") for n in range(SHARD_LINES)]
    made = ShardPlan(REF.id, REF.org, REF.contract, paths.file(REF.org, "file-in"), "/v1/chat/completions", lines)
    memory.blobs.put(paths.plan(REF, index), plan.encode(made))
    shard = Shard(
        org=REF.org,
        contract=REF.contract,
        batch=REF.id,
        index=index,
        revision="echo@1",
        lines=SHARD_LINES,
        rank="",
    )
    memory.shards.put([shard])
    shard = memory.shards.lease(shard, "worker", START + 60)
    answered = SHARD_LINES - left
    data = b"".join(
        msgspec.json.encode(
            {"id": f"row_{line.line}", "custom_id": line.custom_id, "response": "y" * ROW_BYTES, "error": None}
        )
        + b"\n"
        for line in lines[:answered]
    )
    key = paths.chunk(REF, index, shard.epoch, 0, "nonce")
    chunk = Chunk(
        shard=index,
        epoch=shard.epoch,
        seq=0,
        key=key,
        etag=memory.blobs.put(key, data),
        output_bytes=len(data),
        error_bytes=0,
        completed=answered,
        failed=0,
        usage=Usage(input_tokens=answered, output_tokens=answered),
        bitmap=merge.bitmap(range(answered), SHARD_LINES),
    )
    memory.chunks.commit(shard, chunk)
    memory.shards.close(plan.committed(shard, chunk))
    return key


@contextmanager
def moto() -> Iterator[S3Blobs]:
    """Give a bucket of a moto server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-p", str(port)], stderr=subprocess.DEVNULL)
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")  # noqa: S106 - moto asks for none
    try:
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        s3 = Clients(region="us-east-1", endpoint_url=f"http://127.0.0.1:{port}").s3
        s3.create_bucket(Bucket="bench")
        yield S3Blobs(s3, "bench")
    finally:
        server.kill()
        server.wait()


@contextmanager
def disk() -> Iterator[DiskBlobs]:
    """Give a bucket on the disk."""
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as folder:
        yield DiskBlobs(Path(folder))


def measure(rows: int, *, store: Callable[[], AbstractContextManager[Any]], left: int) -> dict[str, float]:
    """Finalize a batch of that many rows, `left` of each shard unanswered; give seconds, calls, bytes, and this process's memory before and at most."""
    with store() as blobs:
        memory = World(blobs)
        keys = list(ended(memory, rows, left))
        start = time.perf_counter()
        size = sum(len(memory.blobs.get(key)) for key in keys)
        reading = time.perf_counter() - start
        before = process_peak()
        finalizer = Finalizer(
            batches=memory.batches,
            shards=memory.shards,
            chunks=memory.chunks,
            blobs=memory.blobs,
            multipart=memory.blobs,
            readers=partial(ThreadPoolExecutor, READERS),
            clock=time.time,
            timing=Timing(),
        )
        calls, start = 0, time.perf_counter()
        while not lifecycle.is_terminal(batch := finalizer.finalize(REF, until=time.time() + STEP_SECONDS)):
            calls += 1
        seconds, peak = time.perf_counter() - start, process_peak()
        output = memory.blobs.stat(paths.file(REF.org, str(batch.output_file_id)))
        error = memory.blobs.get(paths.file(REF.org, batch.error_file_id)) if batch.error_file_id else b""
        assert size == output.size
        assert rows * left // SHARD_LINES == error.count(b"\n")
        return {
            "bytes": size,
            "reading": reading,
            "seconds": seconds,
            "calls": calls + 1,
            "before": before,
            "peak": peak,
        }


def run(rows: int) -> dict[str, float]:
    """Measure a size in a process of its own."""
    command = [sys.executable, "-m", "bench.finalize", f"--one={rows}"]
    told: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return told


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench.finalize", description="Finalize against one reading.")
    parser.add_argument("--rows", default="50000,1000000")
    parser.add_argument("--one", type=int, help="measure this size in this process; print it as JSON")
    args = parser.parse_args()
    if args.one:
        small = args.one <= MOTO_ROWS
        print(json.dumps(measure(args.one, store=moto if small else disk, left=0 if small else UNANSWERED)))
        return
    table = Table(title="Finalize")
    for name in ("rows", "chunks", "reading them", "finalize", "ratio", "goal", "calls", "memory before", "at most"):
        table.add_column(name, justify="right")
    for rows in args.rows.split(","):
        runs = [run(int(rows)) for _ in range(MOTO_RUNS if int(rows) <= MOTO_ROWS else 1)]
        told = {name: median(each[name] for each in runs) for name in runs[0]}
        table.add_row(
            f"{int(rows):,}",
            f"{told['bytes'] / 1e6:.0f} MB",
            f"{told['reading']:.2f} s",
            f"{told['seconds']:.2f} s",
            f"{median(each['seconds'] / each['reading'] for each in runs):.2f}",
            f"≤ {GOAL:.1f}",
            f"{told['calls']:.0f}",
            f"{told['before'] / 2**20:.0f} MiB",
            f"{max(each['peak'] for each in runs) / 2**20:.0f} MiB",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
