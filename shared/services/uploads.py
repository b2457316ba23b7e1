"""Uploads: files that come in parts, in any order and side by side, and become files when their caller says that they are whole.

A part is an object and nothing else: the list of an upload's objects is the list of its parts. Where the caller sends parts straight to the store, by
signed URLs, they are the parts of the store's own multipart upload.

What becomes of an upload is decided once, in one transaction with the record of its file: of a completion and a cancel, or of two completions at
once, one wins, and each try works on a file of its own until then. A completion that is repeated gives the file that the first one made.

A file of at most `PROMPT_BYTES` is put together and scanned before the completion is answered, in one pass over its parts, by the same intake as any
upload; a larger one, or one that is in the store already, is `uploaded` first (`shared.services.scans`).
"""

from collections.abc import Sequence
from contextlib import suppress
from hashlib import md5
from typing import NamedTuple

import msgspec

from shared.core import assembly, expiry, ids, paths
from shared.core.assembly import Piece
from shared.core.contract import MIB, Contract
from shared.core.errors import Full, NotFound, Refused, SlackwaterError, Unavailable
from shared.core.ids import Space
from shared.core.records import File, Pending, Upload, UploadStatus
from shared.core.window import Timing
from shared.ports import Blobs, Clock, Inventory, Multipart, NewId, Presigner, ScanStarter, UploadStore
from shared.services import upload_parts
from shared.services.files import Files, checked_name, no_room
from shared.services.intake import check_purpose, lifetime, too_large
from shared.services.object_writer import ObjectWriter
from shared.services.part_intake import Part, PartIntake
from shared.services.remains import discard_file, discard_upload
from shared.services.scans import wrong_md5

SECONDS = 3600
PROMPT_BYTES = 256 * MIB
URLS = 1000


class Shown(NamedTuple):
    """An upload as it is now, and the file that it became."""

    upload: Upload
    file: File | None


class NewUpload(NamedTuple):
    """What a caller asks for."""

    filename: str
    purpose: str
    bytes: int
    expires_after: int | None


class PartUrl(NamedTuple):
    """Where a part goes."""

    number: int
    url: str


