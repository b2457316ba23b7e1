"""Notify: copy the results to where the caller wants them, and tell who listens that the batch has ended: its operators, by a line of log."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.services.pipeline import Next


def notify(services: Services, message: Message) -> Outcome:
    """Say how the batch ended, in numbers."""
    batch = services.delivery.deliver(message.ref)
    services.ended(batch)
    return Outcome(message.batch, Next.END)


handler = entry(notify, Message)
