"""The ports: what the services need from the world, as small protocols.

Each method says what is atomic, what a repetition does, and which of `shared.core.errors` it raises. Every method may also raise Unavailable: then
it is unknown whether the call took effect. Stores hand out and keep values, never shared objects.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from shared.core.ids import BatchRef, Space
from shared.core.records import ApiKey, Batch, Chunk, File, Shard, Stored, Upload, Workers
from shared.core.room import ENDLESS, Room

Clock = Callable[[], float]
"""Unix seconds."""

NewId = Callable[[str], str]
"""A new id with this prefix; later ids sort after earlier ones."""


class IdempotencyKey(msgspec.Struct, frozen=True):
    """The caller's key of a create, and the hash of what it asked for."""

    key: str
    request_hash: str


class Terms(NamedTuple):
    """What a create asks for beside its record, None where it does not matter.

    Attributes:
        account_most: The most unfinished batches of the organization, with this one.
        space_most: The most of them in the batch's own space.
        input_until: When the input expires now that a batch has it.

    """

    account_most: int | None = None
    space_most: int | None = None
    input_until: int | None = None


NO_TERMS = Terms()


class Keys(Protocol):
    """The API keys."""

    def find(self, secret_hash: str) -> ApiKey:
        """Give the key with this SHA-256; NotFound when there is none."""

    def put(self, key: ApiKey) -> None:
        """Keep a key; the same key again changes nothing."""


class FileStore(Protocol):
    """The records of files, and how much each space stores, which is counted with every write that makes or removes a file."""

    def put(self, file: File, room: Room = ENDLESS) -> None:
        """Keep a new record if there is room; the very same one again changes nothing. Conflict when another has the id; Full."""

    def get(self, space: Space, file_id: str) -> File:
        """Give the record as last written; NotFound when this space has none."""

    def update(self, space: Space, file_id: str, change: Callable[[File], File]) -> File:
        """Apply a pure change to the latest record, atomically; `change` may run several times. NotFound; what `change` raises."""

    def delete(self, space: Space, file_id: str) -> None:
        """Remove the record unless a live batch holds it, atomically: Conflict then. NotFound when there is none."""

    def page(self, space: Space, *, after: str | None, limit: int, newest_first: bool) -> list[File]:
        """Give up to `limit` records after the id `after` in that order (which need not exist any more)."""

    def stored(self, space: Space) -> Stored:
        """Give what the space stores."""


class UploadStore(Protocol):
    """The records of uploads."""

    def put(self, upload: Upload) -> None:
        """Keep a new record; the very same one again changes nothing. Conflict when another has the id."""

    def get(self, space: Space, upload_id: str) -> Upload:
        """Give the record as last written; NotFound when this space has none."""

    def update(self, space: Space, upload_id: str, change: Callable[[Upload], Upload]) -> Upload:
        """Apply a pure change to the latest record, atomically; `change` may run several times. NotFound; what `change` raises."""

    def complete(self, upload: Upload, file: File, room: Room) -> Upload:
        """Keep the file and mark the upload completed with it, if it is still pending and there is room: all of it or nothing.

        Give the record as it then is: of several completions one wins, and the others see its file. Full.
        """

    def remove(self, upload: Upload) -> None:
        """Remove the record. Idempotent."""


class Due(NamedTuple):
    """A file or an upload that the sweep has to look at."""

    space: Space
    id: str


class Expiries(Protocol):
    """What is over, or was left undone, across organizations: for the sweep alone. May lag by seconds."""

    def due(self, before: float) -> Iterator[Due]:
        """Give the files and uploads that are due before this time (`shared.core.expiry`), the oldest first."""


