"""What `shared.ports.Blobs` promises."""

import pytest

from shared.core.errors import Conflict, NotFound
from tests.contracts.conftest import Bucket
from tests.contracts.samples import at_once

KEY = "orgs/acme/files/file-1"
MIB = 1 << 20


def test_an_object_comes_back_as_it_was_put(bucket: Bucket) -> None:
    """Byte for byte, with its size."""
    etag = bucket.put(KEY, b"low water\n")
    assert b"low water\n" == bucket.get(KEY)
    assert (10, etag) == (bucket.stat(KEY).size, bucket.stat(KEY).etag)


def test_an_object_may_be_empty(bucket: Bucket) -> None:
    """An error file can have no rows."""
    bucket.put(KEY, b"")
    assert b"" == bucket.get(KEY)
    assert b"" == bucket.get(KEY, 0, 10)
    assert [] == list(bucket.stream(KEY))
    assert 0 == bucket.stat(KEY).size


def test_a_put_replaces_what_was_there(bucket: Bucket) -> None:
    """And gives it another ETag."""
    before = bucket.put(KEY, b"ebb")
    after = bucket.put(KEY, b"flood")
    assert before != after
    assert b"flood" == bucket.get(KEY)


def test_a_put_only_if_absent_never_replaces(bucket: Bucket) -> None:
    """The first one stays."""
    etag = bucket.put(KEY, b"ebb", only_if_absent=True)
    with pytest.raises(Conflict):
        bucket.put(KEY, b"flood", only_if_absent=True)
    assert b"ebb" == bucket.get(KEY, etag=etag)


def test_of_twenty_puts_only_if_absent_one_succeeds(bucket: Bucket) -> None:
    """Its bytes are the object's."""
    answers = at_once(20, lambda number: (number, bucket.put(KEY, b"%d" % number, only_if_absent=True)))
    ((number, etag),) = [answer for answer in answers if isinstance(answer, tuple)]
    assert b"%d" % number == bucket.get(KEY, etag=etag)


@pytest.mark.parametrize(
    ("start", "end", "piece"),
    [
        (0, None, b"0123456789"),
        (0, 10, b"0123456789"),
        (3, None, b"3456789"),
        (3, 7, b"3456"),
        (9, 10, b"9"),
        (3, 99, b"3456789"),
        (4, 4, b""),
        (10, None, b""),
        (50, 60, b""),
    ],
)
def test_a_range_is_from_start_to_before_end(bucket: Bucket, start: int, end: int | None, piece: bytes) -> None:
    """As far as the object has it, like a slice."""
    bucket.put(KEY, b"0123456789")
    assert piece == bucket.get(KEY, start, end)
    assert piece == b"".join(bucket.stream(KEY, start, end))


def test_a_reader_may_insist_on_an_etag(bucket: Bucket) -> None:
    """Bytes of another object of that key are never given, nor is the absence of any in an empty range."""
    etag = bucket.put(KEY, b"ebb")
    assert b"bb" == bucket.get(KEY, 1, etag=etag)
    bucket.put(KEY, b"flood")
    for start, end in ((0, None), (1, 3), (1, 1)):
        with pytest.raises(Conflict):
            bucket.get(KEY, start, end, etag=etag)


def test_a_missing_object_is_not_found(bucket: Bucket) -> None:
    """By any method, also for an empty range; a stream says so with its first piece."""
    with pytest.raises(NotFound):
        bucket.get(KEY)
    with pytest.raises(NotFound):
        bucket.get(KEY, 5, 5)
    with pytest.raises(NotFound):
        bucket.get(KEY, etag='"some"')
    with pytest.raises(NotFound):
        bucket.stat(KEY)
    with pytest.raises(NotFound):
        next(bucket.stream(KEY))


def test_a_stream_gives_pieces(bucket: Bucket) -> None:
    """No piece is larger than a mebibyte, and none is empty."""
    data = bytes(range(256)) * (10 * MIB // 1024)
    bucket.put(KEY, data)
    pieces = list(bucket.stream(KEY, 5))
    assert data[5:] == b"".join(pieces)
    assert all(0 < len(piece) <= MIB for piece in pieces)
    assert 1 < len(pieces)


def test_a_stream_may_be_left_in_the_middle(bucket: Bucket) -> None:
    """Nothing of it stays open: an unclosed connection would be a warning, and warnings are errors."""
    bucket.put(KEY, b"x" * (3 * MIB))
    pieces = bucket.stream(KEY)
    next(pieces)
    del pieces
    assert b"x" == bucket.get(KEY, 0, 1)


def test_a_prefix_is_deleted_with_all_that_is_under_it(bucket: Bucket) -> None:
    """And nothing else; nothing to delete is no error."""
    for key in ("orgs/acme/batches/b1/plan/0", "orgs/acme/batches/b1/chunks/0", "orgs/acme/batches/b11/plan/0"):
        bucket.put(key, b"x")
    bucket.delete("orgs/acme/batches/b1/")
    bucket.delete("orgs/acme/batches/b1/")
    with pytest.raises(NotFound):
        bucket.stat("orgs/acme/batches/b1/plan/0")
    with pytest.raises(NotFound):
        bucket.stat("orgs/acme/batches/b1/chunks/0")
    assert 1 == bucket.stat("orgs/acme/batches/b11/plan/0").size


def test_more_objects_than_a_listing_holds_are_deleted(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch may have thousands of chunks; here a listing holds ten."""
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    for number in range(25):
        bucket.put(f"orgs/acme/batches/b1/chunks/{number}", b"")
    bucket.delete("orgs/acme/batches/b1/")
    for number in (0, 9, 10, 24):
        with pytest.raises(NotFound):
            bucket.stat(f"orgs/acme/batches/b1/chunks/{number}")


def test_the_bucket_is_never_deleted_as_a_whole(bucket: Bucket) -> None:
    """An empty prefix is a mistake."""
    bucket.put(KEY, b"x")
    with pytest.raises(ValueError, match="prefix"):
        bucket.delete("")
    assert b"x" == bucket.get(KEY)
