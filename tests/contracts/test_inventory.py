"""What `shared.ports.Inventory`, `Elsewhere` and `Presigner` promise."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from botocore.exceptions import ClientError

from shared.adapters.elsewhere import S3Elsewhere
from shared.adapters.presigned import S3Presigner
from shared.core.errors import Conflict, NotFound
from shared.ports import BlobInfo
from tests.contracts.conftest import Aws, Bucket, Outside
from tests.fakes import Call, Hostile

KEY = "orgs/acme/files/file-1"
PART = b"p" * (5 << 20)


def test_objects_are_listed_by_key(bucket: Bucket) -> None:
    """With size and ETag, those of the prefix alone."""
    etags = {name: bucket.put(f"orgs/acme/uploads/u/{name}", name.encode() * 3) for name in ("b", "a", "c")}
    bucket.put("orgs/acme/uploads/other/a", b"")
    expected = [(f"orgs/acme/uploads/u/{name}", BlobInfo(3, etags[name])) for name in "abc"]
    assert expected == list(bucket.objects("orgs/acme/uploads/u/"))
    assert [] == list(bucket.objects("orgs/acme/uploads/none/"))


def test_parts_are_listed_by_number(bucket: Bucket) -> None:
    """Those of one multipart upload, until it is complete or aborted."""
    upload, other = bucket.begin(KEY), bucket.begin(KEY)
    bucket.part(KEY, upload, 2, b"end")
    bucket.part(KEY, upload, 1, PART)
    assert [(1, len(PART)), (2, 3)] == [(number, info.size) for number, info in bucket.parts(KEY, upload)]
    assert bucket.put("orgs/acme/x", b"end") == bucket.parts(KEY, upload)[1][1].etag
    assert [] == bucket.parts(KEY, other)
    bucket.complete(KEY, upload)
    bucket.abort(KEY, other)
    for gone in (upload, other):
        with pytest.raises(NotFound):
            bucket.parts(KEY, gone)


def test_an_object_of_another_bucket_is_taken_in(outside: Outside) -> None:
    """Whole where it is small, in ranges where it is large, and only while it is the one that was looked at."""
    outside.put("small.jsonl", b"small")
    outside.put("large.jsonl", PART + b"end")
    small, large = outside.uri("small.jsonl"), outside.uri("large.jsonl")
    info = outside.elsewhere.stat(large)
    assert len(PART) + 3 == info.size
    upload = outside.bucket.begin(KEY)
    outside.elsewhere.fetch(KEY, upload, 1, uri=large, span=(0, len(PART)), etag=info.etag)
    outside.elsewhere.fetch(KEY, upload, 2, uri=small, span=None, etag=outside.elsewhere.stat(small).etag)
    outside.bucket.complete(KEY, upload)
    assert PART + b"small" == outside.bucket.get(KEY)


def test_what_is_not_there_or_has_changed_is_not_taken_in(outside: Outside) -> None:
    """Missing objects and missing buckets alike."""
    outside.put("in.jsonl", b"one")
    etag = outside.elsewhere.stat(outside.uri("in.jsonl")).etag
    outside.put("in.jsonl", b"two")
    upload = outside.bucket.begin(KEY)
    with pytest.raises(Conflict):
        outside.elsewhere.fetch(KEY, upload, 1, uri=outside.uri("in.jsonl"), span=None, etag=etag)
    for uri in (outside.uri("none.jsonl"), "s3://forbidden/in.jsonl"):
        with pytest.raises(NotFound):
            outside.elsewhere.stat(uri)


@pytest.mark.parametrize("code", ["400", "403", "InvalidObjectState", "InvalidRequest", "KMS.NotFoundException"])
def test_an_object_that_s3_does_not_hand_out_is_as_good_as_not_there(code: str, aws: Aws) -> None:
    """In an archive, under a key of the caller's own, in another region: it is the caller's to mend, not ours."""

    def refuse(_: Call) -> Any:
        raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Call")

    hostile = Hostile(aws.client("s3"), {"head_object": [refuse], "upload_part_copy": [refuse], "copy": [refuse]})
    elsewhere = S3Elsewhere(hostile.port, "ours")
    with pytest.raises(NotFound):
        elsewhere.stat("s3://lake/in.jsonl")
    with pytest.raises(NotFound):
        elsewhere.fetch(KEY, "upload", 1, uri="s3://lake/in.jsonl", span=None, etag="etag")
    with pytest.raises(NotFound):
        elsewhere.deliver(KEY, "s3://lake/out.jsonl")


def test_an_object_of_ours_is_delivered(outside: Outside) -> None:
    """Over whatever is there; not where we may not write."""
    outside.bucket.put(KEY, b"rows")
    outside.put("out.jsonl", b"old")
    outside.elsewhere.deliver(KEY, outside.uri("out.jsonl"))
    assert len(b"rows") == outside.elsewhere.stat(outside.uri("out.jsonl")).size
    with pytest.raises(NotFound):
        outside.elsewhere.deliver(KEY, "s3://forbidden/out.jsonl")


def test_urls_say_what_they_are_for(bucket: Bucket, aws: Aws) -> None:
    """Nobody is asked, and they end."""
    signer: Any = bucket if hasattr(bucket, "get_url") else S3Presigner(aws.client("s3"), "contract-urls")
    get = signer.get_url(KEY, seconds=60, content_type="application/jsonl")
    put = signer.part_url(KEY, "upload-1", 7, seconds=60)
    assert KEY in get
    assert KEY in put
    assert get != put
    assert any("7" in values for values in parse_qs(urlsplit(put).query).values())


def test_a_signed_url_serves_without_a_key(aws: Aws) -> None:
    """GET gives the object under the content type asked for, also in ranges; PUT makes a part."""
    client = aws.client("s3")
    name = "contract-signed"
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    client.put_object(Bucket=name, Key=KEY, Body=b"0123456789")
    signer = S3Presigner(client, name)
    got = requests.get(
        signer.get_url(KEY, seconds=60, content_type="application/jsonl"), headers={"range": "bytes=2-4"}, timeout=9
    )
    assert (206, b"234", "application/jsonl") == (got.status_code, got.content, got.headers["content-type"])
    upload = client.create_multipart_upload(Bucket=name, Key=KEY)["UploadId"]
    put = requests.put(signer.part_url(KEY, upload, 1, seconds=60), data=b"part", timeout=9)
    parts = client.list_parts(Bucket=name, Key=KEY, UploadId=upload)["Parts"]
    assert [put.headers["etag"]] == [part["ETag"] for part in parts]
