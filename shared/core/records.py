"""The records that stores keep. All are frozen: change is a function that returns a new record.

Times are Unix seconds; sizes are bytes; token counts are the engine's own. Prompts and answers are in no record.
"""

from enum import StrEnum
from typing import Any

import msgspec

from shared.core.ids import BatchRef, Space


class Status(StrEnum):
    """The status of a batch, as the API shows it."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


class Ending(StrEnum):
    """How a batch that ran will end. Decided once; it says what row an unanswered line gets."""

    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record: plain values only, so that every store can keep it as it is."""


class Usage(Record, frozen=True, kw_only=True):
    """Tokens, summed over delivered rows."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens - other.input_tokens,
            cached_tokens=self.cached_tokens - other.cached_tokens,
            output_tokens=self.output_tokens - other.output_tokens,
            reasoning_tokens=self.reasoning_tokens - other.reasoning_tokens,
        )


class Prices(Record, frozen=True, kw_only=True):
    """Micro-USD per million tokens."""

    input: int = 0
    cached_input: int = 0
    output: int = 0


class Counts(Record, frozen=True, kw_only=True):
    """`request_counts`: rows that never ran are in `total` only."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class BatchError(Record, frozen=True, kw_only=True):
    """One entry of a batch's `errors`; `line` is the physical line of the input, from 1."""

    code: str
    message: str
    param: str | None = None
    line: int | None = None


class Position(Record, frozen=True, kw_only=True):
    """A place between two lines of an input file: the offset of the next line, how many lines, good and bad, lie before it, and whether a format does."""

    offset: int = 0
    line: int = 0
    requests: int = 0
    errors: int = 0
    sectioned: bool = False


class Pending(Record, frozen=True, kw_only=True):
    """What is still to be done with a file before it is `processed`, and how far that is. A repeated step writes the same bytes to the same place.

    Attributes:
        pieces: Whether the file is still to be put together from the pieces at `shared.core.paths.pieces(org, id)`.
        multipart: The multipart upload that puts it together, once begun.
        part: The number of the next part of that, from 1.
        md5: What the caller says the digest is, in hexadecimal, while that is still to be checked.
        leg: The number of the next leg of the scan, from 0.
        position: Where that leg begins.
        touched: When somebody last worked on it; 0 when nobody does.

    """

    pieces: bool = False
    multipart: str | None = None
    part: int = 1
    md5: str | None = None
    leg: int = 0
    position: Position = Position()
    touched: int = 0


class File(Record, frozen=True, kw_only=True):
    """A file of a space: its bytes are at `shared.core.paths.file(org, id)`.

    Attributes:
        status: `uploaded` while its scan is still to come, then `processed`, or `error` when the scan refused it.
        requests: How many request lines the scan found (inputs only).
        sectioned: Whether it is a sectioned file (`shared.core.sectioned`).
        held_by: The ids of live batches that need this file; while there is one, it cannot be deleted.
        source_batch: The batch whose result this is.
        upload: The upload that it was made of, where its parts are still needed.
        pending: What is still to be done, while the status is `uploaded`.
        refusal: Why the scan refused it.

    """

    id: str
    org: str
    contract: str
    bytes: int
    filename: str
    purpose: str
    created_at: int
    expires_at: int | None = None
    status: str = "processed"
    requests: int | None = None
    sectioned: bool = False
    held_by: tuple[str, ...] = ()
    source_batch: str | None = None
    upload: str | None = None
    pending: Pending | None = None
    refusal: BatchError | None = None
    version: int = 0

    @property
    def space(self) -> Space:
        """Who sees it."""
        return Space(self.org, self.contract)