class BatchStore(Protocol):
    """The records of batches, with their idempotency keys."""

    def create(self, batch: Batch, key: IdempotencyKey | None, terms: Terms = NO_TERMS) -> Batch:
        """Keep a new batch, count it as unfinished, mark the files that it needs as held by it, and bind the key to it: all of it or nothing.

        A key that is bound already gives back its batch where the request hash is the same, and Conflict where it is not. A batch of that
        very id is the one that an earlier call has made, and is given back. NotFound when a file that it needs is gone; Full, with the limit,
        when there are as many unfinished batches as the terms allow.
        """

    def get(self, ref: BatchRef) -> Batch:
        """Give the record as last written; NotFound when this space has none."""

    def update(self, ref: BatchRef, change: Callable[[Batch], Batch]) -> Batch:
        """Apply a pure change to the latest record, atomically, and count the version up; `change` may run several times.

        A change that returns its argument writes nothing. NotFound; what `change` raises.
        """

    def finish(
        self, ref: BatchRef, change: Callable[[Batch], Batch], files: Sequence[File], *, input_until: int | None = None
    ) -> Batch:
        """Apply the change that ends the batch, keep its result files and let go of those that it needed: all of it or nothing. As `update`.

        With `input_until` the input expires then. A change that returns its argument writes nothing: no files, and nothing is let go either.
        """

    def page(self, space: Space, *, after: str | None, limit: int) -> list[Batch]:
        """Give up to `limit` batches older than the id `after`, newest first."""


class OpenBatches(Protocol):
    """The batches that have not ended, across organizations: for the sweep alone. May lag by seconds."""

    def open(self) -> Iterator[BatchRef]:
        """Give each batch that has not ended."""


class Shards(Protocol):
    """The shards of a batch, as the lifecycle sees them. Reads are as last written."""

    def put(self, shards: Sequence[Shard]) -> None:
        """Keep the shards that are not there yet; those that are stay as they are."""

    def of(self, ref: BatchRef) -> list[Shard]:
        """Give all shards of a batch, by index."""

    def drain(self, shard: Shard) -> None:
        """Stop a shard: an open one that nobody leases is closed, a leased one is marked draining. Idempotent."""

    def reclaim(self, shard: Shard, at: float) -> bool:
        """Take the lease of `shard.epoch` away (`shared.core.plan.stalled`); False when that epoch no longer holds it.

        A draining shard is closed: nobody is to lease it again.
        """

    def close(self, shard: Shard) -> None:
        """Close the shard and bump its epoch, whatever its state: the fence. Afterwards no commit of it succeeds. Idempotent."""


class ShardQueue(Protocol):
    """The shards of one model revision, as a worker sees them."""

    def ready(self, revision: str, each: int) -> list[Shard]:
        """Give of each organization that has ready shards the first ones by rank: one at least, and no more than `each`. May lag by a second."""

    def leased(self, revision: str, limit: int | None = None) -> list[Shard]:
        """Give the leased shards, by rank, `limit` of them or all. May lag by a second."""

    def lease(self, shard: Shard, owner: str, until: float) -> Shard:
        """Lease a ready shard at the next epoch; Conflict when another was faster or it is closed. A repetition by the same owner wins.

        Another was faster as well where the shard is ready again, at a later epoch than the copy: look at the queue again.
        """

    def renew(self, shard: Shard, until: float) -> Shard:
        """Let the lease last until then, even if that is sooner, and give the record as it is now; Fenced when it is lost, or has ended with the last line."""

    def release(self, shard: Shard) -> None:
        """Give the lease back, for another worker to take (a draining shard is closed). Nothing happens when it is lost."""


class ChunkLog(Protocol):
    """The committed chunks: what was answered."""

    def commit(self, shard: Shard, chunk: Chunk) -> None:
        """Commit a chunk in one transaction: {the shard is leased at `shard.epoch`; no chunk of that epoch and number exists; counters grow}.

        `shard` is the caller's own copy: as leased, and carried on with `shared.core.plan.committed` after each commit, which tells what the
        transaction makes of it: it takes `shard.bite` over and takes the stalls back; when the last line is answered the shard is done. Repeating the
        very same commit is harmless, for ever. Fenced when the lease is lost or the number is taken by another chunk. A plain Conflict
        when the copy misses a commit of its own lease: one whose answer was lost, to be found first. AssertionError as `committed`.
        """

    def find(self, ref: BatchRef, shard: int, epoch: int, seq: int) -> Chunk | None:
        """Give the committed chunk of that number, as last written, or None."""

    def of(self, ref: BatchRef, shard: int | None = None, *, first: int = 0) -> Iterator[Chunk]:
        """Give the committed chunks of a batch, of its shards from `first` on or of one of them, as last written, by shard, epoch and number."""


class BlobInfo(msgspec.Struct, frozen=True):
    """An object's size and ETag."""

    size: int
    etag: str


