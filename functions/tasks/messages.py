"""What a task state is given and what it answers: the state of an execution, which names the batch and nothing of its contents."""

import msgspec

from shared.core.ids import BatchRef
from shared.services.pipeline import Next


class Message(msgspec.Struct, frozen=True):
    """The input of a task.

    Attributes:
        batch: The batch, as `BatchRef` writes it: all that an execution is started with.
        rounds: How often this execution has looked at the running batch.
        token: The token of the waiting state (Run only).
        execution: The name of the execution (Reconcile only).

    """

    batch: str
    rounds: int = 0
    token: str | None = None
    execution: str | None = None

    @property
    def ref(self) -> BatchRef:
        """The batch."""
        return BatchRef.parse(self.batch)


class Outcome(msgspec.Struct, frozen=True):
    """The output of a task: where to go, and how many seconds a waiting state that comes next sleeps at most."""

    batch: str
    next: Next
    tick: int = 1
    rounds: int = 0
