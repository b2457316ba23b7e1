"""Files: what callers upload, and what batches leave for them.

A file past its time is gone at once for everyone who asks, whether or not its bytes have been swept yet; but a file that a live
batch needs does not expire under it.
"""

from collections.abc import Iterator

from shared.core import ids, paths
from shared.core.contract import Contract
from shared.core.errors import Conflict, NotFound, Refused
from shared.core.ids import Space
from shared.core.records import File
from shared.core.window import Timing
from shared.ports import BlobInfo, Blobs, Clock, FileStore, Multipart, NewId
from shared.services import page
from shared.services.intake import INPUT, Intake, check_purpose
from shared.services.page import Page

UNNAMED = "upload.jsonl"


class Files:
    """The files of every space."""

    def __init__(
        self, *, store: FileStore, blobs: Blobs, multipart: Multipart, timing: Timing, clock: Clock, new_id: NewId
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._multipart = multipart
        self._timing = timing
        self._clock = clock
        self._new_id = new_id

    def begin(
        self, space: Space, contract: Contract, filename: str | None = None, purpose: str | None = None
    ) -> Intake:
        """Begin an upload; a purpose that is known already is checked now rather than at the end.

        Refused `invalid_file_format` when the name does not end as the contract wants, `invalid_request` for the purpose.
        """
        if purpose is not None:
            check_purpose(purpose)
        name = filename or UNNAMED
        if not name.endswith(contract.file_suffix):
            message = f"The name of the file must end with {contract.file_suffix}: one request per line, as JSON."
            raise Refused("invalid_file_format", message, param="file")
        draft = File(
            id=self._new_id(ids.FILE),
            org=space.org,
            contract=space.contract,
            bytes=0,
            filename=name,
            purpose=INPUT,
            created_at=int(self._clock()),
        )
        return Intake(draft, contract, self._timing, store=self._store, blobs=self._blobs, multipart=self._multipart)

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
        self._blobs.delete(paths.file(file.org, file.id))
        self._blobs.delete(paths.scan(file.org, file.id))

    def stat(self, file: File) -> BlobInfo:
        """Give the size and ETag of a file's bytes; NotFound."""
        return self._blobs.stat(paths.file(file.org, file.id))

    def read(self, file: File, start: int, end: int) -> Iterator[bytes]:
        """Give a file's bytes from `start` to before `end`, in pieces; NotFound."""
        return self._blobs.stream(paths.file(file.org, file.id), start, end)

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


def _missing(file_id: str) -> NotFound:
    return NotFound(f"there is no file {file_id!r}")
