"""Uploads: files that come in parts, in any order and side by side, and become files when their caller says that they are whole.

A part is an object and nothing else: the list of an upload's objects is the list of its parts. Where the caller sends parts straight to the store, by
signed URLs, they are the parts of the store's own multipart upload. How parts become a file is `shared.services.completions`.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from shared.core import expiry, ids, paths
from shared.core.contract import MIB, Contract
from shared.core.errors import Refused, Unavailable
from shared.core.ids import Space
from shared.core.records import Upload, UploadStatus
from shared.core.window import Timing
from shared.ports import Blobs, Clock, Multipart, NewId, Presigner, UploadStore
from shared.services import upload_parts
from shared.services.files import Files, checked_name
from shared.services.intake import check_purpose, lifetime, too_large
from shared.services.object_writer import ObjectWriter
from shared.services.part_intake import Part, PartIntake
from shared.services.remains import discard_upload
from shared.services.upload_records import Shown, UploadRecords

SECONDS = 3600
URLS = 1000

PROMPT_BYTES = 256 * MIB
"""The largest file that is put together and scanned before the completion is answered."""


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
    """The uploads of every space, until they are whole. Each method raises NotFound for an upload that the space has not."""

    def __init__(
        self,
        *,
        store: UploadStore,
        records: UploadRecords,
        files: Files,
        blobs: Blobs,
        multipart: Multipart,
        presigner: Presigner,
        timing: Timing,
        clock: Clock,
        new_id: NewId,
        prompt_bytes: int = PROMPT_BYTES,
    ) -> None:
        self._store = store
        self._records = records
        self._files = files
        self._blobs = blobs
        self._multipart = multipart
        self._presigner = presigner
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
            raise too_large(contract, param="bytes")
        lifetime(contract, wanted.expires_after)
        now = int(self._clock())
        upload_id = self._new_id(ids.UPLOAD)
        name = f"{upload_id}.jsonl" if contract.names_files else checked_name(wanted.filename, contract, "filename")
        upload = Upload(
            id=upload_id,
            org=space.org,
            contract=space.contract,
            bytes=wanted.bytes,
            filename=name,
            purpose=wanted.purpose,
            created_at=now,
            expires_at=now + self._timing.seconds(SECONDS),
            lifetime=wanted.expires_after,
        )
        self._store.put(upload)
        return Shown(upload, None)

    def get(self, space: Space, upload_id: str) -> Shown:
        """Give an upload."""
        return self._records.shown(self._records.get(space, upload_id))

    def begin_part(self, space: Space, upload_id: str) -> PartIntake:
        """Begin to take a part. Refused `upload_not_pending`, `invalid_request`."""
        upload = self._records.pending(space, upload_id)
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
        upload = self._with_multipart(self._records.pending(space, upload_id), contract)
        key, seconds = upload_parts.key(upload), max(1, upload.expires_at - int(self._clock()))
        return [
            PartUrl(number, self._presigner.part_url(key, upload.multipart or "", number, seconds=seconds))
            for number in numbers
        ]

    def cancel(self, space: Space, upload_id: str) -> Shown:
        """Give an upload up, and its parts. Again, it changes nothing. Refused `upload_not_pending` when it has ended otherwise."""
        self._records.get(space, upload_id)
        upload = self._store.update(
            space,
            upload_id,
            lambda upload: expiry.ended(upload, UploadStatus.CANCELLED) if self._records.runs(upload) else upload,
        )
        if upload.status is not UploadStatus.CANCELLED:
            raise self._records.not_pending(upload)
        with suppress(Unavailable):  # the sweep removes what is left
            discard_upload(upload, self._blobs, self._multipart)
        return Shown(upload, None)

    def _with_multipart(self, upload: Upload, contract: Contract) -> Upload:
        if upload.multipart is not None:
            return upload
        file_id = self._files.draft(upload.space, contract, upload.filename).id
        mine = self._multipart.begin(paths.file(upload.org, file_id))

        def change(latest: Upload) -> Upload:
            if latest.multipart is not None or not self._records.runs(latest):
                return latest
            return msgspec.structs.replace(latest, multipart=mine, file_id=file_id)

        latest = self._store.update(upload.space, upload.id, change)
        if latest.multipart != mine:
            self._multipart.abort(paths.file(upload.org, file_id), mine)
        if latest.multipart is None:
            raise self._records.not_pending(latest)
        return latest
