"""What must be true of every batch that has ended, whatever happened to it on the way."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec

from functions.tasks import sweep
from shared.core import merge, paths
from shared.core.contracts import CONTRACTS
from shared.core.errors import Conflict, NotFound
from shared.core.ids import BatchRef
from shared.core.lifecycle import is_terminal
from shared.core.records import Batch, Counts, Ending, Usage
from shared.core.result_line import UNANSWERED
from tests.system.engine import TOKENS
from tests.system.tasks import TASKS
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
    unanswered = [row for row in error if never_ran(row, batch.ending)]
    assert Counts(total=len(output + error), completed=len(output), failed=len(error) - len(unanswered)) == batch.counts
    assert Usage(input_tokens=TOKENS * len(output), output_tokens=TOKENS // 2 * len(output)) == batch.usage
    assert_shards_add_up(world, batch)
    assert_all_that_is_committed_is_delivered(world, batch)
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


async def assert_undisturbed_by_zombies(world: World, ref: BatchRef) -> None:
    """Invoke every state once more, forwards and backwards, and the sweep; assert that nothing changes. All batches of the world have ended."""
    sweep.sweep(world.services, sweep.Event())  # what has expired meanwhile
    batch, keys = world.batch(ref), _kept(world)
    jobs, executions = len(world.jobs.tasks), len(world.executions.tasks)
    for state in [*TASKS, *reversed(TASKS)]:
        if state != "Notify":
            with suppress(Conflict, NotFound):  # an answer that nobody waits for
                await world.invoke(state, {"batch": str(ref), "token": "stale", "execution": f"{ref.id}-1"})
            assert batch == world.batch(ref), state
    sweep.sweep(world.services, sweep.Event())
    sweep.sweep(world.services, sweep.Event(sweep.Detail(msgspec.json.encode({"batch": str(ref)}).decode())))
    assert batch == world.batch(ref)
    assert keys == _kept(world)
    assert (jobs, executions) == (len(world.jobs.tasks), len(world.executions.tasks))
    assert [] == world.memory.shards.open("echo@1")


def assert_shards_add_up(world: World, batch: Batch) -> None:
    """Assert that chunks make up shards, and shards the batch: lines, rows, usage, and time of GPUs. No position has two rows."""
    shards, chunks = world.memory.shards.of(batch.ref), list(world.memory.chunks.of(batch.ref))
    for shard in shards:
        mine = [chunk for chunk in chunks if chunk.shard == shard.index]
        assert len(merge.missing(shard.lines, mine)) == shard.lines - shard.answered
        assert shard.completed == sum(chunk.completed for chunk in mine)
        assert shard.failed == sum(chunk.failed for chunk in mine)
        assert shard.usage == sum((chunk.usage for chunk in mine), Usage())
        assert shard.gpu_ms == sum(chunk.gpu_ms for chunk in mine)
    assert batch.counts.total == sum(shard.lines for shard in shards)
    assert batch.counts.completed == sum(shard.completed for shard in shards)
    assert batch.counts.failed == sum(shard.failed for shard in shards)
    assert batch.usage == sum((shard.usage for shard in shards), Usage())
    assert batch.gpu_ms == sum(shard.gpu_ms for shard in shards)


def assert_all_that_is_committed_is_delivered(world: World, batch: Batch) -> None:
    """Assert that the result files hold the rows of committed chunks, byte for byte, and besides them those of lines that never ran."""
    output, error = b"", b""
    for chunk in world.memory.chunks.of(batch.ref):
        written = world.bucket.chunks[chunk.key]
        output += written[: chunk.output_bytes]
        error += written[chunk.output_bytes :]
    delivered = _data(world, batch, batch.error_file_id).splitlines()
    ran = [line for line in delivered if not never_ran(msgspec.json.decode(line), batch.ending)]
    assert Counter(output.splitlines()) == Counter(_data(world, batch, batch.output_file_id).splitlines())
    assert Counter(error.splitlines()) == Counter(ran)


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
    data = _data(world, batch, file_id)
    assert world.memory.files.get(batch.space, file_id).bytes == len(data)
    assert data or CONTRACTS[batch.contract].both_files
    assert data[-1:] in {b"", b"\n"}
    return [msgspec.json.decode(line) for line in data.split(b"\n") if line]


def never_ran(row: Any, ending: Ending | None) -> bool:
    """Whether it is the row of a line that had none when the batch was ended."""
    if row["error"] is None or ending is None:
        return False
    return (row["error"]["code"], row["error"]["message"]) == UNANSWERED[ending]


def _kept(world: World) -> list[str]:
    """Give the keys of what is to stay: a chunk of a zombie that came too late for the end of its batch may lie about, or be removed."""
    return [key for key in world.bucket.keys("orgs/") if "/chunks/" not in key]


def _data(world: World, batch: Batch, file_id: str | None) -> bytes:
    return b"" if file_id is None else world.bucket.get(paths.file(batch.org, file_id))


def _assert_every_custom_id_once(world: World, batch: Batch, delivered: list[Any]) -> None:
    prompts = world.prompts[batch.ref]
    assert Counter(list(prompts)) == Counter(row["custom_id"] for row in delivered)
    for row in delivered:
        if row["response"] is not None and row["response"]["status_code"] == 200:
            said = row["response"]["body"]["choices"][0]["message"]["content"]
            assert prompts[row["custom_id"]] == said
            assert row["error"] is None
