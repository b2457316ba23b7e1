"""Validate: the file is judged by its scan; a bad one rejects the batch with every line error. While the file is still being scanned, the state comes again."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.core.lifecycle import is_terminal
from shared.core.records import Batch
from shared.services.pipeline import Next

SECONDS = 240.0
"""How long one call scans; the rest of what its Lambda may take is for one last step and the judgement."""


def validate(services: Services, message: Message) -> Outcome:
    """Judge the batch; go on to Admit unless it has ended."""
    batch = services.validation.validate(message.ref, until=services.clock() + SECONDS)
    return Outcome(message.batch, _next(batch))


def _next(batch: Batch) -> Next:
    if is_terminal(batch):
        return Next.NOTIFY
    return Next.SCAN if batch.revision is None else Next.ADMIT


handler = entry(validate, Message)
