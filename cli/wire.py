"""The objects that the server sends, as far as the command line reads them.

Fields that are not named here are ignored, and stay in what `--json` prints. An id becomes part of URLs and file
names, so it is checked like everything else: an answer that does not fit these shapes is not Slackwater's.
"""

from typing import Annotated, Any

import msgspec

ID_PATTERN = r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,199}\Z"
COMPLETED = "completed"
CANCELLED = "cancelled"
PENDING = "pending"
ENDED = frozenset({COMPLETED, "failed", "expired", CANCELLED})

Id = Annotated[str, msgspec.Meta(pattern=ID_PATTERN)]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]
"""Unix time, up to the year 9999."""


class RequestCounts(msgspec.Struct, frozen=True):
    """Rows of a batch; rows that never ran are in `total` alone."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class Usage(msgspec.Struct, frozen=True):
    """Tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0


class LineError(msgspec.Struct, frozen=True):
    """Why a line of the input, or the whole of it (`line` is None), was refused."""

    code: str | None = None
    message: str | None = None
    line: int | None = None


class LineErrors(msgspec.Struct, frozen=True):
    """The first errors of a failed batch, and how many there are."""

    data: list[LineError] = []
    total: int | None = None


class Waiting(msgspec.Struct, frozen=True):
    """Why a batch is not running."""

    reason: str | None = None
    since: Seconds | None = None


class Batch(msgspec.Struct, frozen=True):
    """The batch object."""

    id: Id
    status: str
    created_at: Seconds
    endpoint: str | None = None
    model: str | None = None
    completion_window: str | None = None
    input_file_id: Id | None = None
    output_file_id: Id | None = None
    error_file_id: Id | None = None
    expires_at: Seconds | None = None
    completed_at: Seconds | None = None
    failed_at: Seconds | None = None
    expired_at: Seconds | None = None
    cancelled_at: Seconds | None = None
    request_counts: RequestCounts | None = None
    usage: Usage | None = None
    errors: LineErrors | None = None
    metadata: dict[str, Any] | None = None
    slackwater: Waiting | None = None
    gridline: Waiting | None = None

    @property
    def counts(self) -> RequestCounts:
        """The counts; zeros while the server does not know them."""
        return self.request_counts or RequestCounts()

    @property
    def ended(self) -> bool:
        """Whether the status is final."""
        return self.status in ENDED

    @property
    def ended_at(self) -> int | None:
        """Unix second of the end, None before it."""
        return self.completed_at or self.failed_at or self.expired_at or self.cancelled_at

    @property
    def reason(self) -> str | None:
        """Why the batch stands as it does, where the server says more than the status."""
        waiting = self.slackwater or self.gridline
        return waiting.reason if waiting and waiting.reason != self.status else None


class File(msgspec.Struct, frozen=True):
    """The file object."""

    id: Id
    bytes: int


class Upload(msgspec.Struct, frozen=True):
    """The upload object; `file` is what it became."""

    id: Id
    status: str
    file: File | None = None


class Part(msgspec.Struct, frozen=True):
    """A part of an upload."""

    id: Id


class PartUrl(msgspec.Struct, frozen=True):
    """Where a part goes."""

    part_number: int
    url: str


class PartUrls(msgspec.Struct, frozen=True):
    """Where parts go."""

    data: list[PartUrl]


class Results(msgspec.Struct, frozen=True):
    """A page of results, its rows as they came; `next` is None when the batch has ended and there are no more."""

    data: list[msgspec.Raw]
    has_more: bool
    next: str | None
    status: str


class TokenBounds(msgspec.Struct, frozen=True):
    """The most tokens that a file can use."""

    input_tokens: int
    output_tokens: int


class CostBounds(msgspec.Struct, frozen=True):
    """The most that a file can cost: a whole number in digits."""

    unit: str
    total: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,40}\Z")]


class Verdict(msgspec.Struct, frozen=True):
    """What a dry run found; `errors` are the first ones."""

    valid: bool
    requests: int
    usage_bounds: TokenBounds
    model: str | None = None
    errors: LineErrors | None = None
    cost_bounds: CostBounds | None = None


class Page(msgspec.Struct, frozen=True):
    """One page of a list, its objects as they came."""

    data: list[dict[str, Any]]
    has_more: bool = False


class ErrorBody(msgspec.Struct, frozen=True):
    """The inside of the error envelope."""

    message: str
    code: str | None = None


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """What Slackwater answers in place of an object."""

    error: ErrorBody
