"""Sweep: no batch is left without an execution. On a schedule it looks at all open ones; at an execution that failed, at that batch at once.

The first event is EventBridge's scheduled one; the second its `Step Functions Execution Status Change`, whose `detail.input` names the batch.
"""

import msgspec

from functions.tasks.messages import Message
from functions.tasks.wiring import Services, entry


class Detail(msgspec.Struct, frozen=True):
    """The part of a status change that matters: what the execution was started with."""

    input: str | None = None


class Event(msgspec.Struct, frozen=True):
    """A scheduled event (without an execution's detail) or a status change."""

    detail: Detail = Detail()


def sweep(services: Services, event: Event) -> dict[str, int]:
    """Revive the batch of a failed execution, or every open batch that has none."""
    if event.detail.input is not None:
        refs = [msgspec.json.decode(event.detail.input, type=Message).ref]
    else:
        refs = list(services.open_batches.open())
    for ref in refs:
        services.pipeline.revive(ref)
    return {"looked_at": len(refs)}


handler = entry(sweep, Event)
