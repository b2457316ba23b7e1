"""Batches that are driven by hand through the states of the lifecycle, so that a test of the API decides what is committed when."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

from gpu_job.chunks import Committer
from gpu_job.row import Finished
from shared.core import lifecycle, merge, paths, plan, result_line
from shared.core.contracts import CONTRACTS
from shared.core.ids import BatchRef
from shared.core.lifecycle import Event
from shared.core.plan import PlanLine, ShardSize
from shared.core.records import Batch, Shard, ShardState, Usage
from shared.core.window import Timing
from shared.services.finalize import Finalizer
from shared.services.pipeline import Pipeline
from shared.services.validation import Validation
from tests.api import dialects
from tests.api.dialects import chat, jsonl
from tests.api.world import PREFIXES, World
from tests.inline import Inline

MOUNTS = tuple(PREFIXES)
LEASE = 60.0

Content = Callable[[PlanLine], str]


class Run:
    """One batch of acme's, in the world that its API stands on."""

    def __init__(self, world: World, contract: str, batch_id: str, *, shard_lines: int = 3) -> None:
        memory = world.memory
        self.ref = BatchRef("acme", contract, batch_id)
        self._world = world
        self._memory = memory
        self._seqs: dict[int, int] = {}
        stores: Any = {"batches": memory.batches, "blobs": memory.blobs, "clock": world.clock}
        self.validation = Validation(
            multipart=memory.blobs, scans=world.scans, contracts=CONTRACTS, registry=world.registry, **stores
        )
        self.pipeline = Pipeline(
            shards=memory.shards,
            workflow=memory.workflow,
            fleet=cast("Any", None),  # nobody is asked for: the test is the worker
            registry=world.registry,
            timing=Timing(),
            shard_size=ShardSize(lines=shard_lines),
            **stores,
        )
        self.finalizer = Finalizer(
            shards=memory.shards,
            chunks=memory.chunks,
            multipart=memory.blobs,
            readers=Inline,
            timing=Timing(),
            **stores,
        )

    def begin(self) -> "Run":
        """Go to where workers begin."""
        self.validation.validate(self.ref, until=self._world.time + 1e6)
        if lifecycle.is_terminal(self.batch):
            return self
        self.pipeline.admit(self.ref)
        self.pipeline.plan(self.ref)
        return self

    @property
    def batch(self) -> Batch:
        """The record."""
        return self._memory.batches.get(self.ref)

    def lines(self, shard: int) -> list[PlanLine]:
        """Give the lines of a shard."""
        return plan.decode(self._memory.blobs.get(paths.plan(self.ref, shard))).lines

    def commit(
        self, shard: int, good: Sequence[int] = (), bad: Sequence[int] = (), content: Content | None = None
    ) -> None:
        """Commit a chunk of a shard: answers to the lines at some positions, errors for those at others."""
        held = self._leased(shard)
        lines = self.lines(shard)
        rows = [self._answer(lines[position], position, content) for position in good]
        rows += [self._error(lines[position], position) for position in bad]
        seq = self._seqs.get(shard, 0)
        self._seqs[shard] = seq + 1
        committer = Committer(blobs=self._memory.blobs, log=self._memory.chunks, new_id=self._world.new_id)
        committer.commit(held, seq, rows)

    def answer_all(self, bad: Sequence[str] = ()) -> "Run":
        """Answer every line that has no row yet, those with these custom_ids badly."""
        for shard in self._memory.shards.of(self.ref):
            left = merge.missing(shard.lines, list(self._memory.chunks.of(self.ref, shard.index)))
            lines = self.lines(shard.index)
            wrong = [position for position in left if lines[position].custom_id in bad]
            if left:
                self.commit(shard.index, [position for position in left if position not in wrong], wrong)
        return self

    def end(self, event: Event = Event.DRAIN) -> "Run":
        """End the run, raise the fence, and write the result files."""
        self.stop(event)
        self.publish()
        return self

    def stop(self, event: Event = Event.DRAIN) -> None:
        """End the run and raise the fence."""
        at = int(self._world.time)
        self._memory.batches.update(self.ref, partial(lifecycle.advance, event=event, at=at))
        self.pipeline.close(self.ref)

    def publish(self) -> None:
        """Write the result files."""
        self.finalizer.finalize(self.ref, until=self._world.time + 1e6)

    def file(self, file_id: str | None) -> list[bytes]:
        """Give the rows of a result file."""
        if file_id is None:
            return []
        return self._memory.blobs.get(paths.file(self.ref.org, file_id)).splitlines()

    def delivered(self) -> list[bytes]:
        """Give the rows of both result files."""
        return self.file(self.batch.output_file_id) + self.file(self.batch.error_file_id)

    def _leased(self, index: int) -> Shard:
        shard = self._memory.shards.of(self.ref)[index]
        if shard.state is ShardState.READY:
            shard = self._memory.shards.lease(shard, "worker_1", self._world.time + LEASE)
            self._seqs[index] = 0
        return shard

    def _answer(self, line: PlanLine, position: int, content: Content | None) -> Finished:
        text = content(line) if content else f"answer to {line.custom_id}"
        message = {"role": "assistant", "content": text}
        body = {"model": "tide-7b", "choices": [{"index": 0, "message": message}]}
        data = result_line.answered(self.ref.id, line.line, line.custom_id, body)
        return Finished(position=position, ok=True, data=data, usage=Usage(input_tokens=2, output_tokens=1))

    def _error(self, line: PlanLine, position: int) -> Finished:
        error = {"message": "not so", "type": "invalid_request_error", "param": None, "code": "invalid_request"}
        rules = CONTRACTS[self.ref.contract]
        data = result_line.failed(self.ref.id, line.line, line.custom_id, contract=rules, status=400, error=error)
        return Finished(position=position, ok=False, data=data)


def running(
    world: World, contract: str, lines: int = 6, *, shard_lines: int = 3, custom_id: str = "row-{}", **fields: Any
) -> Run:
    """Create a batch of so many lines under a contract, and bring it to where workers begin."""
    content = jsonl(*(chat(custom_id.format(number)) for number in range(lines)))
    answer = dialects.create(world, contract, content, key=world.new_id("key-"), **fields)
    assert 200 == answer.status_code, answer.text
    return Run(world, contract, answer.json()["id"], shard_lines=shard_lines).begin()


def release(world: World, run: Run, shard: int) -> None:
    """Let the worker of a shard give its lease back."""
    world.memory.shards.release(world.memory.shards.of(run.ref)[shard])
