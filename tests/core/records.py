"""Records to begin with."""

from collections.abc import Collection

from shared.core.merge import bitmap
from shared.core.records import Batch, Chunk, Counts, Shard, Status, Usage

BATCH = Batch(
    id="batch_01",
    org="acme",
    contract="openai",
    endpoint="/v1/chat/completions",
    input_file_id="file-1",
    completion_window="24h",
    created_at=100,
    expires_at=86_500,
    status=Status.FINALIZING,
    counts=Counts(total=20),
)


def shard(index: int, lines: int, completed: int = 0, failed: int = 0) -> Shard:
    """Give a shard of that many lines."""
    return Shard(
        org=BATCH.org,
        contract=BATCH.contract,
        batch=BATCH.id,
        index=index,
        revision="echo@1",
        lines=lines,
        rank=f"{index}",
        completed=completed,
        failed=failed,
    )


def chunk(
    shard: int, seq: int, answered: Collection[int], *, lines: int = 10, failed: int = 0, epoch: int = 1
) -> Chunk:
    """Give a chunk of these positions: 100 bytes a row, an output token a row, the failed ones last."""
    completed = len(answered) - failed
    return Chunk(
        shard=shard,
        epoch=epoch,
        seq=seq,
        key=f"chunk-{shard}-{epoch}-{seq}",
        etag=f"etag-{shard}-{epoch}-{seq}",
        output_bytes=100 * completed,
        error_bytes=100 * failed,
        completed=completed,
        failed=failed,
        usage=Usage(output_tokens=completed),
        bitmap=bitmap(answered, lines),
    )