class UploadStatus(StrEnum):
    """The status of an upload, as the API shows it."""

    PENDING = "pending"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Upload(Record, frozen=True, kw_only=True):
    """A file that comes in parts.

    Attributes:
        bytes: How many the parts must have together.
        lifetime: The seconds that the caller wants the file to live; None lets the contract say.
        status: As last written; a pending upload past `expires_at` has expired all the same.
        file_id: The file it became; with a multipart upload the one that it is to become.
        multipart: The multipart upload whose parts go to the store by signed URLs, where the caller chose that way.

    """

    id: str
    org: str
    contract: str
    bytes: int
    filename: str
    purpose: str
    created_at: int
    expires_at: int
    lifetime: int | None = None
    status: UploadStatus = UploadStatus.PENDING
    file_id: str | None = None
    multipart: str | None = None
    version: int = 0

    @property
    def space(self) -> Space:
        """Who sees it."""
        return Space(self.org, self.contract)


class Stored(Record, frozen=True, kw_only=True):
    """What a space has stored: all its files, and of those the inputs."""

    files: int = 0
    bytes: int = 0
    input_files: int = 0
    input_bytes: int = 0


class Cursor(Record, frozen=True, kw_only=True):
    """Where Finalize stands. Every field follows from what was written before it, so a repeated call repeats the same bytes.

    Attributes:
        phase: The file being written: `output`, then `error`, then `done`.
        upload_id: The multipart upload of that file, once begun.
        part: The number of the next part, from 1.
        piece: The index of the next piece of the file that no part holds yet (`shared.core.merge.pieces`).
        offset: How many bytes of that piece are in earlier parts.
        output_bytes: The output file's size, once written.
        error_bytes: The error file's size, once written.
        too_large: How many answers did not fit into the output file, and are errors instead; `unbilled` is what they used.

    """

    phase: str = "output"
    upload_id: str | None = None
    part: int = 1
    piece: int = 0
    offset: int = 0
    output_bytes: int = 0
    error_bytes: int = 0
    too_large: int = 0
    unbilled: Usage = Usage()


class Batch(Record, frozen=True, kw_only=True):
    """A batch.

    Attributes:
        version: Grows by one with each write; writes are conditional on it.
        generation: Which execution of the lifecycle drives it (executions are named `{id}-{generation}`).
        token: The task token of the state that waits now; a stale one is harmless.
        ending: How it ends, once that is decided.
        shards: How many shards the plan has, once planned.
        counts: `total` from the scan on; the rest final in a terminal state (before, the shards know).
        errors: The first few errors; all of them are at `shared.core.paths.errors(ref)`, `errors_total` says how many.
        drain_until: When Drain stops waiting for leases to be given back.
        private: Whether its model is the organization's own, and paid for by GPU time.
        gpu_ms: The GPU milliseconds that it took, once it has ended.
        prices: The model's prices at the acceptance.
        execution_preference: Where the caller wanted it to run; `execution` is where it runs.
        callback_url: Where its end is told, instead of the account's own place.
        output_lifetime: The seconds that its results live; None lets the contract say.
        output_s3_prefix: Where in S3 its results are copied to.
        output_s3_status: What became of that: `copied` or `failed`; None before.
        retry_of: The batch whose lines it runs again.
        lines_file_id: That batch's error file: only lines that have a row there are run. None: every line of the input.

    """

    id: str
    org: str
    contract: str
    endpoint: str
    input_file_id: str
    completion_window: str
    created_at: int
    expires_at: int
    status: Status
    version: int = 0
    generation: int = 1
    metadata: dict[str, Any] | None = None
    model: str | None = None
    revision: str | None = None
    token: str | None = None
    ending: Ending | None = None
    shards: int | None = None
    counts: Counts = Counts()
    usage: Usage = Usage()
    gpu_ms: int = 0
    errors: tuple[BatchError, ...] = ()
    errors_total: int = 0
    output_file_id: str | None = None
    error_file_id: str | None = None
    drain_until: int | None = None
    private: bool = False
    prices: Prices = Prices()
    execution_preference: str = "auto"
    execution: str = "platform"
    fallback_from_provider: bool = False
    callback_url: str | None = None
    output_lifetime: int | None = None
    output_s3_prefix: str | None = None
    output_s3_status: str | None = None
    retry_of: str | None = None
    lines_file_id: str | None = None
    cursor: Cursor = Cursor()
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None

    @property
    def ref(self) -> BatchRef:
        """Its name in stores, executions and workers."""
        return BatchRef(self.org, self.contract, self.id)

    @property
    def space(self) -> Space:
        """Who sees it."""
        return Space(self.org, self.contract)

    @property
    def needs(self) -> tuple[str, ...]:
        """The files that it holds until it has ended, its input first."""
        return (self.input_file_id,) if self.lines_file_id is None else (self.input_file_id, self.lines_file_id)


