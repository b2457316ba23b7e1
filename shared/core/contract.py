"""A contract: the rules of one dialect of the API, as one frozen value.

There is one code path; wherever dialects differ it asks the contract of the mount. Adding a dialect is adding one file
under `shared/core/contracts`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from shared.core.facts import NOTHING, Fact
from shared.core.records import Status
from shared.core.request_line import Limits
from shared.core.room import ENDLESS, Room

MIB = 1 << 20
HOUR = 3600
DAY = 24 * HOUR

LONGEST_LIFE = 365 * DAY
"""Seconds from its creation to the end of a file, however often it is used: what is in the bucket goes by its age some days later."""


class Judged(Enum):
    """When the lines of a file are judged: by the batch's validation, at its create, or at the upload already (and again at the create)."""

    IN_VALIDATION = auto()
    AT_CREATE = auto()
    AT_UPLOAD = auto()


class MetadataRule(Enum):
    """What `metadata` may be: pairs of strings, BatchRouter's assignment fields, or any object."""

    PAIRS = auto()
    ASSIGNMENT = auto()
    ANY = auto()


@dataclass(frozen=True, kw_only=True)
class Contract:
    """The rules that one mount follows. What most dialects share is the default.

    Attributes:
        name: What records call it; the objects made under it are visible under it alone.
        endpoints: What a batch may name, whatever a model would serve besides.
        windows: The completion windows, as written by callers, and their length in seconds.
        windows_listed: Whether a deployment may list others.
        defaults: What a field of a create is where it is left out.
        options: The fields of a create that are taken besides the input, the endpoint, the window and the metadata.
        metadata: What `metadata` may be.
        key_required: Whether a create needs an Idempotency-Key.
        judged: When lines are judged.
        refusals: The codes of a create whose file is refused, by the line's code; `*` stands for all others, and without it the line's own is said.
        inactive_model: The code of a line whose model is one of ours, or of the caller's, that is not active.
        first_status: The status of a new batch.
        no_key: The code of a create whose credential is not an API key.

        file_bytes: The largest input file.
        file_requests: The most request lines of an input file.
        private_requests: The most where the model is the caller's own; None: no fewer.
        line_bytes: The longest line of an input file, in bytes without its newline.
        sectioned: Whether input files may be sectioned (`shared.core.sectioned`).
        file_suffix: What the name of an uploaded file must end with.
        names_files: Whether files get names from us, and the uploaded ones are not kept.
        lists_files: Whether there is a list of files.
        takes_s3: Whether files may come from elsewhere in S3.
        form_seconds: The field of an upload that says in plain seconds how long the file lives; None: there is none.

        custom_id_chars: The longest custom_id, in characters.
        custom_id_bytes: The longest in UTF-8 bytes; None: characters alone count.
        cap_required: Whether a line must say how many tokens it may write.
        cap_default: How many it writes at most where it says nothing; None: what the model allows.
        cap_most: The most that it may ask for; None: the model's own limit applies.
        refused: What a body must not hold.
        n_most: The most answers a request.
        logprobs_most: The most log probabilities a token.
        adapters: How many adapters of one base a batch may mix; 0: one model is one model. None: as many as the base serves.
        row_codes: The codes of failed rows, whose `response` is then null; None: a failed row carries the HTTP answer.

        open_batches: The most unfinished batches of an organization here; None: its account's limit alone.
        deadline_stops: Whether a batch is stopped at `expires_at`, or that is only a forecast.
        cancel_of_ended: Whether a cancel of a batch that ended otherwise is answered with the batch.
        result_bytes: The largest result file; None: no limit.
        both_files: Whether a batch that ran has both result files, be they empty.
        extras: What a batch object shows besides the common fields (`functions.api.extras`).

        storage: How much an organization may store here; without a limit its account's counts.
        input_lifetime: Seconds until an unused input file expires.
        used_lifetime: Seconds past the window of a batch for which its input is kept at least; None: the input's own time counts.
        input_ends_with_batch: Whether an input expires as soon as its batch has ended.
        result_lifetime: Seconds until a result file expires.
        expires_after: The least and the most seconds that a caller may ask a file to live.

        write_scopes: The scopes that a key needs, all of them, to change anything.
        read_scopes: The scopes of which a key needs one to read.

    """

    name: str
    endpoints: tuple[str, ...]
    windows: Mapping[str, int]
    windows_listed: bool = False
    defaults: Mapping[str, str] = field(default_factory=dict)
    options: frozenset[str] = frozenset()
    metadata: MetadataRule = MetadataRule.PAIRS
    key_required: bool = False
    judged: Judged = Judged.IN_VALIDATION
    refusals: Mapping[str, str] = field(default_factory=dict)
    inactive_model: str = "model_not_found"
    first_status: Status = Status.VALIDATING
    no_key: str = "invalid_api_key"

    file_bytes: int
    file_requests: int
    private_requests: int | None = None
    line_bytes: int = 20 * MIB
    sectioned: bool = True
    file_suffix: str = ".jsonl"
    names_files: bool = False
    lists_files: bool = True
    takes_s3: bool = False
    form_seconds: str | None = None

    custom_id_chars: int = 512
    custom_id_bytes: int | None = None
    cap_required: bool = False
    cap_default: int | None = None
    cap_most: int | None = None
    refused: Fact = NOTHING
    n_most: int | None = None
    logprobs_most: int | None = None
    adapters: int | None = 0
    row_codes: frozenset[str] | None = None

    open_batches: int | None = None
    deadline_stops: bool = True
    cancel_of_ended: bool = False
    result_bytes: int | None = None
    both_files: bool = False
    extras: tuple[str, ...] = ()

    storage: Room = ENDLESS
    input_lifetime: int = 30 * DAY
    used_lifetime: int | None = None
    input_ends_with_batch: bool = False
    result_lifetime: int = 30 * DAY
    expires_after: tuple[int, int] = (HOUR, 30 * DAY)

    write_scopes: frozenset[str] = frozenset({"batch:write"})
    read_scopes: frozenset[str] = frozenset({"batch:read", "batch:write"})

    @property
    def line_limits(self) -> Limits:
        """What is allowed of the lines of a file, as far as it is judged when the file is scanned."""
        sectioned = self.sectioned or self.judged is Judged.AT_CREATE
        return Limits(self.line_bytes, self.custom_id_chars, lines=self.file_requests, sectioned=sectioned)

    def refusal(self, code: str) -> str:
        """Give the code of a create that is refused for a line's error."""
        return self.refusals.get(code) or self.refusals.get("*", code)
