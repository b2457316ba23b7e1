"""Plan: the file is cut into shards, which queue for workers from then on."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.services.pipeline import Next


def plan(services: Services, message: Message) -> Outcome:
    """Cut the file into shards."""
    batch = services.pipeline.plan(message.ref)
    return Outcome(message.batch, Next.RUN, tick=services.pipeline.tick(batch))


handler = entry(plan, Message)
