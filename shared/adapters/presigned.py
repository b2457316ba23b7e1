"""Presigned URLs: who has one may do the one thing that it is for. Signing is arithmetic with the credentials of this process; nobody is asked."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Presigner:
    """`shared.ports.Presigner` over one bucket."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def get_url(self, key: str, *, seconds: int, content_type: str) -> str:
        """Give a URL for GET."""
        return self._client.generate_presigned_url(
            "get_object",
            Params={"Bucket": self._bucket, "Key": key, "ResponseContentType": content_type},
            ExpiresIn=seconds,
        )

    def part_url(self, key: str, upload: str, number: int, *, seconds: int) -> str:
        """Give a URL for PUT of one part."""
        return self._client.generate_presigned_url(
            "upload_part",
            Params={"Bucket": self._bucket, "Key": key, "UploadId": upload, "PartNumber": number},
            ExpiresIn=seconds,
        )
