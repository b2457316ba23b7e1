"""Validate: the file is judged by its scan; a bad one rejects the batch with every line error."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.core.lifecycle import is_terminal
from shared.services.pipeline import Next


def validate(services: Services, message: Message) -> Outcome:
    """Judge the batch; go on to Admit unless it has ended."""
    batch = services.validation.validate(message.ref)
    return Outcome(message.batch, Next.NOTIFY if is_terminal(batch) else Next.ADMIT)


handler = entry(validate, Message)
