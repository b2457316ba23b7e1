"""Sweep: no batch stays without an execution, and what has expired is removed. On a schedule all is looked at; at a failed execution, its batch at once.

The first event is EventBridge's scheduled one; the second its `Step Functions Execution Status Change`, whose `detail.input` names the batch.
"""

from collections.abc import Iterable

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
    """Revive the batch of a failed execution, or every open batch that has none; then remove what has expired."""
    if event.detail.input is not None:
        return {"looked_at": _revive(services, [msgspec.json.decode(event.detail.input, type=Message).ref])}
    looked_at = _revive(services, services.open_batches.open())
    return {"looked_at": looked_at, "expired": services.expiries.sweep()}


def _revive(services: Services, batches: Iterable[BatchRef]) -> int:
    looked_at = 0
    for ref in batches:
        services.pipeline.revive(ref)
        looked_at += 1
    return looked_at


handler = entry(sweep, Event)
