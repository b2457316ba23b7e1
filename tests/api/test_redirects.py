"""Content where an answer must stay small: a large one comes by a redirect to a signed URL."""

from urllib.parse import parse_qs, urlsplit

import pytest

from shared.core import paths
from tests.api.world import World, lines

SMALL = len(lines(3))


@pytest.fixture
def narrow() -> World:
    """Give a world whose answers hold three lines."""
    world = World()
    world.app = world.build(inline_bytes=SMALL)
    return world


def test_a_large_content_is_a_redirect_to_the_store(narrow: World) -> None:
    """With the content's type, for a while, and not to be kept by caches."""
    file_id = narrow.upload(lines(4))

    answer = narrow.http().get(f"files/{file_id}/content", follow_redirects=False)

    assert (302, b"") == (answer.status_code, answer.content)
    target = urlsplit(answer.headers["location"])
    assert answer.headers["location"].startswith(f"memory://{paths.file('acme', file_id)}?")
    assert ["application/jsonl"] == parse_qs(target.query)["content-type"]
    assert "no-store" == answer.headers["cache-control"]


def test_a_small_content_comes_at_once(narrow: World) -> None:
    """Up to the limit."""
    file_id = narrow.upload(lines(3))

    assert lines(3) == narrow.openai().files.content(file_id).content


def test_a_small_range_of_a_large_content_comes_at_once(narrow: World) -> None:
    """A large one is redirected as well; one outside is refused here."""
    file_id = narrow.upload(lines(100))
    http = narrow.http()

    small = http.get(f"files/{file_id}/content", headers={"range": "bytes=10-19"})
    large = http.get(f"files/{file_id}/content", headers={"range": "bytes=10-"}, follow_redirects=False)
    outside = http.get(f"files/{file_id}/content", headers={"range": "bytes=999999-"}, follow_redirects=False)

    assert (206, lines(100)[10:20]) == (small.status_code, small.content)
    assert (302, 416) == (large.status_code, outside.status_code)


def test_the_size_is_told_without_a_redirect(narrow: World) -> None:
    """HEAD has no body."""
    answer = narrow.http().head(f"files/{narrow.upload(lines(4))}/content", follow_redirects=False)

    assert (200, str(len(lines(4)))) == (answer.status_code, answer.headers["content-length"])


def test_a_redirect_is_for_those_who_may_read(narrow: World) -> None:
    """Another organization gets none."""
    file_id = narrow.upload(lines(4))

    assert 404 == narrow.http("sk-other").get(f"files/{file_id}/content", follow_redirects=False).status_code
    assert 401 == narrow.http(None).get(f"files/{file_id}/content", follow_redirects=False).status_code


def test_the_document_tells_of_redirects_where_there_are_any(narrow: World) -> None:
    """A server that streams sends none."""
    for world, redirects in ((narrow, True), (World(), False)):
        answers = world.http().get("openapi.json").json()["paths"]["/v1/files/{file_id}/content"]["get"]["responses"]
        assert redirects == ("302" in answers)


def test_a_list_that_is_too_large_goes_on_on_the_next_page(world: World) -> None:
    """Each object comes once, as many at a time as fit; one that is too large by itself comes alone."""
    world.app = world.build(inline_bytes=800)
    files = [world.upload() for _ in range(9)]
    batches = [world.create(files[0], metadata={"note": "x" * 512}) for _ in range(3)]
    http, client = world.http(), world.openai()

    page = http.get("files").json()

    assert 1 < len(page["data"]) < len(files)
    assert (True, files[-1], page["data"][-1]["id"]) == (page["has_more"], page["first_id"], page["last_id"])
    assert len(http.get("files").content) <= 800 + 100
    assert files[::-1] == [file.id for file in client.files.list()]
    assert files == [file.id for file in client.files.list(order="asc")]
    assert 1 == len(http.get("batches").json()["data"])
    assert batches[::-1] == [batch.id for batch in client.batches.list()]
