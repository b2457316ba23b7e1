"""What can go wrong, each kind told apart.

    SlackwaterError
    ├── NotFound        the object is missing, or belongs to somebody else (callers cannot tell which)
    ├── Conflict        somebody else changed the object first; reading again may help
    │   └── Fenced      the lease is lost: another epoch owns the shard, or it was closed; nothing of ours will count again
    ├── Full            a limit of the account stands in the way, until something is deleted or ends
    ├── Illegal         the object's state does not allow the event, ever
    ├── Refused         the caller's input is refused: `code`, `message` and `param` go to the caller as they are
    └── Unavailable     a store or service did not answer or throttled; the effect is unknown, trying again is right

A bad *line* is not an exception but data: `shared.core.request_line.LineError`.
"""

from typing import NamedTuple


class SlackwaterError(Exception):
    """The root of every error that Slackwater raises on purpose."""


class NotFound(SlackwaterError):  # noqa: N818 - reads as what happened
    """The object does not exist for this caller."""


class Conflict(SlackwaterError):  # noqa: N818 - reads as what happened
    """A condition on the object's present state did not hold."""


class Fenced(Conflict):
    """The shard is owned by another epoch, or closed."""


OPEN_BATCHES = "open_batches"
"""The limit of unfinished batches."""


class Limit(NamedTuple):
    """A limit of an account: what it limits, the most, and how much is in use."""

    name: str
    most: int
    used: int


class Full(SlackwaterError):  # noqa: N818 - reads as what happened
    """A limit of the account leaves no room for it: `limit`, where it is known."""

    def __init__(self, message: str, limit: Limit | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class Illegal(SlackwaterError):  # noqa: N818 - reads as what happened
    """The event is not allowed in the object's state."""


class Unavailable(SlackwaterError):  # noqa: N818 - reads as what happened
    """A dependency failed or throttled; whether the call took effect is unknown."""


class Refused(SlackwaterError):  # noqa: N818 - reads as what happened
    """The caller's input is refused.

    Args:
        code: A code of the HTTP contract, e.g. `missing_required_parameter`; it decides the HTTP status.
        message: One sentence for the caller, saying what to do; never contains prompts or answers.
        param: The name of the field at fault, where there is one.
        limit: The limit of the account that stands in the way, where one does.

    """

    def __init__(self, code: str, message: str, *, param: str | None = None, limit: Limit | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.limit = limit
