"""DynamoDB's answers get lost, come late, and say that another transaction is in the way: what the adapter makes of it.

The faults are those of the client that the adapter calls, so that moto has them in full effect.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.chunks import DynamoChunkLog
from shared.adapters.dynamodb.dynamo import BUSY_TRIES, Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.shards import DynamoShards
from shared.adapters.dynamodb.workers import DynamoWorkers
from shared.core.errors import Conflict, NotFound, Unavailable
from shared.core.plan import committed
from shared.core.records import Batch, File, Shard, Status
from shared.ports import IdempotencyKey
from tests.contracts.conftest import Aws
from tests.contracts.samples import REF, REVISION, SPACE, batch, chunk, file, shard
from tests.fakes import Call, Fault, Hostile, duplicate, fail, lose_answer, ok, then

Script = dict[str, Sequence[Fault]]
KEY = IdempotencyKey("once", "hash")


class Through:
    """The stores over a client that meets faults, and over one that does not."""

    def __init__(self, client: Any, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self.pauses: list[float] = []
        self.files = DynamoFiles(self.dynamo({}), prefix)
        self.batches = DynamoBatches(self.dynamo({}), prefix)
        self.shards = DynamoShards(self.dynamo({}), prefix)
        self.chunks = DynamoChunkLog(self.dynamo({}), prefix)

    def dynamo(self, script: Script) -> Dynamo:
        """Give a DynamoDB with these faults; it does not sleep but notes how long it would have."""
        return Dynamo(Hostile(self._client, script).port, sleep=self.pauses.append, random=lambda: 1.0)

    def hostile_files(self, script: Script) -> DynamoFiles:
        """Give the files with faults."""
        return DynamoFiles(self.dynamo(script), self._prefix)

    def hostile_batches(self, script: Script) -> DynamoBatches:
        """Give the batches with faults."""
        return DynamoBatches(self.dynamo(script), self._prefix)

    def hostile_chunks(self, script: Script) -> DynamoChunkLog:
        """Give the chunks with faults."""
        return DynamoChunkLog(self.dynamo(script), self._prefix)

    def hostile_shards(self, script: Script) -> DynamoShards:
        """Give the shards with faults."""
        return DynamoShards(self.dynamo(script), self._prefix)

    def hostile_workers(self, script: Script) -> DynamoWorkers:
        """Give the workers with faults."""
        return DynamoWorkers(self.dynamo(script), self._prefix)


@pytest.fixture
def through(aws: Aws, prefix: str) -> Through:
    """Give the stores; a file and a batch's shard are there."""
    stores = Through(aws.client("dynamodb"), prefix)
    stores.files.put(file())
    stores.shards.put([shard()])
    return stores


def bigger(old: File) -> File:
    """Change a file, so that doing it twice would show."""
    return replace(old, bytes=old.bytes + 1)


def in_the_way(_: Call) -> Any:
    """Say what DynamoDB says when another transaction works on the item."""
    answer: Any = {
        "Error": {"Code": "TransactionCanceledException"},
        "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
    }
    raise ClientError(answer, "TransactWriteItems")


def does_not_hold(_: Call) -> Any:
    """Say what DynamoDB says when a condition does not hold, though a look afterwards finds nothing amiss."""
    answer: Any = {
        "Error": {"Code": "TransactionCanceledException"},
        "CancellationReasons": [{"Code": "ConditionalCheckFailed"}, {"Code": "None"}],
    }
    raise ClientError(answer, "TransactWriteItems")


def test_a_create_that_others_were_always_faster_than_may_be_tried_again(through: Through) -> None:
    """It is no conflict of the key's: nothing is known that would not go away."""
    batches = through.hostile_batches({"transact_write_items": [does_not_hold] * 3})
    with pytest.raises(Unavailable):
        batches.create(batch(), KEY)
    assert [] == through.batches.page(SPACE, after=None, limit=9)
    assert "batch_1" == batches.create(batch(), KEY).id


def test_a_change_whose_answer_was_lost_is_found_and_made_once(through: Through) -> None:
    """The record read back has our name as its writer."""
    files = through.hostile_files({"put_item": [lose_answer]})
    assert replace(file(), bytes=13, version=1) == files.update(SPACE, "file-1", bigger)
    assert replace(file(), bytes=13, version=1) == through.files.get(SPACE, "file-1")


def test_a_change_that_the_sdk_repeats_is_made_once(through: Through) -> None:
    """The repetition meets the condition that the first attempt has made false."""
    files = through.hostile_files({"put_item": [duplicate]})
    assert replace(file(), bytes=13, version=1) == files.update(SPACE, "file-1", bigger)


