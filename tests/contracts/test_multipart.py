"""What `shared.ports.Multipart` promises."""

import pytest

from shared.adapters.s3 import S3Blobs
from shared.core.errors import Conflict, NotFound, Unavailable
from shared.ports import BlobInfo
from tests.contracts.conftest import REGION, Aws, Bucket, fresh_name
from tests.contracts.samples import at_once

KEY = "orgs/acme/files/file-out"
SOURCE = "orgs/acme/batches/b1/chunks/0"
PART = b"p" * (5 << 20)


def test_an_object_is_made_of_its_parts_in_order(bucket: Bucket) -> None:
    """Whichever order they were written in; the last may be small."""
    upload = bucket.begin(KEY)
    bucket.part(KEY, upload, 3, b"end")
    bucket.part(KEY, upload, 1, PART)
    bucket.part(KEY, upload, 2, PART[::-1])
    info = bucket.complete(KEY, upload)
    assert bucket.stat(KEY) == info
    assert 2 * len(PART) + 3 == info.size
    assert PART + PART[::-1] + b"end" == bucket.get(KEY, etag=info.etag)


def test_nothing_is_there_before_it_is_complete(bucket: Bucket) -> None:
    """Parts are not an object."""
    bucket.part(KEY, bucket.begin(KEY), 1, b"part")
    with pytest.raises(NotFound):
        bucket.stat(KEY)


def test_a_part_may_be_written_again(bucket: Bucket) -> None:
    """The last one stays."""
    upload = bucket.begin(KEY)
    bucket.part(KEY, upload, 1, b"first")
    bucket.part(KEY, upload, 1, b"second")
    bucket.complete(KEY, upload)
    assert b"second" == bucket.get(KEY)


def test_a_part_may_be_copied_from_an_object(bucket: Bucket) -> None:
    """A range of it, inside the store."""
    etag = bucket.put(SOURCE, b"ab" + PART + b"yz")
    upload = bucket.begin(KEY)
    bucket.copy(KEY, upload, 1, source=SOURCE, start=2, end=2 + len(PART), etag=etag)
    bucket.part(KEY, upload, 2, b"end")
    bucket.complete(KEY, upload)
    assert PART + b"end" == bucket.get(KEY)


def test_a_copy_insists_on_its_source(bucket: Bucket) -> None:
    """Another object in its place is a conflict, none is not found."""
    etag = bucket.put(SOURCE, b"committed")
    bucket.put(SOURCE, b"overwritten")
    upload = bucket.begin(KEY)
    with pytest.raises(Conflict):
        bucket.copy(KEY, upload, 1, source=SOURCE, start=0, end=9, etag=etag)
    with pytest.raises(NotFound):
        bucket.copy(KEY, upload, 1, source="orgs/acme/none", start=0, end=9, etag=etag)


def test_completing_may_be_repeated(bucket: Bucket) -> None:
    """It gives the object; parts can be written no more."""
    upload = bucket.begin(KEY)
    bucket.part(KEY, upload, 1, b"all")
    first = bucket.complete(KEY, upload)
    assert first == bucket.complete(KEY, upload)
    with pytest.raises(NotFound):
        bucket.part(KEY, upload, 2, b"late")
    assert b"all" == bucket.get(KEY)


def test_of_five_completions_all_give_the_object(bucket: Bucket) -> None:
    """A second Finalize may run beside the first."""
    upload = bucket.begin(KEY)
    bucket.part(KEY, upload, 1, b"all")
    answers = at_once(5, lambda _: bucket.complete(KEY, upload))
    assert [bucket.stat(KEY)] * 5 == answers


def test_a_part_that_is_written_again_while_an_upload_is_completed_is_a_matter_of_trying_again(aws: Aws) -> None:
    """A second Finalize writes the same bytes again; encrypted they have another ETag."""

    class Raced(S3Blobs):
        def parts(self, key: str, upload: str) -> list[tuple[int, BlobInfo]]:
            found = super().parts(key, upload)
            super().part(key, upload, 1, next(versions))
            return found

    name, versions = fresh_name(), iter([b"again", b"again"])
    client = aws.client("s3")
    client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    bucket = Raced(client, name)
    upload = bucket.begin(KEY)
    bucket.part(KEY, upload, 1, b"first")
    with pytest.raises(Unavailable):
        bucket.complete(KEY, upload)
    bucket.complete(KEY, upload)
    assert b"again" == bucket.get(KEY)


def test_an_upload_that_never_was_cannot_be_completed(bucket: Bucket) -> None:
    """There is neither upload nor object."""
    upload = bucket.begin(KEY)
    bucket.abort(KEY, upload)
    with pytest.raises(NotFound):
        bucket.complete(KEY, upload)


def test_an_aborted_upload_is_forgotten(bucket: Bucket) -> None:
    """Aborting again is no error, nor is it after completion, which it does not undo."""
    upload = bucket.begin(KEY)
    bucket.part(KEY, upload, 1, b"part")
    bucket.abort(KEY, upload)
    bucket.abort(KEY, upload)
    with pytest.raises(NotFound):
        bucket.part(KEY, upload, 2, b"part")
    done = bucket.begin(KEY)
    bucket.part(KEY, done, 1, b"all")
    bucket.complete(KEY, done)
    bucket.abort(KEY, done)
    assert b"all" == bucket.get(KEY)


def test_two_uploads_of_one_key_do_not_mix(bucket: Bucket) -> None:
    """Each has its own parts."""
    one, two = bucket.begin(KEY), bucket.begin(KEY)
    bucket.part(KEY, one, 1, b"one")
    bucket.part(KEY, two, 1, b"two")
    bucket.complete(KEY, one)
    assert b"one" == bucket.get(KEY)
    bucket.complete(KEY, two)
    assert b"two" == bucket.get(KEY)
