"""Run: the token is stored, and sent at once when there is nothing to wait for. The state itself waits for the token or its timeout."""

from functions.tasks.messages import Message, Outcome
from functions.tasks.wiring import Services, entry
from shared.services.pipeline import Next


def run(services: Services, message: Message) -> Outcome:
    """Store the token, then look."""
    if message.token is None:
        raise ValueError("Run was started without a task token")
    services.pipeline.run(message.ref, message.token)
    return Outcome(message.batch, Next.RUN)


handler = entry(run, Message)
