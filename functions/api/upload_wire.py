"""The objects about uploads, exactly as they are sent."""

from typing import Literal, Self

from pydantic import BaseModel

from functions.api.wire import FileObject
from shared.services.part_intake import Part
from shared.services.upload_records import Shown
from shared.services.uploads import PartUrl


class UploadObject(BaseModel):
    """An upload; `file` is what it became, null until then."""

    id: str
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: str
    file: FileObject | None

    @classmethod
    def of(cls, shown: Shown) -> Self:
        """Show a record."""
        upload, file = shown
        return cls(
            id=upload.id,
            bytes=upload.bytes,
            created_at=upload.created_at,
            expires_at=upload.expires_at,
            filename=upload.filename,
            purpose=upload.purpose,
            status=upload.status,
            file=None if file is None else FileObject.of(file),
        )


class UploadPart(BaseModel):
    """A part that was added."""

    id: str
    object: Literal["upload.part"] = "upload.part"
    created_at: int
    upload_id: str

    @classmethod
    def of(cls, part: Part) -> Self:
        """Show a part."""
        return cls(id=part.id, created_at=part.created_at, upload_id=part.upload_id)


class PartUrlObject(BaseModel):
    """Where one part goes, by PUT; its answer's ETag is wanted at the completion."""

    part_number: int
    url: str

    @classmethod
    def of(cls, url: PartUrl) -> Self:
        """Show a URL."""
        return cls(part_number=url.number, url=url.url)


class UploadUrls(BaseModel):
    """Signed URLs of parts, good until the upload expires."""

    object: Literal["upload.urls"] = "upload.urls"
    upload_id: str
    data: list[PartUrlObject]
