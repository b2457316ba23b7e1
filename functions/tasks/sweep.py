"""Sweep: no batch stays without an execution, no file without its scan, and what has expired is removed.

On a schedule all is looked at; at a failed execution, its batch at once.
The first event is EventBridge's scheduled one; the second its `Step Functions Execution Status Change`, whose `detail.input` names the batch.
"""

import msgspec

from functions.tasks.messages import Message
from functions.tasks.wiring import Services, entry
from shared.core.errors import SlackwaterError
from shared.core.ids import BatchRef

EAGER = 10
"""So many executions of a batch follow each other at once; when one after the other fails, the next ones wait for the schedule."""


class Detail(msgspec.Struct, frozen=True):
    """The part of a status change that matters: what the execution was started with."""

    input: str | None = None


class Event(msgspec.Struct, frozen=True):
    """A scheduled event (without an execution's detail) or a status change."""

    detail: Detail = Detail()


def sweep(services: Services, event: Event) -> dict[str, int]:
    """Revive the batch of a failed execution, or every open batch that has none; then see to the files and uploads that are due.

    An error of one batch keeps it from no other; it is raised in the end, so that the call counts as failed and is repeated.
    """
    if event.detail.input is not None:
        ref = msgspec.json.decode(event.detail.input, type=Message).ref
        services.pipeline.revive(ref, at_most=EAGER)
        return {"looked_at": 1}
    outcomes = [_error(services, ref) for ref in services.open_batches.open()]
    expired = services.expiries.sweep()
    for error in outcomes:
        if error is not None:
            raise error
    return {"looked_at": len(outcomes), "expired": expired}


def _error(services: Services, ref: BatchRef) -> SlackwaterError | None:
    try:
        services.pipeline.revive(ref)
    except SlackwaterError as error:
        return error
    return None


handler = entry(sweep, Event)
