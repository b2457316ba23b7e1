"""The lifecycle of a batch: every pair of status and event, what an ending is, and the diagram in the README."""

from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from shared.core.errors import Illegal
from shared.core.lifecycle import PUBLISH, Event, advance, diagram, is_terminal
from shared.core.records import Batch, Ending, Status

README = Path(__file__).parents[2] / "README.md"
MARK = "<!-- lifecycle -->"

# Written by hand, not imported: whoever changes the table changes it twice.
EXPECTED = {
    "validating": {
        "admit": "in_progress",
        "reject": "failed",
        "cancel": "cancelling",
        "expire": "finalizing",
        "fault": "finalizing",
    },
    "in_progress": {
        "admit": "in_progress",
        "reject": "failed",
        "drain": "finalizing",
        "cancel": "cancelling",
        "expire": "finalizing",
        "fault": "finalizing",
    },
    "finalizing": {
        "cancel": "finalizing",
        "fault": "finalizing",
        "publish_completed": "completed",
        "publish_failed": "failed",
        "publish_expired": "expired",
    },
    "cancelling": {
        "cancel": "cancelling",
        "fault": "cancelling",
        "reject": "cancelled",
        "publish_cancelled": "cancelled",
    },
    "completed": {},
    "failed": {},
    "expired": {},
    "cancelled": {},
}

PAIRS = list(product(Status, Event))
LEGAL = [(status, event) for status, event in PAIRS if event in EXPECTED[status]]
MOVES = [(status, event) for status, event in LEGAL if EXPECTED[status][event] != status]
STAYS = [pair for pair in LEGAL if pair not in MOVES]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def batch(status: Status) -> Batch:
    """Give a batch in that status."""
    return Batch(
        id="batch_1",
        org="acme",
        contract="openai",
        endpoint="/v1/chat/completions",
        input_file_id="file-1",
        completion_window="24h",
        created_at=100,
        expires_at=900,
        status=status,
    )


def walk(*events: Event) -> Batch:
    """Lead a new batch through the events, at the seconds 101, 102, …."""
    walked = batch(Status.VALIDATING)
    for at, event in enumerate(events, start=101):
        walked = advance(walked, event, at)
    return walked


def stamps(of: Batch) -> dict[str, int]:
    """Give the timestamps that are set."""
    return {name: at for name, at in asdict(of).items() if name.endswith("_at") and at is not None}


@pytest.mark.parametrize(("status", "event"), MOVES)
def test_what_the_table_has_leads_where_it_says(status: Status, event: Event) -> None:
    """A move changes the status, stamps its first second, and leaves everything but the ending as it was."""
    before = batch(status)

    after = advance(before, event, 500)

    target = EXPECTED[status][event]
    assert target == after.status
    assert replace(before, status=Status(target), ending=after.ending, **{f"{target}_at": 500}) == after


@pytest.mark.parametrize(("status", "event"), STAYS)
def test_what_leads_nowhere_changes_nothing(status: Status, event: Event) -> None:
    """An event whose row ends where it began gives the same batch back."""
    before = batch(status)

    assert advance(before, event, 500) is before


@pytest.mark.parametrize(("status", "event"), ILLEGAL)
def test_what_the_table_has_not_is_illegal_and_nothing_moves(status: Status, event: Event) -> None:
    """Every other pair raises Illegal and the batch is what it was."""
    before = batch(status)

    with pytest.raises(Illegal, match=f"{status} cannot {event}"):
        advance(before, event, 500)

    assert batch(status) == before


@pytest.mark.parametrize("status", Status)
def test_terminal_states_and_no_others_have_no_way_out(status: Status) -> None:
    """A batch is terminal exactly when no event is allowed any more."""
    assert (EXPECTED[status] == {}) == is_terminal(batch(status))


def test_no_way_leads_back() -> None:
    """Each status is entered at most once, so that its timestamp is set at most once."""
    entered = {status: {EXPECTED[s][e] for s, e in MOVES if s == status} for status in Status}
    left = set(Status)
    while ends := {status for status in left if not entered[status] & left}:
        left -= ends

    assert set() == left


def test_a_batch_that_runs_through_has_each_timestamp_once() -> None:
    """A second admit and a cancel that comes too late stamp nothing."""
    done = walk(Event.ADMIT, Event.ADMIT, Event.DRAIN, Event.CANCEL, Event.FAULT, Event.PUBLISH_COMPLETED)

    assert {
        "created_at": 100,
        "expires_at": 900,
        "in_progress_at": 101,
        "finalizing_at": 103,
        "completed_at": 106,
    } == stamps(done)


@pytest.mark.parametrize(
    ("first", "ending"),
    [
        (Event.DRAIN, Ending.COMPLETED),
        (Event.CANCEL, Ending.CANCELLED),
        (Event.EXPIRE, Ending.EXPIRED),
        (Event.FAULT, Ending.FAILED),
    ],
)
@pytest.mark.parametrize("later", [Event.CANCEL, Event.FAULT])
def test_the_event_that_ends_the_run_decides_the_ending_once(first: Event, ending: Ending, later: Event) -> None:
    """What comes after it changes nothing, and the batch is published under that ending."""
    ended = walk(Event.ADMIT, first, later)
    published = advance(ended, PUBLISH[ending], 200)

    assert ending == ended.ending
    assert ending == published.ending
    assert ending.value == published.status.value


@pytest.mark.parametrize("event", PUBLISH.values())
def test_cancelled_batches_and_all_others_are_published_through_different_doors(event: Event) -> None:
    """A batch that was cancelled cannot end as anything else, and no other one as cancelled."""
    ended = walk(Event.ADMIT, Event.DRAIN if event is Event.PUBLISH_CANCELLED else Event.CANCEL)

    with pytest.raises(Illegal):
        advance(ended, event, 200)


def test_a_cancel_of_a_bad_file_ends_as_cancelled() -> None:
    """The caller's word came first: the rejection that follows it publishes a cancelled batch."""
    ended = walk(Event.CANCEL, Event.REJECT)

    assert (Status.CANCELLED, Ending.CANCELLED) == (ended.status, ended.ending)
    assert (101, 102) == (ended.cancelling_at, ended.cancelled_at)


def test_a_rejected_batch_has_no_ending() -> None:
    """It never ran: there is no row to write for its lines."""
    assert None is walk(Event.REJECT).ending


def test_the_diagram_in_the_readme_is_the_table() -> None:
    """The README shows what `diagram` draws; when it fails, put that between the marks."""
    _, shown, _ = README.read_text().split(MARK)

    assert f"\n```mermaid\n{diagram()}\n```\n" == shown


def test_the_diagram_has_an_arrow_for_every_row() -> None:
    """Every row of the table is one label of one arrow."""
    arrows = [line.split(": ") for line in diagram().splitlines() if ": " in line]
    drawn = {(ends, event) for ends, events in arrows for event in events.split(", ")}

    assert {(f"    {status} --> {EXPECTED[status][event]}", event) for status, event in LEGAL} == drawn
