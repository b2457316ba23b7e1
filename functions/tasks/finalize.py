"""Finalize: the result files are written, part by part, and published with the end of the batch."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.core.lifecycle import is_terminal
from shared.services.pipeline import Next

SECONDS = 240.0
"""How long one call writes; its Lambda may take 900 s, and the longest single step is far shorter than what is left."""


def finalize(services: Services, message: Message) -> Outcome:
    """Write as much as fits into one call."""
    batch = services.finalizer.finalize(message.ref, until=services.clock() + SECONDS)
    return Outcome(message.batch, Next.NOTIFY if is_terminal(batch) else Next.FINALIZE)


handler = entry(finalize, Message)
