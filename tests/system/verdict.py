"""What must be true of every batch that has ended, whatever happened to it on the way."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from shared.core import paths
from shared.core.contracts import CONTRACTS
from shared.core.errors import NotFound
from shared.core.ids import BatchRef
from shared.core.lifecycle import is_terminal
from shared.core.records import Batch, Counts, Ending, Usage
from shared.core.result_line import UNANSWERED
from tests.system.engine import TOKENS
from tests.system.world import World

LONG = 310.0
"""Seconds in which everything that still could happen to a batch does: more than a tick."""


async def assert_exactly_once(world: World, ref: BatchRef) -> Batch:
    """Assert all of it, and give the batch."""
    batch = world.batch(ref)
    assert is_terminal(batch)
    output = rows(world, batch, batch.output_file_id)
    error = rows(world, batch, batch.error_file_id)
    _assert_every_custom_id_once(world, batch, output + error)
    never_ran = [row for row in error if _never_ran(row, batch.ending)]
    assert Counts(total=len(output + error), completed=len(output), failed=len(error) - len(never_ran)) == batch.counts
    assert Usage(input_tokens=TOKENS * len(output), output_tokens=TOKENS // 2 * len(output)) == batch.usage
    assert batch.gpu_ms == sum(shard.gpu_ms for shard in world.memory.shards.of(ref))
    assert_nothing_uncommitted_read(world, ref)
    assert_input_is_free(world, batch)
    await asyncio.sleep(LONG)
    assert batch == world.batch(ref)
    assert output + error == rows(world, batch, batch.output_file_id) + rows(world, batch, batch.error_file_id)
    return batch


async def assert_never_began(world: World, ref: BatchRef) -> Batch:
    """Assert that a batch ended before it was planned: with its errors, without rows, and nobody will ever work at it."""
    batch = world.batch(ref)
    assert is_terminal(batch)
    assert (None, None) == (batch.output_file_id, batch.error_file_id)
    assert batch.errors
    assert len(batch.errors) <= batch.errors_total
    assert (0, 0) == (batch.counts.completed, batch.counts.failed)
    assert_input_is_free(world, batch)
    assert [] == [shard for shard in world.memory.shards.open("echo@1") if shard.ref == ref]
    await asyncio.sleep(LONG)
    assert batch == world.batch(ref)
    return batch


def assert_nothing_uncommitted_read(world: World, ref: BatchRef) -> None:
    """Assert that of all chunk objects only committed ones were ever read."""
    read = {key for key in world.bucket.read if key.startswith(paths.chunks(ref))}
    assert read <= {chunk.key for chunk in world.memory.chunks.of(ref)}


def assert_input_is_free(world: World, batch: Batch) -> None:
    """Assert that the batch does not hold its input any more, where that is still there."""
    with suppress(NotFound):
        assert batch.id not in world.memory.files.get(batch.space, batch.input_file_id).held_by


def rows(world: World, batch: Batch, file_id: str | None) -> list[Any]:
    """Read a result file; one that is shown is there, is as large as its record says, and is not empty unless the contract wants it so."""
    if file_id is None:
        return []
    data = world.bucket.get(paths.file(batch.org, file_id))
    assert world.memory.files.get(batch.space, file_id).bytes == len(data)
    assert data or CONTRACTS[batch.contract].both_files
    assert data[-1:] in {b"", b"\n"}
    return [msgspec.json.decode(line) for line in data.split(b"\n") if line]


def _assert_every_custom_id_once(world: World, batch: Batch, delivered: list[Any]) -> None:
    prompts = world.prompts[batch.ref]
    assert Counter(list(prompts)) == Counter(row["custom_id"] for row in delivered)
    for row in delivered:
        if row["response"] is not None and row["response"]["status_code"] == 200:
            said = row["response"]["body"]["choices"][0]["message"]["content"]
            assert prompts[row["custom_id"]] == said
            assert row["error"] is None


def _never_ran(row: Any, ending: Ending | None) -> bool:
    if row["error"] is None or ending is None:
        return False
    return (row["error"]["code"], row["error"]["message"]) == UNANSWERED[ending]
