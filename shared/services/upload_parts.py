"""The parts of an upload, and whether they are what its caller says: all there, in this order, of so many bytes together."""

from collections.abc import Sequence

from shared.core import paths
from shared.core.assembly import LEAST_PART, Piece
from shared.core.errors import NotFound, Refused
from shared.core.records import Upload
from shared.ports import Inventory

PARTS = 10_000
LEAST_URL_PART = LEAST_PART
"""What S3 takes as a part."""


def key(upload: Upload) -> str:
    """Name the file that an upload with a multipart upload is to become."""
    if upload.file_id is None:
        raise AssertionError(f"{upload.id} has no multipart upload")
    return paths.file(upload.org, upload.file_id)


def named(inventory: Inventory, upload: Upload, part_ids: Sequence[str]) -> list[Piece]:
    """Give the parts with these ids, in this order, but for empty ones. Refused `invalid_request`."""
    if len(part_ids) > PARTS:
        raise Refused("invalid_request", f"An upload has at most {PARTS} parts.", param="part_ids")
    if len(set(part_ids)) != len(part_ids):
        raise Refused("invalid_request", "'part_ids' names a part twice.", param="part_ids")
    prefix = paths.upload(upload.org, upload.id)
    there = {found.removeprefix(prefix): info for found, info in inventory.objects(prefix)}
    pieces = []
    for part_id in part_ids:
        if part_id not in there:
            message = f"The upload has no part {part_id!r}. Add the part first."
            raise Refused("invalid_request", message, param="part_ids")
        info = there[part_id]
        pieces.append(Piece(prefix + part_id, info.etag, 0, info.size))
    check_sum(sum(piece.size for piece in pieces), upload, "part_ids")
    return [piece for piece in pieces if piece.size]


def check_etags(inventory: Inventory, upload: Upload, etags: Sequence[str]) -> None:
    """Refused `invalid_request` unless these are the ETags of the parts that went to signed URLs, from number 1 on."""
    try:
        parts = inventory.parts(key(upload), upload.multipart or "")
    except NotFound:
        return  # an earlier try completed it in the store, after this very check, and died before it could say so
    wanted = [(number, etag.strip('"')) for number, etag in enumerate(etags, 1)]
    if wanted != [(number, info.etag.strip('"')) for number, info in parts]:
        message = "'etags' must be the ETags of the parts, from number 1 on, as the PUTs answered them."
        raise Refused("invalid_request", message, param="etags")
    if any(info.size < LEAST_URL_PART for _, info in parts[:-1]):
        message = f"Every part but the last must have at least {LEAST_URL_PART} bytes. Begin another upload."
        raise Refused("invalid_request", message, param="etags")
    check_sum(sum(info.size for _, info in parts), upload, "etags")


def check_sum(size: int, upload: Upload, param: str) -> None:
    """Refused `invalid_request` unless the parts have the bytes that were announced."""
    if size != upload.bytes:
        message = f"The parts have {size} bytes together; the upload was begun for {upload.bytes}."
        raise Refused("invalid_request", message, param=param)
