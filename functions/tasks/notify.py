"""Notify: tell who listens that the batch has ended. Its operators listen: one line of log and one metric."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.services.pipeline import Next


def notify(services: Services, message: Message) -> Outcome:
    """Say how the batch ended, in numbers."""
    batch = services.batches.get(message.ref)
    services.ended(batch)
    return Outcome(message.batch, Next.END)


handler = entry(notify, Message)
