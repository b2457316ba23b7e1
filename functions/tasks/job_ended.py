"""A worker's job has ended, well or not: its leases are taken back at once and another worker is asked for where work is left.

The event is EventBridge's `Batch Job State Change`; the job's environment tells revision and worker.
"""

import msgspec

from functions.tasks.wiring import Services, entry


class Variable(msgspec.Struct, frozen=True):
    """One variable of the job's environment."""

    name: str
    value: str


class Container(msgspec.Struct, frozen=True):
    """The job's container."""

    environment: tuple[Variable, ...]


class Detail(msgspec.Struct, frozen=True):
    """The part of the state change that matters."""

    status: str
    container: Container


class Event(msgspec.Struct, frozen=True):
    """A `Batch Job State Change` to SUCCEEDED or FAILED."""

    detail: Detail


def job_ended(services: Services, event: Event) -> dict[str, str]:
    """Act on the end of a worker."""
    environment = {variable.name: variable.value for variable in event.detail.container.environment}
    worker = environment["SLACKWATER_WORKER"]
    failed = event.detail.status == "FAILED"
    services.fleet.gone(environment["SLACKWATER_REVISION"], worker, failed=failed)
    return {"worker": worker}


handler = entry(job_ended, Event)
