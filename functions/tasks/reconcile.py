"""Reconcile: after every wake-up and every tick, look at the batch and say whether it runs on."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.core import ids


def reconcile(services: Services, message: Message) -> Outcome:
    """Look at the running batch."""
    if message.execution is None:
        raise ValueError("Reconcile was started without the name of its execution")
    batch, then = services.pipeline.reconcile(message.ref, message.rounds, ids.generation(message.execution))
    return Outcome(message.batch, then, tick=services.pipeline.tick(batch), rounds=message.rounds + 1)


handler = entry(reconcile, Message)
