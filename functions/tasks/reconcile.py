"""Reconcile: after every wake-up and every tick, look at the batch and say whether it runs on."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry


def reconcile(services: Services, message: Message) -> Outcome:
    """Look at the running batch."""
    batch, then = services.pipeline.reconcile(message.ref, message.rounds)
    return Outcome(message.batch, then, tick=services.pipeline.tick(batch), rounds=message.rounds + 1)


handler = entry(reconcile, Message)