def test_a_change_that_never_arrived_is_unavailable(through: Through) -> None:
    """It is not tried again: whoever called may."""
    files = through.hostile_files({"put_item": [fail]})
    with pytest.raises(Unavailable):
        files.update(SPACE, "file-1", bigger)
    assert file() == through.files.get(SPACE, "file-1")


def test_a_change_whose_look_back_fails_too_is_unavailable(through: Through) -> None:
    """Nothing is known then."""
    files = through.hostile_files({"put_item": [lose_answer], "get_item": [ok, fail]})
    with pytest.raises(Unavailable):
        files.update(SPACE, "file-1", bigger)


def test_a_change_that_loses_a_race_is_applied_to_what_the_winner_wrote(through: Through) -> None:
    """Between our read and our write, another writes."""
    theirs = then(lambda: through.files.update(SPACE, "file-1", bigger))
    files = through.hostile_files({"get_item": [theirs, theirs]})
    assert replace(file(), bytes=15, version=3) == files.update(SPACE, "file-1", bigger)


def test_a_change_that_always_loses_is_a_conflict_in_the_end(through: Through) -> None:
    """With pauses that grow, but not without bound."""
    theirs = then(lambda: through.files.update(SPACE, "file-1", bigger))
    files = through.hostile_files({"get_item": [theirs] * 20})
    with pytest.raises(Conflict):
        files.update(SPACE, "file-1", bigger)
    assert 20 == through.files.get(SPACE, "file-1").version
    assert sorted(through.pauses) == through.pauses
    assert max(through.pauses) < 1


def test_a_put_of_a_file_that_the_sdk_repeats_is_no_conflict(through: Through) -> None:
    """The record that is there is ours."""
    through.hostile_files({"put_item": [duplicate]}).put(file("file-2"))
    assert file("file-2") == through.files.get(SPACE, "file-2")


def test_two_first_changes_of_a_record_are_both_made(through: Through) -> None:
    """Even one that has to be made first, and whose answer was lost."""
    workers = through.hostile_workers({"put_item": [lose_answer, duplicate]})
    for _ in range(2):
        workers.update(REVISION, lambda old: replace(old, failures=old.failures + 1))
    assert (2, 2) == (workers.get(REVISION).failures, workers.get(REVISION).version)


@pytest.mark.parametrize("fault", [lose_answer, duplicate])
@pytest.mark.parametrize("key", [None, KEY])
def test_a_create_whose_answer_was_lost_made_one_batch(
    through: Through, fault: Fault, key: IdempotencyKey | None
) -> None:
    """What is there says so."""
    batches = through.hostile_batches({"transact_write_items": [fault]})
    assert batch() == batches.create(batch(), key)
    assert [batch()] == through.batches.page(SPACE, after=None, limit=9)
    assert ("batch_1",) == through.files.get(SPACE, "file-1").held_by


def test_a_create_that_never_arrived_has_made_nothing(through: Through) -> None:
    """Nor has it used its key up."""
    batches = through.hostile_batches({"transact_write_items": [fail]})
    with pytest.raises(Unavailable):
        batches.create(batch(), KEY)
    with pytest.raises(NotFound):
        through.batches.get(REF)
    assert "batch_2" == batches.create(batch("batch_2"), KEY).id


@pytest.mark.parametrize("fault", [lose_answer, duplicate])
def test_an_end_whose_answer_was_lost_ended_the_batch_once(through: Through, fault: Fault) -> None:
    """All of it: record, files, input."""
    through.batches.create(batch(), None)
    batches = through.hostile_batches({"transact_write_items": [fault]})

    def ended(old: Batch) -> Batch:
        return replace(old, status=Status.FAILED, generation=old.generation + 1)

    after = batches.finish(REF, ended, [file("file-out")])
    assert replace(ended(batch()), version=1) == after
    assert after == through.batches.get(REF)
    assert file("file-out") == through.files.get(SPACE, "file-out")
    assert () == through.files.get(SPACE, "file-1").held_by


def test_a_batch_ends_even_if_its_input_is_gone(through: Through) -> None:
    """It should not be, but a batch that cannot end would be worse."""
    through.batches.create(batch(), None)
    through.files.update(SPACE, "file-1", lambda old: replace(old, held_by=()))
    through.files.delete(SPACE, "file-1")
    ended = through.batches.finish(REF, lambda old: replace(old, status=Status.FAILED), ())
    assert Status.FAILED is ended.status
    with pytest.raises(NotFound):
        through.files.get(SPACE, "file-1")


