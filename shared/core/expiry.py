"""When things are over, when the sweep looks at them, and what an upload becomes.

A pending upload is due at its end, when its parts go. What has become of an upload can be asked for a day longer; then its record goes as well.
A file is due at its end, and before that while work is left to be done with it that nobody seems to do.
"""

import msgspec

from shared.core.records import File, Upload, UploadStatus

REMEMBERED = 86400
LOST = 300
"""Seconds without a step after which the work on a file is taken for lost: longer than a step, and than what was asked to work needs to begin."""


def file_due(file: File) -> int | None:
    """Give the Unix time at which the sweep has something to do with a file; None: never."""
    if file.pending is None:
        return file.expires_at
    lost = max(file.created_at, file.pending.touched) + LOST
    return lost if file.expires_at is None else min(lost, file.expires_at)


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
