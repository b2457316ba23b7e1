"""Sweep: no batch is left without an execution. On a schedule it looks at all open ones; at an execution that failed, at that batch at once.

The first event is EventBridge's scheduled one; the second its `Step Functions Execution Status Change`, whose `detail.input` names the batch.
"""

from collections.abc import Iterator

import msgspec

from functions.tasks.messages import Message
from functions.tasks.wiring import Services, entry
from shared.core.ids import BatchRef


class Detail(msgspec.Struct, frozen=True):
    """The part of a status change that matters: what the execution was started with."""

    input: str | None = None


class Event(msgspec.Struct, frozen=True):
    """A scheduled event (without an execution's detail) or a status change."""

    detail: Detail = Detail()


def sweep(services: Services, event: Event) -> dict[str, int]:
    """Revive the batch of a failed execution, or every open batch that has none."""
    looked_at = 0
    for ref in _batches(services, event):
        services.pipeline.revive(ref)
        looked_at += 1
    return {"looked_at": looked_at}


def _batches(services: Services, event: Event) -> Iterator[BatchRef]:
    if event.detail.input is not None:
        yield msgspec.json.decode(event.detail.input, type=Message).ref
    else:
        yield from services.open_batches.open()


handler = entry(sweep, Event)
