"""Admit: a validated batch becomes one in progress, or expires at once when its deadline is over."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.services.pipeline import Next


def admit(services: Services, message: Message) -> Outcome:
    """Let the batch in."""
    services.pipeline.admit(message.ref)
    return Outcome(message.batch, Next.RUN)


handler = entry(admit, Message)
