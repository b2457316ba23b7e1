"""The end of an upload: its parts become a file.

What becomes of an upload is decided once, in one transaction with the record of its file: of a completion and a cancel, or of two completions at
once, one wins, and each try works on a file of its own until then. Whoever loses finds parts gone, or the upload ended: then the answer is what the
upload has become, which is the file that the first completion made.

A small file is put together and scanned before the completion is answered, in one pass over its parts, by the same intake as any upload; a larger one,
or one that is in the store already, is `uploaded` first (`shared.services.scans`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import md5

import msgspec

from shared.core import assembly, paths
from shared.core.assembly import Piece
from shared.core.contract import Contract
from shared.core.errors import Full, NotFound, Refused, SlackwaterError, Unavailable
from shared.core.ids import Space
from shared.core.records import File, Pending, Upload
from shared.core.window import Timing
from shared.ports import Blobs, Inventory, Multipart, ScanStarter, UploadStore
from shared.services import upload_parts
from shared.services.files import Files, no_room
from shared.services.intake import lifetime
from shared.services.remains import discard_file
from shared.services.scans import wrong_md5
from shared.services.upload_records import Shown, UploadRecords
from shared.services.uploads import PROMPT_BYTES

PROMPT_PARTS = 500
"""The most parts of a file that is read before the answer: each takes a request of its own, and callers wait for half a minute at most."""


class Completions:
    """Makes files of uploads. Each method raises NotFound for an upload that the space has not."""

    def __init__(
        self,
        *,
        store: UploadStore,
        records: UploadRecords,
        files: Files,
        blobs: Blobs,
        multipart: Multipart,
        inventory: Inventory,
        scans: ScanStarter,
        timing: Timing,
        prompt_bytes: int = PROMPT_BYTES,
    ) -> None:
        self._store = store
        self._records = records
        self._files = files
        self._blobs = blobs
        self._multipart = multipart
        self._inventory = inventory
        self._scans = scans
        self._timing = timing
        self._prompt_bytes = prompt_bytes

    def of_parts(
        self, space: Space, contract: Contract, upload_id: str, *, part_ids: Sequence[str], digest: str | None
    ) -> Shown:
        """Make the file of these parts, in this order. Again, it gives the file that was made.

        Refused `invalid_request` when the parts are not there, are too many, have other bytes than were announced, or another MD5;
        `upload_not_pending`; `storage_limit_exceeded`; what the intake of a file refuses.
        """

        def complete(upload: Upload) -> Shown:
            if upload.multipart is not None:
                message = "The parts of this upload went to URLs. Send their 'etags' instead of 'part_ids'."
                raise Refused("invalid_request", message, param="part_ids")
            prompt = upload.bytes <= self._prompt_bytes
            if prompt and len(part_ids) > PROMPT_PARTS:
                message = (
                    f"A file of this size has at most {PROMPT_PARTS} parts. Begin another upload with larger ones."
                )
                raise Refused("invalid_request", message, param="part_ids")
            pieces = upload_parts.named(self._inventory, upload, part_ids)
            if prompt:
                return self._take_in(upload, contract, pieces, digest)
            draft = self._files.draft(space, contract, upload.filename)
            self._blobs.put(paths.pieces(space.org, draft.id), assembly.encode(pieces))
            draft = msgspec.structs.replace(draft, upload=upload.id)
            return self._keep_uploaded(upload, contract, draft, Pending(pieces=True, md5=digest))

        return self._once(space, upload_id, complete)

    def of_urls(
        self, space: Space, contract: Contract, upload_id: str, *, etags: Sequence[str], digest: str | None
    ) -> Shown:
        """Make the file of the parts that went to the signed URLs; `etags` are what their PUTs answered, by number. As `of_parts`."""

        def complete(upload: Upload) -> Shown:
            if upload.multipart is None or upload.file_id is None:
                message = "No URLs were asked for. Send 'part_ids' instead of 'etags'."
                raise Refused("invalid_request", message, param="etags")
            upload_parts.check_etags(self._inventory, upload, etags)
            made = self._multipart.complete(upload_parts.key(upload), upload.multipart)
            upload_parts.check_sum(made.size, upload, "etags")
            draft = msgspec.structs.replace(self._files.draft(space, contract, upload.filename), id=upload.file_id)
            return self._keep_uploaded(upload, contract, draft, Pending(md5=digest))

        return self._once(space, upload_id, complete)

    def _once(self, space: Space, upload_id: str, complete: Callable[[Upload], Shown]) -> Shown:
        """Complete an upload that has not ended; otherwise, also when it ends meanwhile, what it has become is the answer."""
        upload = self._records.get(space, upload_id)
        if not self._records.runs(upload):
            return self._records.completed(upload)
        try:
            return complete(upload)
        except (NotFound, Refused):
            latest = self._records.get(space, upload_id)
            if self._records.runs(latest):
                raise
        return self._records.completed(latest)

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
        with suppress(Unavailable):  # then the sweep has it scanned, or a batch that names it
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
                discard_file(mine, self._blobs, self._multipart)
        return self._records.completed(upload)
