"""What another organization has, or what was made under another mount, is answered like what nobody has, wherever its id stands."""

from typing import Any

import pytest

from tests.api import dialects
from tests.api.dialects import CHAT, chat, jsonl
from tests.api.runs import MOUNTS, running
from tests.api.world import KEY, World

FOREIGN_KEY = "sk-foreign"
NOBODYS = {"batch": "batch_" + "0" * 26, "file": "file-" + "0" * 26, "upload": "upload_" + "0" * 26}

REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "files/{file}", {}),
    ("DELETE", "files/{file}", {}),
    ("GET", "files/{file}/content", {}),
    ("HEAD", "files/{file}/content", {}),
    ("GET", "files?after={file}", {}),
    ("GET", "batches/{batch}", {}),
    ("GET", "batches?after={batch}", {}),
    ("POST", "batches/{batch}/cancel", {}),
    ("POST", "batches/{batch}/retry", {"headers": {"idempotency-key": "again"}}),
    ("GET", "batches/{batch}/results", {}),
    ("GET", "batches/{batch}/results?after={cursor}", {}),
    ("POST", "batches", {"headers": {"idempotency-key": "new"}, "create": True}),
    ("POST", "batches/validate", {"create": True}),
    ("GET", "uploads/{upload}", {}),
    ("POST", "uploads/{upload}/parts", {"files": {"data": b"x"}}),
    ("POST", "uploads/{upload}/urls", {"json": {"count": 1}}),
    ("POST", "uploads/{upload}/complete", {"json": {"part_ids": ["{part}"]}}),
    ("POST", "uploads/{upload}/cancel", {}),
]


def everything(world: World, contract: str) -> dict[str, str]:
    """Make one of each; give their ids."""
    run = running(world, contract)
    run.commit(0, good=[0])
    http = world.http(contract=contract)
    content = jsonl(chat())
    begun = {"filename": "a.jsonl", "purpose": "batch", "bytes": len(content), "mime_type": "application/jsonl"}
    upload = http.post("uploads", json=begun).json()["id"]
    return {
        "batch": run.ref.id,
        "file": run.batch.input_file_id,
        "cursor": http.get(f"batches/{run.ref.id}/results", params={"limit": 1}).json()["next"],
        "upload": upload,
        "part": http.post(f"uploads/{upload}/parts", files={"data": content}).json()["id"],
    }


def answer(http: Any, method: str, path: str, options: dict[str, Any], ids: dict[str, str]) -> tuple[int, str]:
    """Ask; give the status and the body, in which ids stand for themselves."""
    options = dict(options)
    if options.pop("create", False):
        options["json"] = {"input_file_id": ids["file"], "endpoint": CHAT, "completion_window": "24h"}
    if "part_ids" in options.get("json", {}):
        options["json"] = {"part_ids": [ids["part"]]}
    told = http.request(method, path.format_map(ids), **options)
    body = told.text
    for name, value in ids.items():
        body = body.replace(value, name)
    return told.status_code, body


@pytest.mark.parametrize("contract", MOUNTS)
def test_the_foreign_is_the_missing(contract: str) -> None:
    """Word for word, and nothing of it has changed."""
    world = dialects.world()
    world.add_key(FOREIGN_KEY, "foreign", "batch:write", "inference:write", "routing:write", "read")
    mine = everything(world, contract)
    before = world.http(contract=contract).get(f"batches/{mine['batch']}").json()
    strangers = [(FOREIGN_KEY, contract), *((KEY, mount) for mount in MOUNTS if mount != contract)]
    for secret, mount in strangers:
        http = world.http(secret, mount)
        for method, path, options in REQUESTS:
            status, body = answer(http, method, path, options, mine)
            assert status in {400, 404}, (mount, method, path)
            assert (status, body) == answer(http, method, path, options, mine | NOBODYS), (mount, method, path)
    assert before == world.http(contract=contract).get(f"batches/{mine['batch']}").json()
    assert 200 == world.http(contract=contract).get(f"files/{mine['file']}").status_code
    done = {"part_ids": [mine["part"]]}
    assert 200 == world.http(contract=contract).post(f"uploads/{mine['upload']}/complete", json=done).status_code


@pytest.mark.parametrize("contract", MOUNTS)
def test_a_part_and_a_place_belong_to_one_thing(contract: str) -> None:
    """A part of another upload is no part, and a place in another batch's results is none, though both are one's own."""
    world = dialects.world()
    first, second = everything(world, contract), everything(world, contract)
    http = world.http(contract=contract)
    part = http.post(f"uploads/{first['upload']}/complete", json={"part_ids": [second["part"]]})
    assert (400, "invalid_request", "part_ids") == dialects.error(part)
    place = http.get(f"batches/{first['batch']}/results", params={"after": second["cursor"]})
    assert (400, "invalid_request", "after") == dialects.error(place)