class Uploads:
    """The uploads of every space. Each method raises NotFound for an upload that the space has not."""

    def __init__(
        self,
        *,
        store: UploadStore,
        files: Files,
        blobs: Blobs,
        multipart: Multipart,
        inventory: Inventory,
        presigner: Presigner,
        scans: ScanStarter,
        timing: Timing,
        clock: Clock,
        new_id: NewId,
        prompt_bytes: int = PROMPT_BYTES,
    ) -> None:
        self._store = store
        self._files = files
        self._blobs = blobs
        self._multipart = multipart
        self._inventory = inventory
        self._presigner = presigner
        self._scans = scans
        self._timing = timing
        self._clock = clock
        self._new_id = new_id
        self._prompt_bytes = prompt_bytes

    def create(self, space: Space, contract: Contract, wanted: NewUpload) -> Shown:
        """Begin an upload. Refused `invalid_request`, `invalid_file_format`, `file_too_large`."""
        check_purpose(wanted.purpose)
        if wanted.bytes < 1:
            raise Refused("integer_below_min_value", "'bytes' must be at least 1.", param="bytes")
        if wanted.bytes > contract.file_bytes:
            raise too_large(contract)
        lifetime(contract, wanted.expires_after)
        now = int(self._clock())
        upload = Upload(
            id=self._new_id(ids.UPLOAD),
            org=space.org,
            contract=space.contract,
            bytes=wanted.bytes,
            filename=checked_name(wanted.filename, contract),
            purpose=wanted.purpose,
            created_at=now,
            expires_at=now + self._timing.seconds(SECONDS),
            lifetime=wanted.expires_after,
        )
        self._store.put(upload)
        return Shown(upload, None)

    def get(self, space: Space, upload_id: str) -> Shown:
        """Give an upload."""
        return self._shown(self._record(space, upload_id))

    def begin_part(self, space: Space, upload_id: str) -> PartIntake:
        """Begin to take a part. Refused `upload_not_pending`, `invalid_request`."""
        upload = self._pending(space, upload_id)
        if upload.multipart is not None:
            message = (
                "The parts of this upload go to the URLs that it was given. Begin another upload to send parts here."
            )
            raise Refused("invalid_request", message)
        part_id = self._new_id(ids.PART)
        key = paths.upload_part(space.org, upload_id, part_id)
        return PartIntake(Part(part_id, upload_id, int(self._clock())), ObjectWriter(self._blobs, self._multipart, key))

    def urls(self, space: Space, contract: Contract, upload_id: str, numbers: Sequence[int]) -> list[PartUrl]:
        """Give signed URLs for parts, each of which takes a PUT of at least 5 MiB, but for the last.

        Refused `upload_not_pending`; `invalid_request` where files are small enough to need none.
        """
        if contract.file_bytes <= self._prompt_bytes:
            message = "Parts go to POST /uploads/{id}/parts here: there are no signed URLs for files of this size."
            raise Refused("invalid_request", message)
        upload = self._with_multipart(self._pending(space, upload_id), contract)
        key, seconds = upload_parts.key(upload), max(1, upload.expires_at - int(self._clock()))
        return [
            PartUrl(number, self._presigner.part_url(key, upload.multipart or "", number, seconds=seconds))
            for number in numbers
        ]

    def complete(
        self, space: Space, contract: Contract, upload_id: str, *, part_ids: Sequence[str], digest: str | None
    ) -> Shown:
        """Make the file of these parts, in this order. Again, it gives the file that was made.

        Refused `invalid_request` when the parts are not there, have other bytes than were announced, or another MD5; `upload_not_pending`;
        `storage_limit_exceeded`; what the intake of a file refuses.
        """
        upload = self._record(space, upload_id)
        if upload.status is UploadStatus.COMPLETED:
            return self._shown(upload)
        upload = self._pending(space, upload_id)
        pieces = upload_parts.named(self._inventory, upload, part_ids)
        if upload.bytes <= self._prompt_bytes:
            return self._take_in(upload, contract, pieces, digest)
        draft = self._files.draft(space, contract, upload.filename)
        self._blobs.put(paths.pieces(space.org, draft.id), assembly.encode(pieces))
        draft = msgspec.structs.replace(draft, upload=upload.id)
        return self._keep_uploaded(upload, contract, draft, Pending(pieces=True, md5=digest))

    def complete_urls(
        self, space: Space, contract: Contract, upload_id: str, *, etags: Sequence[str], digest: str | None
    ) -> Shown:
        """Make the file of the parts that went to the signed URLs; `etags` are what their PUTs answered, by number. As `complete`."""
        upload = self._record(space, upload_id)
        if upload.status is UploadStatus.COMPLETED:
            return self._shown(upload)
        upload = self._pending(space, upload_id)
        if upload.multipart is None or upload.file_id is None:
            raise Refused(
                "invalid_request", "No URLs were asked for. Send 'part_ids' instead of 'etags'.", param="etags"
            )
        upload_parts.check_etags(self._inventory, upload, etags)
        upload_parts.check_sum(
            self._multipart.complete(upload_parts.key(upload), upload.multipart).size, upload, "etags"
        )
        draft = msgspec.structs.replace(self._files.draft(space, contract, upload.filename), id=upload.file_id)
        return self._keep_uploaded(upload, contract, draft, Pending(md5=digest))

    def cancel(self, space: Space, upload_id: str) -> Shown:
        """Give an upload up, and its parts. Again, it changes nothing. Refused `upload_not_pending` when it has ended otherwise."""
        self._record(space, upload_id)
        upload = self._store.update(
            space,
            upload_id,
            lambda upload: expiry.ended(upload, UploadStatus.CANCELLED) if self._runs(upload) else upload,
        )
        if upload.status is not UploadStatus.CANCELLED:
            raise self._not_pending(upload)
        with suppress(Unavailable):  # the sweep removes what is left
            discard_upload(upload, self._blobs, self._multipart)
        return Shown(upload, None)

    def _take_in(self, upload: Upload, contract: Contract, pieces: Sequence[Piece], wanted: str | None) -> Shown:
        latest = upload

        def keep(file: File) -> None:
            nonlocal latest
            latest = self._decide(upload, file, contract)

        intake = self._files.begin(upload.space, contract, upload.filename, upload.purpose, keep=keep)
        digest = md5(usedforsecurity=False)
        try:
            for piece in pieces:
                for data in self._blobs.stream(piece.source):
                    intake.write(data)
                    digest.update(data)
            if wanted is not None and digest.hexdigest() != wanted.lower():
                raise wrong_md5()
            file = intake.finish(purpose=upload.purpose, expires_after=upload.lifetime)
        finally:
            with suppress(Unavailable):
                intake.abort()
        shown = self._settled(latest, file)
        with suppress(SlackwaterError):  # the sweep removes what is left
            self._blobs.delete(paths.upload(upload.org, upload.id))
        return shown

    def _keep_uploaded(self, upload: Upload, contract: Contract, draft: File, pending: Pending) -> Shown:
        seconds = self._timing.seconds(lifetime(contract, upload.lifetime))
        file = msgspec.structs.replace(
            draft, bytes=upload.bytes, expires_at=draft.created_at + seconds, status="uploaded", pending=pending
        )
        shown = self._settled(self._decide(upload, file, contract), msgspec.structs.replace(file, upload=None))
        with suppress(Unavailable):  # then it is scanned when a batch names it
            self._scans.start(upload.space, file.id)
        return shown

    def _decide(self, upload: Upload, file: File, contract: Contract) -> Upload:
        """Make the file of the upload, or find out what else it has become. Refused `storage_limit_exceeded`."""
        room = self._files.room(contract)
        try:
            return self._store.complete(upload, file, room)
        except Full:
            raise no_room(room) from None

    def _settled(self, upload: Upload, mine: File) -> Shown:
        """Show what the upload has become; where that is not `mine`, nothing of mine stays."""
        if upload.file_id != mine.id:
            with suppress(Unavailable):
                discard_file(mine, self._blobs)
        if upload.status is not UploadStatus.COMPLETED:
            raise self._not_pending(upload)
        return self._shown(upload)

    def _with_multipart(self, upload: Upload, contract: Contract) -> Upload:
        if upload.multipart is not None:
            return upload
        file_id = self._files.draft(upload.space, contract, upload.filename).id
        mine = self._multipart.begin(paths.file(upload.org, file_id))

        def change(latest: Upload) -> Upload:
            if latest.multipart is not None or not self._runs(latest):
                return latest
            return msgspec.structs.replace(latest, multipart=mine, file_id=file_id)

        latest = self._store.update(upload.space, upload.id, change)
        if latest.multipart != mine:
            self._multipart.abort(paths.file(upload.org, file_id), mine)
        if latest.multipart is None:
            raise self._not_pending(latest)
        return latest

    def _record(self, space: Space, upload_id: str) -> Upload:
        if not ids.could_be(ids.UPLOAD, upload_id):
            raise NotFound(f"there is no upload {upload_id!r}")
        return self._store.get(space, upload_id)

    def _pending(self, space: Space, upload_id: str) -> Upload:
        upload = self._record(space, upload_id)
        if not self._runs(upload):
            raise self._not_pending(upload)
        return upload

    def _runs(self, upload: Upload) -> bool:
        return expiry.status(upload, self._clock()) is UploadStatus.PENDING

    def _not_pending(self, upload: Upload) -> Refused:
        status = expiry.status(upload, self._clock())
        return Refused("upload_not_pending", f"The upload is {status}. Begin another one.")

    def _shown(self, upload: Upload) -> Shown:
        file = None
        if upload.status is UploadStatus.COMPLETED and upload.file_id is not None:
            with suppress(NotFound):  # it was deleted, or its time is over
                file = self._files.get(upload.space, upload.file_id)
        return Shown(msgspec.structs.replace(upload, status=expiry.status(upload, self._clock())), file)
