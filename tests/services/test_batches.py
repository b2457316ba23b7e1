"""Batches when stores and executions fail half-way: a create is its record, a cancel is its record."""

from functools import partial

import msgspec
import pytest

from shared.adapters.memory import Memory
from shared.core import lifecycle
from shared.core.errors import Refused, Unavailable
from shared.core.lifecycle import Event
from shared.core.records import Status
from tests.fakes import Hostile, fail, lose_answer, then
from tests.services.world import ACME, OPENAI, World, ref


def test_a_create_stands_although_its_execution_could_not_be_started() -> None:
    """The sweep starts it: the batch is open and has no execution."""
    memory = Memory()
    world = World(memory, workflow=Hostile(memory.workflow, {"start": [fail]}).port)

    batch = world.batches.create(ACME, OPENAI, world.request())

    assert Status.VALIDATING is batch.status
    assert [batch.ref] == list(memory.batches.open())
    assert [] == memory.workflow.started


def test_a_create_whose_answer_was_lost_gives_its_batch() -> None:
    """The record is there, so the batch is."""
    memory = Memory()
    world = World(memory, batch_store=Hostile(memory.batches, {"create": [lose_answer]}).port)

    batch = world.batches.create(ACME, OPENAI, world.request())

    assert [batch.ref] == list(memory.batches.open())
    assert [(batch.ref, 1)] == memory.workflow.started


def test_a_create_that_never_arrived_is_unavailable_and_makes_nothing() -> None:
    """The caller is told to try again."""
    memory = Memory()
    world = World(memory, batch_store=Hostile(memory.batches, {"create": [fail]}).port)

    with pytest.raises(Unavailable):
        world.batches.create(ACME, OPENAI, world.request())

    assert [] == list(memory.batches.open())


def test_a_repeated_create_starts_the_execution_that_the_first_could_not() -> None:
    """Under one key there is one batch, and then one execution."""
    memory = Memory()
    world = World(memory, workflow=Hostile(memory.workflow, {"start": [fail]}).port)
    request = world.request()

    first = world.batches.create(ACME, OPENAI, request, "key")
    again = world.batches.create(ACME, OPENAI, request, "key")

    assert first == again
    assert [(first.ref, 1)] == memory.workflow.started


def test_a_repeated_create_of_an_ended_batch_starts_nothing() -> None:
    """Its execution has run."""
    world = World()
    request = world.request()
    batch = world.batches.create(ACME, OPENAI, request, "key")
    world.memory.batches.update(batch.ref, partial(lifecycle.advance, event=Event.REJECT, at=1))
    world.memory.workflow.started.clear()

    assert Status.FAILED is world.batches.create(ACME, OPENAI, request, "key").status
    assert [] == world.memory.workflow.started


def test_one_key_in_two_organizations_is_two_keys() -> None:
    """Keys are the organization's."""
    world = World()
    mine = world.batches.create(ACME, OPENAI, world.request(), "key")
    space = ACME._replace(org="other")
    intake = world.files.begin(space, OPENAI)
    intake.write(b"{}\n")
    file = intake.finish(purpose="batch")

    theirs = world.batches.create(space, OPENAI, world.request(input_file_id=file.id), "key")

    assert mine.id != theirs.id


def test_a_cancel_stands_although_nobody_could_be_woken() -> None:
    """Whoever waits looks again by himself."""
    memory = Memory()
    world = World(memory, workflow=Hostile(memory.workflow, {"resume": [fail]}).port)
    batch = world.batches.create(ACME, OPENAI, world.request())
    memory.batches.update(batch.ref, lambda batch: msgspec.structs.replace(batch, token="waiting"))

    assert Status.CANCELLING is world.batches.cancel(batch.ref).status
    assert Status.CANCELLING is memory.batches.get(batch.ref).status


def test_a_batch_that_ends_while_it_is_being_cancelled_has_ended() -> None:
    """The end came first."""
    memory = Memory()
    world = World(memory)
    batch = world.batches.create(ACME, OPENAI, world.request())

    def end() -> None:
        memory.batches.update(batch.ref, partial(lifecycle.advance, event=Event.REJECT, at=1))

    late = World(memory, batch_store=Hostile(memory.batches, {"get": [then(end)]}).port)
    with pytest.raises(Refused, match="cannot be cancelled"):
        late.batches.cancel(batch.ref)

    assert Status.FAILED is memory.batches.get(batch.ref).status


def test_a_cancel_while_results_are_written_changes_nothing() -> None:
    """The ending is decided; the caller sees it."""
    world = World()
    batch = world.batches.create(ACME, OPENAI, world.request())
    for event in (Event.ADMIT, Event.DRAIN):
        world.memory.batches.update(batch.ref, partial(lifecycle.advance, event=event, at=1))

    assert Status.FINALIZING is world.batches.cancel(batch.ref).status


def test_a_batch_of_nobody_has_no_progress() -> None:
    """A reference that cannot be an id is not even looked for."""
    memory = Memory()
    store = Hostile(memory.batches, {})
    world = World(memory, batch_store=store.port)

    for invented in ("", "batch_", "file-1", "batch_a/b", "batch_" + "x" * 65):
        with pytest.raises(Exception, match="there is no batch"):
            world.batches.get(ref(invented))

    assert [] == store.calls
