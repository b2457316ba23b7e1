"""The commit protocol, step by step, over stores that fail in the middle of it."""

from collections.abc import Sequence
from itertools import count

import pytest

from gpu_job.chunks import Committer
from gpu_job.row import Finished
from shared.adapters.memory import Memory
from shared.core import plan
from shared.core.errors import Conflict, Fenced
from shared.core.records import Shard
from tests.contracts.samples import REF, shard
from tests.fakes import Call, Fault, Hostile, fail, lose_answer

Script = dict[str, Sequence[Fault]]


class Rig:
    """A leased shard, and committers of it."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.memory.shards.put([shard()])
        self.leased = self.memory.shards.lease(shard(), "worker_1", 60)
        self._numbers = count()

    def committer(self, *, blobs: Script | None = None, log: Script | None = None) -> tuple[Committer, list[str]]:
        """Give a committer whose stores meet these faults, and the calls of its chunk log as they come."""
        hostile = Hostile(self.memory.chunks, log or {})
        committer = Committer(
            blobs=Hostile(self.memory.blobs, blobs or {}).port,
            log=hostile.port,
            new_id=lambda prefix: f"{prefix}{next(self._numbers)}",
            sleep=lambda _: None,
        )
        return committer, hostile.calls

    def now(self) -> Shard:
        """Give the shard as it is."""
        return self.memory.shards.of(REF)[0]

    def committed(self) -> list[bytes]:
        """Give the bytes that are committed, chunk by chunk."""
        return [self.memory.blobs.get(chunk.key, etag=chunk.etag) for chunk in self.memory.chunks.of(REF)]


@pytest.fixture
def rig() -> Rig:
    """Give a leased shard."""
    return Rig()


def rows(text: bytes = b"row\n", number: int = 3) -> list[Finished]:
    """Give so many finished rows."""
    return [Finished(position=position, ok=True, data=text) for position in range(number)]


def test_a_commit_is_what_both_sides_know(rig: Rig) -> None:
    """The worker's copy of the shard is the record."""
    committer, calls = rig.committer()
    assert committer.commit(rig.leased, 0, rows()) == rig.now()
    assert [b"row\n" * 3] == rig.committed()
    assert ["commit"] == calls


def test_after_a_lost_answer_the_record_is_looked_for_before_anything_else(rig: Rig) -> None:
    """It is there: nothing is committed again."""
    committer, calls = rig.committer(log={"commit": [lose_answer]})
    assert committer.commit(rig.leased, 0, rows()) == rig.now()
    assert ["commit", "find"] == calls


def test_a_commit_that_never_arrived_is_made_again_once_that_is_known(rig: Rig) -> None:
    """It is not there: the very same one is made."""
    committer, calls = rig.committer(log={"commit": [fail]})
    assert committer.commit(rig.leased, 0, rows()) == rig.now()
    assert ["commit", "find", "commit"] == calls
    assert 1 == len(rig.memory.blobs.keys())


def test_a_chunk_whose_put_lost_its_answer_is_committed(rig: Rig) -> None:
    """The second try finds the object that the first has made."""
    committer, _ = rig.committer(blobs={"put": [lose_answer]})
    committer.commit(rig.leased, 0, rows())
    assert [b"row\n" * 3] == rig.committed()
    assert 1 == len(rig.memory.blobs.keys())


def test_a_put_that_arrives_again_after_the_commit_is_refused(rig: Rig) -> None:
    """The record names the ETag; where a key of KMS encrypts, the same bytes again would have another."""
    puts: list[Call] = []

    def keep(call: Call) -> object:
        puts.append(call)
        return call()

    committer, _ = rig.committer(blobs={"put": [keep]})
    committer.commit(rig.leased, 0, rows())
    with pytest.raises(Conflict):
        puts[0]()


def test_of_two_writers_of_one_lease_one_counts_and_with_its_own_bytes(rig: Rig) -> None:
    """A worker that was taken for dead and started again under its name: both put, the second commits first."""

    def meanwhile(call: Call) -> object:
        rig.committer()[0].commit(rig.leased, 0, rows(b"second\n"))
        return call()

    first, _ = rig.committer(log={"commit": [meanwhile]})
    with pytest.raises(Fenced):
        first.commit(rig.leased, 0, rows(b"first\n", 2))
    assert [b"second\n" * 3] == rig.committed()
    assert plan.committed(rig.leased, next(rig.memory.chunks.of(REF))) == rig.now()
