"""What files and chunks build on: S3's conditions, ranges, multipart uploads and presigned URLs."""

import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from botocore.exceptions import ClientError

from tests.local.stack import Stack, at_once

MIB = 1 << 20
RIVALS = 20


class Bucket:
    """One bucket of its own for each test."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.name = f"bucket-{uuid4()}"
        client.create_bucket(Bucket=self.name)

    def put(self, key: str, body: bytes, **options: Any) -> str:
        """Put an object and return its ETag."""
        etag: str = self.client.put_object(Bucket=self.name, Key=key, Body=body, **options)["ETag"]
        return etag

    def get(self, key: str, **options: Any) -> bytes:
        """Return an object's bytes."""
        body: bytes = self.client.get_object(Bucket=self.name, Key=key, **options)["Body"].read()
        return body

    def begin(self, key: str) -> str:
        """Begin a multipart upload and return its id."""
        upload: str = self.client.create_multipart_upload(Bucket=self.name, Key=key)["UploadId"]
        return upload

    def part(self, key: str, upload: str, number: int, body: bytes) -> dict[str, Any]:
        """Upload a part and return what completing wants to know of it."""
        place = {"Bucket": self.name, "Key": key, "UploadId": upload, "PartNumber": number}
        return {"PartNumber": number, "ETag": self.client.upload_part(**place, Body=body)["ETag"]}

    def copy_part(self, key: str, upload: str, number: int, source: str, **options: Any) -> dict[str, Any]:
        """Copy a part from another object and return what completing wants to know of it."""
        place = {"Bucket": self.name, "Key": key, "UploadId": upload, "PartNumber": number}
        copied = self.client.upload_part_copy(**place, CopySource={"Bucket": self.name, "Key": source}, **options)
        return {"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]}

    def complete(self, key: str, upload: str, parts: list[dict[str, Any]], **options: Any) -> str:
        """Complete an upload and return the object's ETag."""
        place = {"Bucket": self.name, "Key": key, "UploadId": upload}
        etag: str = self.client.complete_multipart_upload(**place, MultipartUpload={"Parts": parts}, **options)["ETag"]
        return etag


def _code(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, int]:
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Any]:
    """Return the one client that all tests share."""
    client = stack.client("s3")
    yield client
    client.close()


@pytest.fixture
def bucket(client: Any) -> Bucket:
    """Return an empty bucket."""
    return Bucket(client)


@pytest.mark.usefixtures("restless")
def test_of_many_writers_of_one_key_one_writes(stack: Stack, bucket: Bucket) -> None:
    """If-None-Match lets the first of twenty writers at once through, and the object is what that one wrote."""
    # Large enough for files, so that a writer gives way to its rivals between look and write.
    bodies = [f"{number:02}".encode() * 200_000 for number in range(RIVALS)]
    writes = [(f"PUT /{bucket.name}/chunk", {"If-None-Match": "*"}, body) for body in bodies]
    statuses = [status for status, _ in at_once(stack.aws.endpoint, "s3", writes)]
    assert [200] + [412] * (RIVALS - 1) == sorted(statuses)
    assert bodies[statuses.index(200)] == bucket.get("chunk")


def test_a_key_that_is_there_refuses_a_second_writer(bucket: Bucket) -> None:
    """The refusal is a 412, of a put and of a completed upload."""
    bucket.put("chunk", b"first")
    with pytest.raises(ClientError) as caught:
        bucket.put("chunk", b"second", IfNoneMatch="*")
    assert ("PreconditionFailed", 412) == _code(caught)
    upload = bucket.begin("chunk")
    parts = [bucket.part("chunk", upload, 1, b"third")]
    with pytest.raises(ClientError) as caught:
        bucket.complete("chunk", upload, parts, IfNoneMatch="*")
    assert ("PreconditionFailed", 412) == _code(caught)
    assert b"first" == bucket.get("chunk")