def leased(through: Through) -> Shard:
    """Lease the shard."""
    return through.shards.lease(shard(), "worker_1", 60)


def test_a_commit_whose_answer_was_lost_is_unavailable_and_found(through: Through) -> None:
    """It is never repeated on its own; the very same commit again finds itself."""
    mine = leased(through)
    chunks = through.hostile_chunks({"transact_write_items": [lose_answer]})
    with pytest.raises(Unavailable):
        chunks.commit(mine, chunk(mine))
    assert chunk(mine) == chunks.find(REF, 0, 1, 0)
    chunks.commit(mine, chunk(mine))
    assert [committed(mine, chunk(mine))] == through.shards.of(REF)


def test_a_commit_that_never_arrived_is_unavailable_and_not_found(through: Through) -> None:
    """The very same commit again makes it."""
    mine = leased(through)
    chunks = through.hostile_chunks({"transact_write_items": [fail]})
    with pytest.raises(Unavailable):
        chunks.commit(mine, chunk(mine))
    assert chunks.find(REF, 0, 1, 0) is None
    assert [mine] == through.shards.of(REF)
    chunks.commit(mine, chunk(mine))
    assert [committed(mine, chunk(mine))] == through.shards.of(REF)


def test_a_commit_that_the_sdk_repeats_counts_once(through: Through) -> None:
    """Also when it made the shard done, so that the repetition finds no lease."""
    mine = leased(through)
    whole = chunk(mine, completed=10, failed=0)
    through.hostile_chunks({"transact_write_items": [duplicate]}).commit(mine, whole)
    assert [committed(mine, whole)] == through.shards.of(REF)


def test_a_commit_and_its_repetition_carry_one_token(through: Through) -> None:
    """By it DynamoDB knows a commit that arrives again for what it is; the next commit has another."""
    tokens = []

    def note(call: Any) -> Any:
        tokens.append(call.keywords.get("ClientRequestToken"))
        return call()

    mine = leased(through)
    chunks = through.hostile_chunks({"transact_write_items": [note] * 3})
    chunks.commit(mine, chunk(mine))
    chunks.commit(mine, chunk(mine))
    chunks.commit(committed(mine, chunk(mine)), chunk(mine, 1))
    assert None not in tokens
    assert [True, False] == [token == tokens[0] for token in tokens[1:]]


def test_a_commit_that_meets_a_heartbeat_is_made(through: Through) -> None:
    """A transaction that was cancelled because another was in the way had no effect, and is tried again."""
    mine = leased(through)
    chunks = through.hostile_chunks({"transact_write_items": [in_the_way, in_the_way]})
    chunks.commit(mine, chunk(mine))
    assert [committed(mine, chunk(mine))] == through.shards.of(REF)
    assert [0.02, 0.04] == through.pauses


def test_a_commit_that_always_meets_another_is_unavailable(through: Through) -> None:
    """After a few tries it is the worker's to try again."""
    mine = leased(through)
    chunks = through.hostile_chunks({"transact_write_items": [in_the_way] * BUSY_TRIES})
    with pytest.raises(Unavailable):
        chunks.commit(mine, chunk(mine))
    assert [mine] == through.shards.of(REF)


@pytest.mark.parametrize("fault", [lose_answer, duplicate])
def test_a_lease_whose_answer_was_lost_is_held(through: Through, fault: Fault) -> None:
    """And counted as one epoch."""
    held = through.hostile_shards({"put_item": [fault]}).lease(shard(), "worker_1", 60)
    assert (1, "worker_1") == (held.epoch, held.owner)
    assert [held] == through.shards.of(REF)


@pytest.mark.parametrize("fault", [lose_answer, duplicate])
def test_a_reclaim_whose_answer_was_lost_says_that_it_was_made(through: Through, fault: Fault) -> None:
    """And counts one stall."""
    mine = leased(through)
    assert through.hostile_shards({"put_item": [fault]}).reclaim(mine, 70)
    assert 1 == through.shards.of(REF)[0].stalls


def test_what_aws_says_that_we_do_not_know_is_raised_as_it_is(through: Through) -> None:
    """A missing table is a mistake of the deployment: it is not hidden behind an error of ours."""
    elsewhere = DynamoFiles(through.dynamo({}), "nowhere")
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        elsewhere.get(SPACE, "file-1")
