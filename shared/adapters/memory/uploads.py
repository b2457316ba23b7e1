"""The records of uploads in memory, and what of them and of the files is due."""

from collections.abc import Callable, Iterator
from threading import RLock

import msgspec

from shared.adapters.memory.files import MemoryFiles
from shared.adapters.memory.rows import Rows
from shared.core import expiry
from shared.core.errors import Conflict
from shared.core.ids import Space
from shared.core.records import File, Upload, UploadStatus
from shared.core.room import Room
from shared.ports import Due


class MemoryUploads:
    """`shared.ports.UploadStore` and `Expiries`."""

    def __init__(self, lock: RLock, files: MemoryFiles) -> None:
        self._lock = lock
        self._files = files
        self._uploads: Rows[tuple[Space, str], Upload] = Rows(Upload)

    def put(self, upload: Upload) -> None:
        """Keep a new record; the very same one again changes nothing, another one of that id is a Conflict."""
        with self._lock:
            found = self._uploads.find((upload.space, upload.id))
            if found is not None and found != upload:
                raise Conflict(f"the id {upload.id} is taken")
            self._uploads[upload.space, upload.id] = upload

    def get(self, space: Space, upload_id: str) -> Upload:
        """Give the record; NotFound."""
        with self._lock:
            return self._uploads.get((space, upload_id))

    def update(self, space: Space, upload_id: str, change: Callable[[Upload], Upload]) -> Upload:
        """Apply a pure change; NotFound; what `change` raises."""
        with self._lock:
            old = self.get(space, upload_id)
            new = change(old)
            if new == old:
                return new
            self._uploads[space, upload_id] = msgspec.structs.replace(new, version=old.version + 1)
            return self.get(space, upload_id)

    def complete(self, upload: Upload, file: File, room: Room) -> Upload:
        """Keep the file and mark the upload completed with it, if it is still pending; Full."""
        with self._lock:
            if self.get(upload.space, upload.id).status is UploadStatus.PENDING:
                self._files.put(file, room)
            return self.update(upload.space, upload.id, lambda latest: expiry.completed(latest, file))

    def remove(self, upload: Upload) -> None:
        """Remove the record, if it is there."""
        with self._lock:
            if (upload.space, upload.id) in self._uploads:
                del self._uploads[upload.space, upload.id]

    def due(self, before: float) -> Iterator[Due]:
        """Give the files and uploads that are due before this time, the oldest first."""
        with self._lock:
            due = [(at, Due(file.space, file.id)) for at, file in self._files.due()]
            uploads = self._uploads.where(lambda _: True)
            due += [(expiry.due(upload), Due(upload.space, upload.id)) for upload in uploads]
        return iter([one for at, one in sorted(due) if at < before])
