"""What is in the bucket of a file or an upload besides its record: removed when the record goes, or was never written. All of it is idempotent."""

from shared.core import paths
from shared.core.ids import BatchRef
from shared.core.records import File, Upload, UploadStatus
from shared.ports import Blobs, Multipart


def discard_file(file: File, blobs: Blobs, multipart: Multipart) -> None:
    """Remove a file's bytes, its scan, what it was to be made of, and what a result was made of."""
    if file.pending is not None and file.pending.multipart is not None:
        multipart.abort(paths.file(file.org, file.id), file.pending.multipart)
    prefixes = [
        paths.file(file.org, file.id),
        paths.scan(file.org, file.id),
        paths.legs(file.org, file.id),
        paths.pieces(file.org, file.id),
    ]
    if file.upload is not None:
        prefixes.append(paths.upload(file.org, file.upload))
    if file.source_batch is not None:
        prefixes.append(paths.chunks(BatchRef(file.org, file.contract, file.source_batch)))
    for prefix in prefixes:
        blobs.delete(prefix)


def discard_upload(upload: Upload, blobs: Blobs, multipart: Multipart) -> None:
    """Remove an upload's parts, and the file that it did not become."""
    blobs.delete(paths.upload(upload.org, upload.id))
    if upload.multipart is not None and upload.file_id is not None and upload.status is not UploadStatus.COMPLETED:
        key = paths.file(upload.org, upload.file_id)
        multipart.abort(key, upload.multipart)
        blobs.delete(key)
