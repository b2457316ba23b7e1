"""The sweep of what has expired. To callers it has been gone since its time came; here its bytes and its record go as well.

Each step may be repeated. What a live batch needs stays; parts that a file is still being put together from stay as well.
"""

from shared.core import expiry, ids
from shared.core.errors import Conflict, NotFound
from shared.core.ids import Space
from shared.core.records import UploadStatus
from shared.ports import Blobs, Clock, Expiries, FileStore, Multipart, UploadStore
from shared.services.remains import discard_file, discard_upload


class ExpirySweep:
    """Removes expired files and uploads."""

    def __init__(
        self,
        *,
        expiries: Expiries,
        file_store: FileStore,
        upload_store: UploadStore,
        blobs: Blobs,
        multipart: Multipart,
        clock: Clock,
    ) -> None:
        self._expiries = expiries
        self._file_store = file_store
        self._upload_store = upload_store
        self._blobs = blobs
        self._multipart = multipart
        self._clock = clock

    def sweep(self) -> int:
        """Remove what expired before now; give how many files and uploads there were."""
        count = 0
        for found in self._expiries.expired(self._clock()):
            try:
                if found.id.startswith(ids.UPLOAD):
                    self._upload(found.space, found.id)
                else:
                    self._file(found.space, found.id)
            except (Conflict, NotFound):
                continue  # it is needed, or another sweep was faster
            count += 1
        return count

    def _file(self, space: Space, file_id: str) -> None:
        file = self._file_store.get(space, file_id)
        if file.expires_at is None or file.expires_at > self._clock():
            return  # the index lags
        self._file_store.delete(space, file_id)
        discard_file(file, self._blobs)

    def _upload(self, space: Space, upload_id: str) -> None:
        upload = self._upload_store.get(space, upload_id)
        if expiry.due(upload) > self._clock():
            return
        if upload.status is UploadStatus.PENDING:
            # From here on it can be completed no more.
            upload = self._upload_store.update(
                space, upload_id, lambda latest: expiry.ended(latest, UploadStatus.EXPIRED)
            )
        if upload.status is UploadStatus.COMPLETED and self._is_being_made(space, upload.file_id):
            return
        discard_upload(upload, self._blobs, self._multipart)
        if expiry.due(upload) <= self._clock():
            self._upload_store.remove(upload)

    def _is_being_made(self, space: Space, file_id: str | None) -> bool:
        try:
            return file_id is not None and self._file_store.get(space, file_id).pending is not None
        except NotFound:
            return False