class ShardState(StrEnum):
    """Where a shard is: `ready` and `leased` are open; `done` and `closed` take no more commits."""

    READY = "ready"
    LEASED = "leased"
    DONE = "done"
    CLOSED = "closed"


class Shard(Record, frozen=True, kw_only=True):
    """A part of a batch: lines that one worker leases together. Its lines are at `shared.core.paths.plan(ref, index)`.

    Attributes:
        rank: Its place among the shards of its organization in the queue of its revision (`shared.core.turn`).
        tokens: What its lines cost at most, prompts and answers together, by estimate.
        deadline: When its batch expires; `urgent_at` is a day before that.
        epoch: Grows with each lease and with the closing: a commit of another epoch is void.
        draining: Finish what is finished, take no more lines, give the lease back.
        completed: Committed rows of the output file; `failed`: of the error file.
        gpu_ms: GPU milliseconds of the committed rows; see `Chunk`.
        stalls: Leases lost in a row without one commit.
        bite: How many lines may be in the engine at once, once the shard has stalled (`shared.core.plan.stalled`).

    """

    org: str
    contract: str
    batch: str
    index: int
    revision: str
    lines: int
    rank: str
    tokens: int = 0
    deadline: int = 0
    urgent_at: int = 0
    state: ShardState = ShardState.READY
    epoch: int = 0
    owner: str | None = None
    lease_until: float = 0
    draining: bool = False
    completed: int = 0
    failed: int = 0
    usage: Usage = Usage()
    gpu_ms: int = 0
    stalls: int = 0
    bite: int | None = None

    @property
    def ref(self) -> BatchRef:
        """The batch it belongs to."""
        return BatchRef(self.org, self.contract, self.batch)

    @property
    def answered(self) -> int:
        """How many of its lines have a committed row."""
        return self.completed + self.failed


class Chunk(Record, frozen=True, kw_only=True):
    """A committed chunk of finished rows. The object holds the rows of the output file, then those of the error file.

    Attributes:
        key: The object; written once, never changed.
        etag: Its ETag at the writing; readers insist on it.
        bitmap: One bit for each position of the shard (bit 0 of byte 0 is position 0) that has its row here.
        gpu_ms: The milliseconds, times GPUs, that the batch was served by this worker since its last commit there (`gpu_job.meter`).

    """

    shard: int
    epoch: int
    seq: int
    key: str
    etag: str
    output_bytes: int
    error_bytes: int
    completed: int
    failed: int
    usage: Usage
    bitmap: bytes
    gpu_ms: int = 0


class WorkerEntry(Record, frozen=True, kw_only=True):
    """A worker that was asked for: `job` is the fleet's id of it, once known; `served` its engine has run; `closing` it takes no more shards."""

    asked_at: int
    job: str | None = None
    served: bool = False
    closing: bool = False


class Workers(Record, frozen=True, kw_only=True):
    """The workers of one revision: one record, changed conditionally, so that nobody asks for one too many.

    Attributes:
        failures: How many workers in a row ended badly before they could serve; `failed_at` is when the last one did.

    """

    revision: str
    version: int = 0
    workers: dict[str, WorkerEntry] = {}
    failures: int = 0
    failed_at: int = 0


class ApiKey(Record, frozen=True, kw_only=True):
    """A key of an organization, found by the SHA-256 of its secret."""

    org: str
    hash: str
    scopes: tuple[str, ...] = ()
