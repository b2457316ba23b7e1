"""Downloads: the whole file, one range of it, or only its size."""

import pytest

from tests.api.world import World, lines

CONTENT = lines(2)
SIZE = len(CONTENT)


@pytest.fixture
def url(world: World) -> str:
    """Upload a file and give the path of its content."""
    return f"files/{world.upload(CONTENT)}/content"


def test_the_sdk_downloads_what_was_uploaded(world: World) -> None:
    """Every byte, and nothing else."""
    client = world.openai()

    assert CONTENT == client.files.content(world.upload(CONTENT)).content


def test_a_whole_download_says_what_it_is(world: World, url: str) -> None:
    """Type, length, ETag, and that ranges may be asked for."""
    answer = world.http().get(url)

    assert (200, CONTENT) == (answer.status_code, answer.content)
    assert "application/jsonl" == answer.headers["content-type"]
    assert str(SIZE) == answer.headers["content-length"]
    assert "bytes" == answer.headers["accept-ranges"]
    assert answer.headers["etag"].startswith('"')
    assert answer.headers["etag"].endswith('"')


def test_head_says_the_same_without_the_bytes(world: World, url: str) -> None:
    """Everything but the content."""
    whole, head = world.http().get(url), world.http().head(url)

    assert (200, b"") == (head.status_code, head.content)
    for name in ("content-type", "content-length", "etag", "accept-ranges"):
        assert whole.headers[name] == head.headers[name]


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=10-", 10, SIZE),
        ("bytes=-10", SIZE - 10, SIZE),
        (f"bytes=-{SIZE + 10}", 0, SIZE),
        (f"bytes=10-{SIZE + 10}", 10, SIZE),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE),
        ("Bytes = 1-2", 1, 3),
    ],
)
def test_a_range_is_served(world: World, url: str, wanted: str, start: int, end: int) -> None:
    """The bytes that were asked for, and where they stand in the file."""
    answer = world.http().get(url, headers={"range": wanted})

    assert (206, CONTENT[start:end]) == (answer.status_code, answer.content)
    assert f"bytes {start}-{end - 1}/{SIZE}" == answer.headers["content-range"]
    assert str(end - start) == answer.headers["content-length"]


@pytest.mark.parametrize(
    "wanted", ["bytes=5-1", "bytes=0-1,3-4", "bytes=-", "bytes=x-", "lines=0-1", "bytes", "bytes=" + "9" * 30 + "-"]
)
def test_a_range_that_is_none_is_ignored(world: World, url: str, wanted: str) -> None:
    """What is malformed, or more than one range, gets the whole file."""
    answer = world.http().get(url, headers={"range": wanted})

    assert (200, CONTENT) == (answer.status_code, answer.content)


@pytest.mark.parametrize("wanted", [f"bytes={SIZE}-", f"bytes={SIZE + 5}-{SIZE + 9}", "bytes=-0"])
def test_a_range_outside_of_the_file_cannot_be_served(world: World, url: str, wanted: str) -> None:
    """416 says how large the file is."""
    answer = world.http().get(url, headers={"range": wanted})

    assert 416 == answer.status_code
    assert f"bytes */{SIZE}" == answer.headers["content-range"]
    assert "range_not_satisfiable" == answer.json()["error"]["code"]


def test_a_download_goes_on_where_it_stopped_while_the_file_is_the_same(world: World, url: str) -> None:
    """A matching If-Range continues; another one begins again with the whole file."""
    etag = world.http().get(url).headers["etag"]

    same = world.http().get(url, headers={"range": "bytes=10-", "if-range": etag})
    other = world.http().get(url, headers={"range": "bytes=10-", "if-range": '"another"'})

    assert (206, CONTENT[10:]) == (same.status_code, same.content)
    assert (200, CONTENT) == (other.status_code, other.content)


def test_a_foreign_file_cannot_be_downloaded(world: World, url: str) -> None:
    """For others it does not exist."""
    assert 404 == world.http("sk-other").get(url).status_code
    assert 404 == world.http("sk-other").head(url).status_code
