"""Validate, where the file of the batch is still to be scanned."""

import pytest

from shared.core.contracts import CONTRACTS
from shared.core.records import Batch, Status
from shared.services.validation import Validation
from tests.services.test_scans import CONTENT, FOREVER, LEG, SECTION, uploaded
from tests.services.world import ACME, OPENAI, START, World, lines


def validation(world: World) -> Validation:
    """Give the state over a world."""
    return Validation(
        batches=world.memory.batches,
        blobs=world.memory.blobs,
        multipart=world.memory.blobs,
        scans=world.scans,
        contracts=CONTRACTS,
        registry=world.registry,
        clock=world.clock,
    )


def batch_of(world: World, content: bytes) -> Batch:
    """Create a batch of a file that is still to be put together and scanned."""
    return world.batches.create(ACME, OPENAI, world.request(uploaded(world, content).id))


def test_a_batch_may_be_made_of_a_file_that_is_not_scanned_yet() -> None:
    """It validates once the scan is there, and knows its total then."""
    world = World(leg_bytes=LEG)
    batch = batch_of(world, lines(300))
    assert (Status.VALIDATING, 0) == (batch.status, batch.counts.total)

    done = validation(world).validate(batch.ref, until=FOREVER)

    assert ("echo", 300) == (done.model, done.counts.total)


def test_a_batch_waits_while_another_scans_its_file() -> None:
    """Neither accepted nor rejected: the state comes again."""
    world = World(leg_bytes=LEG)
    batch = batch_of(world, lines(300))
    world.scans._claim(ACME, batch.input_file_id)

    waiting = validation(world).validate(batch.ref, until=FOREVER)

    assert (Status.VALIDATING, None) == (waiting.status, waiting.revision)
    world.time += 61  # the other one is dead
    assert validation(world).validate(batch.ref, until=FOREVER).revision is not None


def test_a_batch_whose_file_takes_longer_than_a_call_is_validated_by_the_calls_after() -> None:
    """Each goes on where the last one stopped."""
    world = World(leg_bytes=LEG)
    batch = batch_of(world, CONTENT[3:])

    assert validation(world).validate(batch.ref, until=START).revision is None
    assert Status.FAILED == validation(world).validate(batch.ref, until=FOREVER).status


@pytest.mark.parametrize(
    ("content", "code"),
    [(lines(99).decode().encode("utf-16"), "invalid_encoding"), (b"\n" * 999, "empty_file")],
)
def test_what_the_scan_refuses_fails_the_batch_with_the_same_code(content: bytes, code: str) -> None:
    """Also the next batch of that file."""
    world = World(leg_bytes=LEG)
    first = batch_of(world, content)
    second = world.batches.create(ACME, OPENAI, world.request(first.input_file_id))

    for batch in (first, second):
        failed = validation(world).validate(batch.ref, until=FOREVER)
        assert (Status.FAILED, [code]) == (failed.status, [error.code for error in failed.errors])
        assert [code] == [error.code for error in world.batches.get(batch.ref).errors]


FORMAT = b'{"format": "batchrouter.sectioned.v1"}'
REQUEST = b'{"custom_id": "%s", "section": "%s", "body": {}}'


@pytest.mark.parametrize("leg_bytes", [60, LEG])
def test_a_sectioned_file_is_validated_by_its_requests(leg_bytes: int) -> None:
    """Sections and the format are no requests."""
    world = World(leg_bytes=leg_bytes)
    content = [FORMAT, SECTION % b"s", REQUEST % (b"a", b"s"), SECTION % b"t", REQUEST % (b"b", b"t")]
    batch = batch_of(world, b"\n".join(content))

    done = validation(world).validate(batch.ref, until=FOREVER)

    assert ("echo", 2) == (done.model, done.counts.total)


def test_a_sectioned_file_with_errors_fails_its_batch_with_all_of_them() -> None:
    """A section of another endpoint than the batch's makes its requests wrong, as plain lines would be."""
    world = World(leg_bytes=60)
    embeddings = b'{"section": "e", "method": "POST", "url": "/v1/embeddings", "body": {"model": "echo", "input": "x"}}'
    content = [
        FORMAT,
        SECTION % b"s",
        SECTION % b"s",
        (SECTION % b"u").replace(b"model", b"mood"),
        REQUEST % (b"a", b"s"),
        REQUEST % (b"b", b"nobody"),
        embeddings,
        REQUEST % (b"c", b"e"),
        REQUEST % (b"a", b"s"),
        (REQUEST % (b"d", b"s")).replace(b"{}", b'{"model": "other"}'),
    ]
    batch = batch_of(world, b"\n".join(content))

    failed = validation(world).validate(batch.ref, until=FOREVER)

    assert Status.FAILED == failed.status
    assert [
        (3, "invalid_request", "section"),
        (4, "invalid_request", "body.mood"),
        (6, "invalid_request", "section"),
        (8, "url_mismatch", "url"),
        (9, "duplicate_custom_id", "custom_id"),
        (10, "mismatched_model", "body.model"),
    ] == [(error.line, error.code, error.param) for error in failed.errors]
