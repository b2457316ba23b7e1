"""When things are over, and what an upload becomes.

A pending upload is due at its end, when its parts go. What has become of an upload can be asked for a day longer; then its record goes as well.
"""

import msgspec

from shared.core.records import File, Upload, UploadStatus

REMEMBERED = 86400


def due(upload: Upload) -> int:
    """Give the Unix time at which the sweep has something to do with an upload."""
    return upload.expires_at + (0 if upload.status is UploadStatus.PENDING else REMEMBERED)


def status(upload: Upload, now: float) -> UploadStatus:
    """Give the status at a time: a pending upload past its end has expired, whether or not it has been swept."""
    over = upload.status is UploadStatus.PENDING and now >= upload.expires_at
    return UploadStatus.EXPIRED if over else upload.status


def completed(upload: Upload, file: File) -> Upload:
    """Give the upload as it is once it has become a file; one that is not pending stays as it is."""
    return ended(upload, UploadStatus.COMPLETED, file.id)


def ended(upload: Upload, status: UploadStatus, file_id: str | None = None) -> Upload:
    """Give a pending upload as it is after its end; one that has ended stays as it is."""
    if upload.status is not UploadStatus.PENDING:
        return upload
    return msgspec.structs.replace(upload, status=status, file_id=file_id or upload.file_id)
