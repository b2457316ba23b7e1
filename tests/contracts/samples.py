"""Records to keep, all of one organization."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from shared.core.errors import SlackwaterError
from shared.core.ids import BatchRef, Space
from shared.core.records import Batch, BatchError, Chunk, Counts, File, Shard, Status, Usage
from shared.ports import ShardQueue

T = TypeVar("T")

SPACE = Space("acme", "openai")
ELSEWHERE = (Space("acme", "gridline"), Space("rival", "openai"))
REF = BatchRef("acme", "openai", "batch_1")
REVISION = "echo@1"


def file(id_: str = "file-1", space: Space = SPACE) -> File:
    """Give a file's record."""
    return File(
        id=id_,
        org=space.org,
        contract=space.contract,
        bytes=12,
        filename="in.jsonl",
        purpose="batch",
        created_at=1_800_000_000,
    )


def batch(id_: str = "batch_1", space: Space = SPACE, input_file_id: str = "file-1") -> Batch:
    """Give a batch's record with something in every kind of field."""
    return Batch(
        id=id_,
        org=space.org,
        contract=space.contract,
        endpoint="/v1/chat/completions",
        input_file_id=input_file_id,
        completion_window="24h",
        created_at=1_800_000_000,
        expires_at=1_800_086_400,
        status=Status.VALIDATING,
        metadata={"purpose": "tide tables", "empty": ""},
        counts=Counts(total=3),
        errors=(BatchError(code="invalid_json_line", message="no JSON", line=2),),
    )


def shard(index: int = 0, lines: int = 10, ref: BatchRef = REF, revision: str = REVISION) -> Shard:
    """Give a ready shard's record."""
    return Shard(
        org=ref.org,
        contract=ref.contract,
        batch=ref.id,
        index=index,
        revision=revision,
        lines=lines,
        rank=f"{ref.org}/001800086400/{ref.id}/{index:06d}",
        tokens=100 * lines,
        deadline=1_800_086_400,
        urgent_at=1_800_000_000,
    )


def queued(queue: ShardQueue, revision: str = REVISION) -> list[Shard]:
    """Give the open shards of a revision by rank."""
    return sorted(queue.ready(revision, 100) + queue.leased(revision), key=lambda shard: shard.rank)


def chunk(leased: Shard, seq: int = 0, completed: int = 2, failed: int = 1, nonce: str = "mine") -> Chunk:
    """Give a chunk that the holder of a lease may commit."""
    return Chunk(
        shard=leased.index,
        epoch=leased.epoch,
        seq=seq,
        key=f"orgs/acme/batches/batch_1/chunks/{leased.index:06d}/{leased.epoch:06d}-{seq:06d}-{nonce}",
        etag='"etag"',
        output_bytes=200,
        error_bytes=100,
        completed=completed,
        failed=failed,
        usage=Usage(input_tokens=7 * completed, output_tokens=3 * completed),
        bitmap=b"\x07\x00",
        gpu_ms=500 * completed,
    )


def at_once(times: int, call: Callable[[int], T]) -> list[T | SlackwaterError]:
    """Call from as many threads at the same time, each with its number; give their answers, or errors of ours."""
    barrier = Barrier(times)

    def one(number: int) -> T | SlackwaterError:
        barrier.wait()
        try:
            return call(number)
        except SlackwaterError as error:
            return error

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(one, range(times)))
