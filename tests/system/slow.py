"""A worker that is played by hand: it leases one shard and commits when the test says so, at any moment of anybody else's work."""

from collections.abc import Iterable

from gpu_job.chunks import Committer
from gpu_job.row import Finished, finish, prepare
from shared.core import paths, plan, request_line
from shared.core.ids import BatchRef
from shared.core.request_line import RequestLine
from tests.system.engine import answer
from tests.system.world import World

LEASE = 60.0


class Slow:
    """The worker. It has leased the shard when it is made."""

    def __init__(self, world: World, ref: BatchRef, index: int = 0, name: str = "slow") -> None:
        self._world = world
        self._seq = 0
        self._committer = Committer(blobs=world.blobs, log=world.chunks, new_id=world.new_id, sleep=world.pass_time)
        shard = world.memory.shards.of(ref)[index]
        self.shard = world.memory.shards.lease(shard, name, world.clock() + LEASE)
        self._plan = plan.decode(world.bucket.get(paths.plan(ref, index)))
        self._rows = [self._row(position) for position in range(shard.lines)]

    def commit(self, positions: Iterable[int]) -> None:
        """Commit the good answers to these lines; Fenced when the lease is lost. The last one wakes the batch."""
        rows = [self._rows[position] for position in positions]
        self.shard = self._committer.commit(self.shard, self._seq, rows)
        self._seq += 1
        self._world.wake.shard_done(self.shard.ref)

    def _row(self, position: int) -> Finished:
        line = self._plan.lines[position]
        raw = self._world.bucket.get(self._plan.input_key, line.offset, line.offset + line.length)
        request = request_line.parse(raw, line.line)
        assert isinstance(request, RequestLine)
        row = prepare(self._plan, position, request, self._world.model)
        return finish(row, answer(request.body["messages"][-1]["content"]))
