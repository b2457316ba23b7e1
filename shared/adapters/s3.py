"""The bucket: objects, and objects written in parts.

Conditions are S3's own (`If-None-Match`, `If-Match`), so that they hold whoever else writes. Encryption is the bucket's default. ETags are kept as S3
writes them, quotes included, and only ever compared. An object read in pieces is let go as soon as the reader stops.
"""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from shared.adapters.errors import code_of, translated
from shared.core.errors import NotFound, Unavailable
from shared.ports import BlobInfo

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, GetObjectRequestTypeDef, ObjectIdentifierTypeDef

PIECE = 1 << 20
BEYOND_THE_END = "InvalidRange"


class S3Blobs:
    """`shared.ports.Blobs`, `Multipart` and `Inventory` over one bucket."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def put(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:
        """Write an object and give its ETag; with `only_if_absent` Conflict when there is one, or one is being written."""
        with translated():
            if only_if_absent:
                answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=data, IfNoneMatch="*")
            else:
                answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=data)
        return answer["ETag"]

    def get(self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None) -> bytes:
        """Give the bytes of a range, as far as the object has them; NotFound; Conflict when it has another ETag."""
        body = self._open(key, start, end, etag)
        if body is None:
            return b""
        with translated(), closing(body):
            return body.read()

    def stream(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Give the same bytes in pieces of 1 MiB; NotFound comes with the first."""
        body = self._open(key, start, end, None)
        if body is not None:
            with translated(), closing(body):
                yield from body.iter_chunks(PIECE)

    def _open(self, key: str, start: int, end: int | None, etag: str | None) -> "StreamingBody | None":
        """Begin to read a range; None when no byte of the object lies in it."""
        request: GetObjectRequestTypeDef = {"Bucket": self._bucket, "Key": key}
        if etag is not None:
            request["IfMatch"] = etag
        nothing = end is not None and end <= start
        if nothing:
            request["Range"] = (
                "bytes=0-0"  # HTTP has no empty range; the key and the ETag are to be checked all the same
            )
        elif start > 0 or end is not None:
            request["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        try:
            with translated():
                body = self._client.get_object(**request)["Body"]
        except ClientError as error:
            if code_of(error) == BEYOND_THE_END:
                return None
            raise
        if nothing:
            body.close()
            return None
        return body

    def stat(self, key: str) -> BlobInfo:
        """Give size and ETag; NotFound."""
        with translated():
            answer = self._client.head_object(Bucket=self._bucket, Key=key)
        return BlobInfo(answer["ContentLength"], answer["ETag"])

    def delete(self, prefix: str) -> None:
        """Remove every object whose key begins with `prefix`, a thousand at a time."""
        if not prefix:
            raise ValueError("an empty prefix would remove the whole bucket")
        with translated():
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
                keys: list[ObjectIdentifierTypeDef] = [{"Key": found["Key"]} for found in page.get("Contents", ())]
                if keys:
                    answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": keys, "Quiet": True})
                    if answer.get("Errors"):
                        raise Unavailable(f"DeleteObjects left {len(answer['Errors'])} of {len(keys)}: try again")

    def begin(self, key: str) -> str:
        """Begin an upload and give its id."""
        with translated():
            return self._client.create_multipart_upload(Bucket=self._bucket, Key=key)["UploadId"]

    def part(self, key: str, upload: str, number: int, data: bytes | bytearray) -> None:
        """Write a part; NotFound when the upload is complete or aborted."""
        with translated():
            self._client.upload_part(
                Bucket=self._bucket,
                Key=key,
                UploadId=upload,
                PartNumber=number,
                Body=data,  # type: ignore[arg-type] # botocore takes either
            )

    def copy(self, key: str, upload: str, number: int, *, source: str, start: int, end: int, etag: str) -> None:
        """Write a part from another object; Conflict when its ETag is another; NotFound when it or the upload is not there."""
        with translated():
            self._client.upload_part_copy(
                Bucket=self._bucket,
                Key=key,
                UploadId=upload,
                PartNumber=number,
                CopySource={"Bucket": self._bucket, "Key": source},
                CopySourceRange=f"bytes={start}-{end - 1}",
                CopySourceIfMatch=etag,
            )

    def complete(self, key: str, upload: str) -> BlobInfo:
        """Make the object of all parts that S3 has; of a complete upload, give the object; NotFound."""
        try:
            found = self.parts(key, upload)
            parts: list[CompletedPartTypeDef] = [{"PartNumber": number, "ETag": part.etag} for number, part in found]
            with translated():
                answer = self._client.complete_multipart_upload(
                    Bucket=self._bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
                )
        except NotFound:
            return self.stat(key)
        return BlobInfo(sum(part.size for _, part in found), answer["ETag"])

    def abort(self, key: str, upload: str) -> None:
        """Forget the upload and its parts, if they are still there."""
        with suppress(NotFound), translated():
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload)

    def objects(self, prefix: str) -> Iterator[tuple[str, BlobInfo]]:
        """Give the objects with this prefix, by key."""
        with translated():
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix):
                for found in page.get("Contents", ()):
                    yield found["Key"], BlobInfo(found["Size"], found["ETag"])

    def parts(self, key: str, upload: str) -> list[tuple[int, BlobInfo]]:
        """Give the parts of an upload by number; NotFound."""
        with translated():
            pages = self._client.get_paginator("list_parts").paginate(Bucket=self._bucket, Key=key, UploadId=upload)
            return [
                (part["PartNumber"], BlobInfo(part["Size"], part["ETag"]))
                for page in pages
                for part in page.get("Parts", ())
            ]
