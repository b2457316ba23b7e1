"""Close: the fence. No row is committed after it, so that what Finalize reads cannot change."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.services.pipeline import Next


def close(services: Services, message: Message) -> Outcome:
    """Raise the fence."""
    services.pipeline.close(message.ref)
    return Outcome(message.batch, Next.FINALIZE)


handler = entry(close, Message)
