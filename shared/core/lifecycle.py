"""The lifecycle of a batch, as a table.

Rules:
- Only `advance` changes a status, and only along `TRANSITIONS`. What is not in the table is illegal: `advance` raises and nothing moves.
- Terminal states have no way out.
- The ending is decided once, by the event that ends the run. What comes later (a cancel while the results are written) changes nothing.
- A cancel of a batch whose file turns out to be bad ends as cancelled: the caller's word came first.
"""

from enum import StrEnum

import msgspec

from shared.core.errors import Illegal
from shared.core.records import Batch, Ending, Status


class Event(StrEnum):
    """What can happen to a batch."""

    ADMIT = "admit"  # validated, and there is capacity
    REJECT = "reject"  # its file is refused, or it waited in vain
    CANCEL = "cancel"  # the caller's word
    EXPIRE = "expire"  # the deadline has passed
    DRAIN = "drain"  # every line has its row
    FAULT = "fault"  # the system could not go on
    PUBLISH_COMPLETED = "publish_completed"
    PUBLISH_FAILED = "publish_failed"
    PUBLISH_EXPIRED = "publish_expired"
    PUBLISH_CANCELLED = "publish_cancelled"


TRANSITIONS: dict[tuple[Status, Event], Status] = {
    (Status.VALIDATING, Event.ADMIT): Status.IN_PROGRESS,
    (Status.VALIDATING, Event.REJECT): Status.FAILED,
    (Status.VALIDATING, Event.CANCEL): Status.CANCELLING,
    (Status.VALIDATING, Event.EXPIRE): Status.FINALIZING,
    (Status.VALIDATING, Event.FAULT): Status.FINALIZING,
    (Status.IN_PROGRESS, Event.ADMIT): Status.IN_PROGRESS,
    (Status.IN_PROGRESS, Event.REJECT): Status.FAILED,
    (Status.IN_PROGRESS, Event.DRAIN): Status.FINALIZING,
    (Status.IN_PROGRESS, Event.CANCEL): Status.CANCELLING,
    (Status.IN_PROGRESS, Event.EXPIRE): Status.FINALIZING,
    (Status.IN_PROGRESS, Event.FAULT): Status.FINALIZING,
    (Status.FINALIZING, Event.CANCEL): Status.FINALIZING,
    (Status.FINALIZING, Event.FAULT): Status.FINALIZING,
    (Status.FINALIZING, Event.PUBLISH_COMPLETED): Status.COMPLETED,
    (Status.FINALIZING, Event.PUBLISH_FAILED): Status.FAILED,
    (Status.FINALIZING, Event.PUBLISH_EXPIRED): Status.EXPIRED,
    (Status.CANCELLING, Event.CANCEL): Status.CANCELLING,
    (Status.CANCELLING, Event.REJECT): Status.CANCELLED,
    (Status.CANCELLING, Event.FAULT): Status.CANCELLING,
    (Status.CANCELLING, Event.PUBLISH_CANCELLED): Status.CANCELLED,
}

TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.EXPIRED, Status.CANCELLED})

ENDINGS: dict[Event, Ending] = {
    Event.DRAIN: Ending.COMPLETED,
    Event.CANCEL: Ending.CANCELLED,
    Event.EXPIRE: Ending.EXPIRED,
    Event.FAULT: Ending.FAILED,
}

PUBLISH: dict[Ending, Event] = {
    Ending.COMPLETED: Event.PUBLISH_COMPLETED,
    Ending.FAILED: Event.PUBLISH_FAILED,
    Ending.EXPIRED: Event.PUBLISH_EXPIRED,
    Ending.CANCELLED: Event.PUBLISH_CANCELLED,
}


def advance(batch: Batch, event: Event, at: int) -> Batch:
    """Return the batch after `event` at Unix second `at`; Illegal when the table has no such row.

    The first entry into a status sets its timestamp. The event that ends the run also decides the ending, and
    stamps `finalizing_at` or `cancelling_at`, from which the ids of the result files follow.
    """
    status = TRANSITIONS.get((batch.status, event))
    if status is None:
        raise Illegal(f"a batch that is {batch.status} cannot {event}")
    if status is batch.status:
        return batch
    ending = batch.ending or ENDINGS.get(event)
    return msgspec.structs.replace(batch, status=status, ending=ending, **{f"{status}_at": at})


def is_terminal(batch: Batch) -> bool:
    """Whether the batch has ended."""
    return batch.status in TERMINAL


def diagram() -> str:
    """Draw the table as a Mermaid state diagram: an arrow for each pair of statuses, labelled with its events."""
    arrows: dict[tuple[Status, Status], list[Event]] = {}
    for (status, event), after in TRANSITIONS.items():
        arrows.setdefault((status, after), []).append(event)
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {status}" for status in (Status.VALIDATING, Status.IN_PROGRESS)]  # as the contract says
    lines += [f"    {status} --> {after}: {', '.join(events)}" for (status, after), events in arrows.items()]
    lines += [f"    {status} --> [*]" for status in Status if status in TERMINAL]
    return "\n".join(lines)
