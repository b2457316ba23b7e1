"""Files: what callers upload, and what batches leave for them.

A file past its time is gone at once for everyone who asks, whether or not its bytes have been swept yet; but a file that a live
batch needs does not expire under it.
"""

from collections.abc import Iterator

from shared.core import ids, paths
from shared.core.contract import Contract, Judged
from shared.core.errors import Conflict, Full, NotFound, Refused
from shared.core.ids import Space
from shared.core.judge import Judge
from shared.core.models import Registry
from shared.core.records import File
from shared.core.room import Room
from shared.core.window import Timing
from shared.ports import BlobInfo, Blobs, Clock, FileStore, Multipart, NewId, Presigner
from shared.services import page
from shared.services.intake import INPUT, Intake, Keep, check_purpose
from shared.services.page import Page
from shared.services.remains import discard_file

UNNAMED = "upload.jsonl"
NAME_CHARS = 255
"""As long as file systems let a name be; what is longer would also fill the record, and the answers that list it."""


class Files:
    """The files of every space.

    Args:
        store: The records.
        blobs: The bytes.
        multipart: The same, written in parts.
        presigner: Makes URLs for them.
        registry: The models, where a contract judges files at their upload.
        timing: How fast time passes.
        clock: The time.
        new_id: Makes ids.
        account_bytes: The most bytes that an organization may store under a contract that sets no limit; None: any number.

    """

    def __init__(
        self,
        *,
        store: FileStore,
        blobs: Blobs,
        multipart: Multipart,
        presigner: Presigner,
        registry: Registry,
        timing: Timing,
        clock: Clock,
        new_id: NewId,
        account_bytes: int | None = None,
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._multipart = multipart
        self._presigner = presigner
        self._registry = registry
        self._timing = timing
        self._clock = clock
        self._new_id = new_id
        self._account_bytes = account_bytes

    def begin(
        self,
        space: Space,
        contract: Contract,
        filename: str | None = None,
        purpose: str | None = None,
        *,
        keep: Keep | None = None,
    ) -> Intake:
        """Begin an upload; a purpose that is known already is checked now rather than at the end. `keep` writes the record, if it is not to be put.

        Refused `invalid_file_format` when the name does not end as the contract wants, `invalid_request` for the purpose; at the end
        `storage_limit_exceeded`.
        """
        if purpose is not None:
            check_purpose(purpose)
        draft = self.draft(space, contract, filename)
        keep = keep or (lambda file: self.keep(file, contract))
        at_upload = contract.judged is Judged.AT_UPLOAD
        judge = Judge(None, contract, self._registry, space.org) if at_upload else None
        return Intake(
            draft, contract, self._timing, keep=keep, judge=judge, blobs=self._blobs, multipart=self._multipart
        )

    def draft(self, space: Space, contract: Contract, filename: str | None) -> File:
        """Give the record of a new input file, still without its bytes. Refused `invalid_file_format`."""
        file_id = self._new_id(ids.FILE)
        return File(
            id=file_id,
            org=space.org,
            contract=space.contract,
            bytes=0,
            filename=f"{file_id}.jsonl" if contract.names_files else checked_name(filename, contract),
            purpose=INPUT,
            created_at=int(self._clock()),
        )

    def keep(self, file: File, contract: Contract) -> None:
        """Keep the record of a new file; Refused `storage_limit_exceeded`."""
        room = self.room(contract)
        try:
            self._store.put(file, room)
        except Full:
            raise no_room(room) from None

    def room(self, contract: Contract) -> Room:
        """Say how much an organization may store under a contract."""
        own = contract.storage
        return own if own.files is not None or own.bytes is not None else Room(bytes=self._account_bytes)

    def get(self, space: Space, file_id: str) -> File:
        """Give the record; NotFound when the space has none, or its time is over."""
        file = self._record(space, file_id)
        if not self._lives(file):
            raise _missing(file_id)
        return file

    def page(
        self, space: Space, *, after: str | None, limit: int, newest_first: bool = True, purpose: str | None = None
    ) -> Page[File]:
        """Give `limit` files after the file `after`, of one purpose or of any. Refused `invalid_request` when `after` is unknown."""
        if after is not None:
            self._check_cursor(space, after)
        return page.fill(
            lambda after, limit: self._store.page(space, after=after, limit=limit, newest_first=newest_first),
            after,
            limit,
            lambda file: self._lives(file) and purpose in {None, file.purpose},
        )

    def delete(self, space: Space, file_id: str) -> None:
        """Remove a file and its scan; NotFound; Refused `file_in_use` while a live batch needs it.

        Unavailable after the record is gone leaves bytes that nobody can reach; the bucket's lifecycle removes them.
        """
        file = self.get(space, file_id)
        try:
            self._store.delete(space, file.id)  # first: from here on no batch can be made of it
        except Conflict:
            message = "The file is the input of a batch that has not ended. Cancel the batch, or wait for its end."
            raise Refused("file_in_use", message) from None
        discard_file(file, self._blobs, self._multipart)

    def stat(self, file: File) -> BlobInfo:
        """Give the size and ETag of a file's bytes; NotFound."""
        return self._blobs.stat(paths.file(file.org, file.id))

    def read(self, file: File, start: int, end: int) -> Iterator[bytes]:
        """Give a file's bytes from `start` to before `end`, in pieces; NotFound."""
        return self._blobs.stream(paths.file(file.org, file.id), start, end)

    def url(self, file: File, *, seconds: int, content_type: str) -> str:
        """Give a URL for a file's bytes that needs no key, for a while."""
        return self._presigner.get_url(paths.file(file.org, file.id), seconds=seconds, content_type=content_type)

    def _check_cursor(self, space: Space, after: str) -> None:
        try:
            self._record(space, after)  # an expired file still has its place in the order
        except NotFound:
            message = f"'after' names no file: {after!r}. Begin again without it."
            raise Refused("invalid_request", message, param="after") from None

    def _record(self, space: Space, file_id: str) -> File:
        if not ids.could_be(ids.FILE, file_id):
            raise _missing(file_id)
        return self._store.get(space, file_id)

    def _lives(self, file: File) -> bool:
        return bool(file.held_by) or file.expires_at is None or self._clock() < file.expires_at


def checked_name(filename: str | None, contract: Contract, param: str = "file") -> str:
    """Give the name of an uploaded file. Refused `invalid_file_format` when it is too long, or does not end as the contract wants."""
    name = filename or UNNAMED
    if len(name) > NAME_CHARS:
        message = f"The name of the file is longer than {NAME_CHARS} characters. Give it a shorter one."
        raise Refused("invalid_file_format", message, param=param)
    if not name.endswith(contract.file_suffix):
        message = f"The name of the file must end with {contract.file_suffix}: one request per line, as JSON."
        raise Refused("invalid_file_format", message, param=param)
    return name


def no_room(room: Room) -> Refused:
    """Refuse a file for want of room."""
    limits = [f"{room.files} files"] if room.files is not None else []
    limits += [f"{room.bytes} bytes"] if room.bytes is not None else []
    what = "input files" if room.inputs_only else "files"
    message = f"The account's storage is full: it takes {' and '.join(limits)} of {what}. Delete files to make room."
    return Refused("storage_limit_exceeded", message)


def _missing(file_id: str) -> NotFound:
    return NotFound(f"there is no file {file_id!r}")