class Blobs(Protocol):
    """Objects of the bucket."""

    def put(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:
        """Write an object and give its ETag. With `only_if_absent`: Conflict when there is one already."""

    def get(self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None) -> bytes:
        """Give the bytes from `start` to before `end`, as far as there are any; NotFound; Conflict when the object has another ETag than `etag`."""

    def stream(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Give the same bytes in pieces of about 1 MiB; nothing is read, nor NotFound raised, before the first is asked for."""

    def stat(self, key: str) -> BlobInfo:
        """Give size and ETag; NotFound."""

    def delete(self, prefix: str) -> None:
        """Remove every object whose key begins with `prefix`. Idempotent."""


class Multipart(Protocol):
    """Objects written in parts. All parts but the last have at least 5 MiB."""

    def begin(self, key: str) -> str:
        """Begin an upload and give its id."""

    def part(self, key: str, upload: str, number: int, data: bytes | bytearray) -> None:
        """Write part `number` (from 1); again overwrites it. NotFound when the upload is complete or aborted."""

    def copy(self, key: str, upload: str, number: int, *, source: str, start: int, end: int, etag: str) -> None:
        """Write part `number` from the bytes of another object, inside the store; Conflict when its ETag is another; NotFound."""

    def complete(self, key: str, upload: str) -> BlobInfo:
        """Make the object of all parts. Of an upload that is complete already, give the object; NotFound when there is neither."""

    def abort(self, key: str, upload: str) -> None:
        """Forget the upload and its parts. Idempotent."""


class Inventory(Protocol):
    """What is in the bucket."""

    def objects(self, prefix: str) -> Iterator[tuple[str, BlobInfo]]:
        """Give the objects whose keys begin with `prefix`, by key; as last written."""

    def parts(self, key: str, upload: str) -> list[tuple[int, BlobInfo]]:
        """Give the parts of a multipart upload by number; NotFound when it is complete or aborted."""


class Presigner(Protocol):
    """URLs that let whoever has them do one thing with one object for a while, without credentials. Making one asks nobody."""

    def get_url(self, key: str, *, seconds: int, content_type: str) -> str:
        """Give a URL for GET, with or without a Range; the answer says this content type."""

    def part_url(self, key: str, upload: str, number: int, *, seconds: int) -> str:
        """Give a URL for PUT of part `number` of a multipart upload; its answer has the part's ETag."""


class Elsewhere(Protocol):
    """Objects of other buckets, by `s3://bucket/key`. NotFound also where we may not read."""

    def stat(self, uri: str) -> BlobInfo:
        """Give size and ETag; NotFound."""

    def fetch(self, key: str, upload: str, number: int, *, uri: str, span: tuple[int, int] | None, etag: str) -> None:
        """Write part `number` of an upload of ours from that object, inside the store; Conflict when its ETag is another; NotFound.

        `span` is from where to before where, of an object of more than 5 MiB; None: the whole object.
        """

    def deliver(self, key: str, uri: str) -> None:
        """Copy an object of ours there, over whatever is there. NotFound when there is no such bucket, or we may not write."""


class ScanStarter(Protocol):
    """Starts what scans large files (`shared.services.scans`)."""

    def start(self, space: Space, file_id: str) -> None:
        """Have the file's pending work done soon. Asking again is harmless."""


class Workflow(Protocol):
    """The executions of the lifecycle."""

    def start(self, ref: BatchRef, generation: int) -> bool:
        """Start the execution `{batch id}-{generation}`; nothing happens when it was started before. False when it has ended already."""

    def resume(self, token: str) -> None:
        """Wake the state that waits with this token. A stale token is no error."""


class Fleet(Protocol):
    """Where workers run."""

    def submit(self, revision: str, worker: str) -> str:
        """Ask for one worker and give the job's id."""

    def ended(self, jobs: Sequence[str]) -> set[str]:
        """Give those of the jobs that have ended or are unknown."""


class WorkerTable(Protocol):
    """Which workers each revision has."""

    def get(self, revision: str) -> Workers:
        """Give the record as last written; an empty one when there is none."""

    def update(self, revision: str, change: Callable[[Workers], Workers]) -> Workers:
        """Apply a pure change to the latest record, atomically, and count the version up; `change` may run several times."""
