"""The sweep of files and uploads. What has expired has been gone for callers since its time came; here its bytes and its record go as well.

Each step may be repeated. What a live batch needs stays; parts that a file is still being put together from stay as well. Of a file whose scan nobody
works at, because the call that asked for it was lost, the scan is asked for again.
"""

from shared.core import expiry, ids
from shared.core.errors import Conflict, NotFound, Unavailable
from shared.core.ids import Space
from shared.core.records import UploadStatus
from shared.ports import Blobs, Clock, Due, Expiries, FileStore, Multipart, ScanStarter, UploadStore
from shared.services.remains import discard_file, discard_upload


class ExpirySweep:
    """Removes expired files and uploads, and lets no file wait in vain for its scan."""

    def __init__(
        self,
        *,
        expiries: Expiries,
        file_store: FileStore,
        upload_store: UploadStore,
        blobs: Blobs,
        multipart: Multipart,
        scans: ScanStarter,
        clock: Clock,
    ) -> None:
        self._expiries = expiries
        self._file_store = file_store
        self._upload_store = upload_store
        self._blobs = blobs
        self._multipart = multipart
        self._scans = scans
        self._clock = clock

    def sweep(self) -> int:
        """Remove what expired before now; give how many files and uploads that were. Unavailable, in the end, where something could not be done."""
        count, left = 0, None
        for due in self._expiries.due(self._clock()):
            try:
                count += self._is_over(due)
            except (Conflict, NotFound):
                continue  # it is needed, or another sweep was faster
            except Unavailable as unavailable:
                left = unavailable
        if left is not None:
            raise left
        return count

    def _is_over(self, due: Due) -> bool:
        """Do what is to be done, and say whether that was the end."""
        return (self._upload if due.id.startswith(ids.UPLOAD) else self._file)(due.space, due.id)

    def _file(self, space: Space, file_id: str) -> bool:
        file = self._file_store.get(space, file_id)
        now = self._clock()
        at = expiry.file_due(file)
        if at is None or at > now:
            return False  # the index lags
        if file.expires_at is None or file.expires_at > now:
            self._scans.start(space, file_id)
            return False
        self._file_store.delete(space, file_id)
        discard_file(file, self._blobs, self._multipart)
        return True

    def _upload(self, space: Space, upload_id: str) -> bool:
        upload = self._upload_store.get(space, upload_id)
        if expiry.due(upload) > self._clock():
            return False
        if upload.status is UploadStatus.PENDING:
            # From here on it can be completed no more.
            upload = self._upload_store.update(
                space, upload_id, lambda latest: expiry.ended(latest, UploadStatus.EXPIRED)
            )
        if upload.status is UploadStatus.COMPLETED and self._is_being_made(space, upload.file_id):
            return False
        discard_upload(upload, self._blobs, self._multipart)
        if expiry.due(upload) <= self._clock():
            self._upload_store.remove(upload)
        return True

    def _is_being_made(self, space: Space, file_id: str | None) -> bool:
        try:
            return file_id is not None and self._file_store.get(space, file_id).pending is not None
        except NotFound:
            return False
