"""Files, once they are there: shown, listed, deleted, expired, and nobody else's."""

import msgspec
import openai
import pytest

from shared.core.records import File
from tests.api.world import ACME, OTHER_KEY, START, World

THIRTY_DAYS = 30 * 86400


def put_result(world: World) -> str:
    """Keep the record of a result file."""
    file = File(
        id=world.new_id("file-"),
        org="acme",
        contract="openai",
        bytes=1,
        filename="batch_1_output.jsonl",
        purpose="batch_output",
        created_at=int(world.time),
    )
    world.memory.files.put(file)
    return file.id


def test_files_are_listed_newest_first_and_oldest_first_on_demand(world: World) -> None:
    """The order is that of creation."""
    made = [world.upload() for _ in range(3)]

    assert made[::-1] == [file.id for file in world.openai().files.list()]
    assert made == [file.id for file in world.openai().files.list(order="asc")]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_walking_the_pages_yields_each_file_once(world: World, order: str) -> None:
    """Auto-pagination over 45 files in pages of 10."""
    made = [world.upload() for _ in range(45)]

    walked = [file.id for file in world.openai().files.list(limit=10, order=order)]  # type: ignore[arg-type]

    assert (made if order == "asc" else made[::-1]) == walked


def test_a_page_of_one_purpose_is_full_while_more_remain(world: World) -> None:
    """The filter costs no place on the page, and `has_more` counts wanted files only."""
    inputs = []
    for number in range(30):
        if number % 10 == 0:
            inputs.append(world.upload())
        put_result(world)

    page = world.http().get("files", params={"purpose": "batch", "limit": 2}).json()
    rest = world.http().get("files", params={"purpose": "batch", "limit": 2, "after": page["last_id"]}).json()

    assert inputs[:0:-1] == [file["id"] for file in page["data"]]
    assert (inputs[2], inputs[1], True) == (page["first_id"], page["last_id"], page["has_more"])
    assert ([inputs[0]], False) == ([file["id"] for file in rest["data"]], rest["has_more"])
    assert 30 == len(world.openai().files.list(purpose="batch_output").data)


def test_an_empty_list_has_no_ends(world: World) -> None:
    """All keys are there, null."""
    page = world.http().get("files").json()

    assert {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False} == page


@pytest.mark.parametrize(
    "after", ["file-00000000000000000000000000", "nonsense", "", "batch_00000000000000000000000000"]
)
def test_an_unknown_cursor_is_refused(world: World, after: str) -> None:
    """Nobody pages on from a file that is not there."""
    answer = world.http().get("files", params={"after": after})

    assert (400, "after") == (answer.status_code, answer.json()["error"]["param"])


def test_the_cursor_of_another_organization_is_unknown(world: World) -> None:
    """Its id is no place in my list."""
    assert 400 == world.http(OTHER_KEY).get("files", params={"after": world.upload()}).status_code


@pytest.mark.parametrize(
    ("query", "param", "code"),
    [
        ({"limit": "0"}, "limit", "integer_below_min_value"),
        ({"limit": "-5"}, "limit", "integer_below_min_value"),
        ({"limit": "10001"}, "limit", "integer_above_max_value"),
        ({"limit": "many"}, "limit", "invalid_request"),
        ({"order": "up"}, "order", "invalid_request"),
    ],
)
def test_parameters_out_of_range_are_refused(world: World, query: dict[str, str], param: str, code: str) -> None:
    """Each with the code that says which way."""
    error = world.http().get("files", params=query).json()["error"]

    assert (param, code) == (error["param"], error["code"])


def test_a_deleted_file_is_gone_with_its_bytes(world: World) -> None:
    """Record, object and scan."""
    file_id = world.upload()

    deleted = world.openai().files.delete(file_id)

    assert (file_id, "file", True) == (deleted.id, deleted.object, deleted.deleted)
    assert [] == world.memory.blobs.keys()
    with pytest.raises(openai.NotFoundError):
        world.openai().files.retrieve(file_id)
    with pytest.raises(openai.NotFoundError):
        world.openai().files.delete(file_id)


def test_a_file_that_a_live_batch_needs_cannot_be_deleted(world: World) -> None:
    """409, which is not worth a retry, and the file stays."""
    file_id = world.upload()
    world.create(file_id)

    answer = world.http().delete(f"files/{file_id}")

    assert (409, "file_in_use") == (answer.status_code, answer.json()["error"]["code"])
    assert "false" == answer.headers["x-should-retry"]
    assert file_id == world.openai().files.retrieve(file_id).id


def test_an_expired_file_is_gone_before_anybody_sweeps_it(world: World) -> None:
    """Reading, listing, downloading, deleting and using it: as if it had never been."""
    file_id = world.upload()
    world.time = START + THIRTY_DAYS

    for method, path in (("GET", ""), ("GET", "/content"), ("HEAD", "/content"), ("DELETE", "")):
        assert 404 == world.http().request(method, f"files/{file_id}{path}").status_code
    assert [] == world.openai().files.list().data
    with pytest.raises(openai.NotFoundError):
        world.create(file_id)


def test_a_file_does_not_expire_under_a_live_batch(world: World) -> None:
    """Held files stay; once let go, they expire as they should have."""
    file_id = world.upload()
    world.create(file_id)
    world.time = START + THIRTY_DAYS

    assert 200 == world.http().get(f"files/{file_id}").status_code
    world.memory.files.update(ACME, file_id, lambda file: msgspec.structs.replace(file, held_by=()))
    assert 404 == world.http().get(f"files/{file_id}").status_code


def test_a_foreign_file_is_a_missing_file(world: World) -> None:
    """The answers for somebody else's id and for an invented one are the same."""
    mine, invented = world.upload(), "file-00000000000000000000000000"
    for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
        theirs = world.http(OTHER_KEY).request(method, f"files/{mine}{path}")
        nobodys = world.http(OTHER_KEY).request(method, f"files/{invented}{path}")
        assert (404, nobodys.json()) == (theirs.status_code, theirs.json())
    assert [] == world.openai(OTHER_KEY).files.list().data
    assert mine == world.openai().files.retrieve(mine).id