def test_a_range_is_read_alone(bucket: Bucket) -> None:
    """First bytes, last bytes and an open end, with the whole length told; a range past the end is a 416."""
    bucket.put("lines", bytes(range(256)) * 1000)
    answer = bucket.client.get_object(Bucket=bucket.name, Key="lines", Range="bytes=255-257")
    assert b"\xff\x00\x01" == answer["Body"].read()
    assert ("bytes 255-257/256000", 3, 206) == (
        answer["ContentRange"],
        answer["ContentLength"],
        answer["ResponseMetadata"]["HTTPStatusCode"],
    )
    assert b"\xfe\xff" == bucket.get("lines", Range="bytes=-2")
    assert b"\xff" == bucket.get("lines", Range="bytes=255999-")
    assert b"\xff" == bucket.get("lines", Range="bytes=255999-999999")
    with pytest.raises(ClientError) as caught:
        bucket.get("lines", Range="bytes=256000-")
    assert ("InvalidRange", 416) == _code(caught)


def test_a_read_may_insist_on_the_object_it_knows(bucket: Bucket) -> None:
    """If-Match with another ETag is a 412."""
    etag = bucket.put("lines", b"now")
    assert b"now" == bucket.get("lines", IfMatch=etag)
    with pytest.raises(ClientError) as caught:
        bucket.get("lines", IfMatch='"other"')
    assert ("PreconditionFailed", 412) == _code(caught)


def test_head_tells_length_and_etag(bucket: Bucket) -> None:
    """A HEAD knows what the put answered, and a missing key is a 404."""
    etag = bucket.put("lines", b"x" * 100_000, Metadata={"lines": "7"}, ContentType="application/jsonl")
    head = bucket.client.head_object(Bucket=bucket.name, Key="lines")
    assert (100_000, etag, {"lines": "7"}, "application/jsonl") == (
        head["ContentLength"],
        head["ETag"],
        head["Metadata"],
        head["ContentType"],
    )
    with pytest.raises(ClientError) as caught:
        bucket.client.head_object(Bucket=bucket.name, Key="other")
    assert ("404", 404) == _code(caught)


