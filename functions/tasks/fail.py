"""Fail: the system could not go on. What was committed is delivered; the rest become `server_error` rows."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry


def fail(services: Services, message: Message) -> Outcome:
    """End the batch as failed."""
    _, then = services.pipeline.fail(message.ref)
    return Outcome(message.batch, then)


handler = entry(fail, Message)
