"""The records of uploads, as callers see them: with the file that each became, and over when its time is over."""

from contextlib import suppress
from typing import NamedTuple

import msgspec

from shared.core import expiry, ids
from shared.core.errors import NotFound, Refused
from shared.core.ids import Space
from shared.core.records import File, Upload, UploadStatus
from shared.ports import Clock, UploadStore
from shared.services.files import Files


class Shown(NamedTuple):
    """An upload as it is now, and the file that it became."""

    upload: Upload
    file: File | None


class UploadRecords:
    """The uploads of every space."""

    def __init__(self, *, store: UploadStore, files: Files, clock: Clock) -> None:
        self._store = store
        self._files = files
        self._clock = clock

    def get(self, space: Space, upload_id: str) -> Upload:
        """Give the record; NotFound when the space has none."""
        if not ids.could_be(ids.UPLOAD, upload_id):
            raise NotFound(f"there is no upload {upload_id!r}")
        return self._store.get(space, upload_id)

    def pending(self, space: Space, upload_id: str) -> Upload:
        """Give the record of an upload that has not ended; NotFound; Refused `upload_not_pending`."""
        upload = self.get(space, upload_id)
        if not self.runs(upload):
            raise self.not_pending(upload)
        return upload

    def runs(self, upload: Upload) -> bool:
        """Whether the upload has not ended."""
        return expiry.status(upload, self._clock()) is UploadStatus.PENDING

    def not_pending(self, upload: Upload) -> Refused:
        """Refuse what an upload that has ended does not take."""
        status = expiry.status(upload, self._clock())
        return Refused("upload_not_pending", f"The upload is {status}. Begin another one.")

    def completed(self, upload: Upload) -> Shown:
        """Show an upload that has ended as it was meant to; Refused `upload_not_pending` when it ended otherwise."""
        if upload.status is not UploadStatus.COMPLETED:
            raise self.not_pending(upload)
        return self.shown(upload)

    def shown(self, upload: Upload) -> Shown:
        """Show an upload."""
        file = None
        if upload.status is UploadStatus.COMPLETED and upload.file_id is not None:
            with suppress(NotFound):  # it was deleted, or its time is over
                file = self._files.get(upload.space, upload.file_id)
        return Shown(msgspec.structs.replace(upload, status=expiry.status(upload, self._clock())), file)