def test_an_upload_joins_its_parts_in_order(bucket: Bucket) -> None:
    """Ranges read across the borders of parts, and of copied ranges of another object."""
    source = bytes(range(256)) * (6 * MIB // 256)
    etag = bucket.put("source", source)
    upload = bucket.begin("joined")
    last = bucket.part("joined", upload, 3, b"the end")
    first = bucket.part("joined", upload, 1, b"a" * (5 * MIB))
    span = {"CopySourceRange": f"bytes=10-{5 * MIB + 9}", "CopySourceIfMatch": etag}
    middle = bucket.copy_part("joined", upload, 2, "source", **span)
    joined = bucket.complete("joined", upload, [first, middle, last])
    assert joined.endswith('-3"')
    expected = b"a" * (5 * MIB) + source[10 : 5 * MIB + 10] + b"the end"
    assert expected == bucket.get("joined")
    borders = f"bytes={5 * MIB - 2}-{10 * MIB + 2}"
    assert expected[5 * MIB - 2 : 10 * MIB + 3] == bucket.get("joined", Range=borders)
    bucket.client.delete_object(Bucket=bucket.name, Key="source")
    assert expected == bucket.get("joined")


def test_a_copy_may_insist_on_the_source_it_knows(bucket: Bucket) -> None:
    """A part is not copied from an object that was replaced, nor from one that is gone; an object neither."""
    etag = bucket.put("chunk", b"x" * 10)
    bucket.put("chunk", b"y" * 10)
    upload = bucket.begin("joined")
    with pytest.raises(ClientError) as caught:
        bucket.copy_part("joined", upload, 1, "chunk", CopySourceIfMatch=etag)
    assert ("PreconditionFailed", 412) == _code(caught)
    source = {"Bucket": bucket.name, "Key": "chunk"}
    with pytest.raises(ClientError) as caught:
        bucket.client.copy_object(Bucket=bucket.name, Key="copy", CopySource=source, CopySourceIfMatch=etag)
    assert ("PreconditionFailed", 412) == _code(caught)
    with pytest.raises(ClientError) as caught:
        bucket.copy_part("joined", upload, 1, "gone")
    assert ("NoSuchKey", 404) == _code(caught)
    assert "Parts" not in bucket.client.list_parts(Bucket=bucket.name, Key="joined", UploadId=upload)


def test_an_upload_completed_twice_is_completed_once(bucket: Bucket) -> None:
    """The answer that was lost is given again; an upload that is unknown is said to be."""
    upload = bucket.begin("output")
    parts = [bucket.part("output", upload, 1, b"rows")]
    assert bucket.complete("output", upload, parts) == bucket.complete("output", upload, parts)
    for attempt in (
        lambda: bucket.complete("output", "unknown", parts),
        lambda: bucket.part("output", "unknown", 1, b"rows"),
        lambda: bucket.part("output", upload, 2, b"too late"),
        lambda: bucket.client.list_parts(Bucket=bucket.name, Key="output", UploadId="unknown"),
        lambda: bucket.client.abort_multipart_upload(Bucket=bucket.name, Key="output", UploadId="unknown"),
    ):
        with pytest.raises(ClientError) as caught:
            attempt()
        assert ("NoSuchUpload", 404) == _code(caught)


def test_every_part_but_the_last_has_five_mebibytes(bucket: Bucket) -> None:
    """A part that is too small is found when the upload is completed."""
    upload = bucket.begin("output")
    parts = [bucket.part("output", upload, number, b"x" * (5 * MIB - 1)) for number in (1, 2)]
    with pytest.raises(ClientError) as caught:
        bucket.complete("output", upload, parts)
    assert "EntityTooSmall" == _code(caught)[0]


def test_bytes_lie_in_files_until_nobody_needs_them(bucket: Bucket, stack: Stack) -> None:
    """A deleted, a replaced and an aborted object leave no file."""

    def files() -> int:
        return len(list(stack.directory.glob("run-*/*")))

    before = files()
    bucket.put("object", b"x" * MIB)
    upload = bucket.begin("upload")
    bucket.part("upload", upload, 1, b"x" * MIB)
    assert before + 2 == files()
    bucket.put("object", b"y" * MIB)
    assert before + 2 == files()
    bucket.client.abort_multipart_upload(Bucket=bucket.name, Key="upload", UploadId=upload)
    bucket.client.delete_object(Bucket=bucket.name, Key="object")
    assert before == files()


def test_memory_does_not_grow_with_an_object(bucket: Bucket) -> None:
    """Parts of 8 MiB make an object of 96 MiB that is copied and read in ranges, in the memory of a few parts."""
    part = b"x" * (8 * MIB)
    tracemalloc.start()
    try:
        upload = bucket.begin("large")
        bucket.complete("large", upload, [bucket.part("large", upload, number, part) for number in range(1, 13)])
        upload = bucket.begin("copy")
        bucket.complete("copy", upload, [bucket.copy_part("copy", upload, 1, "large")])
        assert b"x" == bucket.get("copy", Range=f"bytes={96 * MIB - 1}-")
        whole = bucket.client.get_object(Bucket=bucket.name, Key="copy")["Body"]
        total = sum(len(piece) for piece in whole.iter_chunks(MIB))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 96 * MIB == total
    assert peak < 32 * MIB


@pytest.mark.usefixtures("restless")
def test_a_listing_stands_beside_writers(bucket: Bucket) -> None:
    """Keys that come and go while a prefix is listed are no fault of the listing."""

    def write(number: int) -> None:
        bucket.put(f"chunks/{number}", b"x")

    def read(_: int) -> int:
        return int(bucket.client.list_objects_v2(Bucket=bucket.name, Prefix="chunks/")["KeyCount"])

    with ThreadPoolExecutor(8) as threads:
        counts = threads.map(read, range(20))
        list(threads.map(write, range(40)))
        assert all(0 <= count <= 40 for count in counts)
    assert 40 == read(0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_presigned_urls_need_no_credentials(stack: Stack, bucket: Bucket, host: str) -> None:
    """An object is put, a part uploaded and an object read by plain HTTP."""
    signer = stack.session.client("s3", endpoint_url=stack.aws.endpoint.replace("127.0.0.1", host))
    place = {"Bucket": bucket.name, "Key": "in put.jsonl"}
    upload = bucket.begin(place["Key"])

    def url(operation: str, **options: Any) -> str:
        signed: str = signer.generate_presigned_url(operation, Params=place | options)
        return signed

    put = httpx.put(url("put_object"), content=b"lines")
    assert (200, b"lines") == (put.status_code, bucket.get(place["Key"]))
    part = httpx.put(url("upload_part", UploadId=upload, PartNumber=1), content=b"other lines")
    bucket.complete(place["Key"], upload, [{"PartNumber": 1, "ETag": part.headers["etag"]}])
    ranged = httpx.get(url("get_object"), headers={"Range": "bytes=0-4"})
    assert (206, b"other") == (ranged.status_code, ranged.content)
    signer.close()
