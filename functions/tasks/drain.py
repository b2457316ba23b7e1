"""Drain: no new leases; workers commit what is finished and give theirs back, or lose them to the fence after a while."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry


def drain(services: Services, message: Message) -> Outcome:
    """Stop the leasing; say whether leases are still out."""
    _, then = services.pipeline.drain(message.ref)
    return Outcome(message.batch, then)


handler = entry(drain, Message)
