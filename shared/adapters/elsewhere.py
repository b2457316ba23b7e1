"""Objects of other buckets, copied inside S3: our own processes never hold their bytes.

Whether we may is S3's to say, by the policies of both sides; what it forbids is as good as not there, so that nobody learns what is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from shared.adapters.errors import code_of, translated
from shared.core.errors import NotFound
from shared.ports import BlobInfo

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import UploadPartCopyRequestTypeDef

FORBIDDEN = frozenset(
    {
        # We may not.
        "403", "AccessDenied", "AllAccessDisabled", "NoSuchBucket", "PermanentRedirect", "301",
        # Nobody may, or not like this: in an archive, under a key that is gone or the caller's own. A HEAD has no words for it.
        "400", "InvalidObjectState", "InvalidRequest", "KMS.DisabledException", "KMS.NotFoundException",
    }
)  # fmt: skip


class S3Elsewhere:
    """`shared.ports.Elsewhere`, into and out of one bucket of ours."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def stat(self, uri: str) -> BlobInfo:
        """Give size and ETag; NotFound."""
        bucket, key = _split(uri)
        with _hidden(uri):
            answer = self._client.head_object(Bucket=bucket, Key=key)
        return BlobInfo(answer["ContentLength"], answer["ETag"])

    def fetch(self, key: str, upload: str, number: int, *, uri: str, span: tuple[int, int] | None, etag: str) -> None:
        """Write a part from that object; Conflict when its ETag is another; NotFound."""
        bucket, source = _split(uri)
        request: UploadPartCopyRequestTypeDef = {
            "Bucket": self._bucket,
            "Key": key,
            "UploadId": upload,
            "PartNumber": number,
            "CopySource": {"Bucket": bucket, "Key": source},
            "CopySourceIfMatch": etag,
        }
        if span is not None:
            request["CopySourceRange"] = f"bytes={span[0]}-{span[1] - 1}"
        with _hidden(uri):
            self._client.upload_part_copy(**request)

    def deliver(self, key: str, uri: str) -> None:
        """Copy an object of ours there, in parts where it is large; NotFound."""
        bucket, target = _split(uri)
        with _hidden(uri):
            self._client.copy({"Bucket": self._bucket, "Key": key}, bucket, target)


def _split(uri: str) -> tuple[str, str]:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


@contextmanager
def _hidden(uri: str) -> Iterator[None]:
    try:
        with translated():
            yield
    except ClientError as error:
        if code_of(error) in FORBIDDEN:
            raise NotFound(f"there is no {uri}, or we may not touch it") from error
        raise
