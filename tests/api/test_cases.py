"""The input cases, as far as upload and create decide them."""

import json
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response

from shared.core.contracts import CONTRACTS
from tests.api.world import World

CASES = [path.parent for path in sorted((Path(__file__).parents[1] / "cases").glob("*/case.json"))]


def load(folder: Path) -> dict[str, Any]:
    """Read a case."""
    case: dict[str, Any] = json.loads((folder / "case.json").read_bytes())
    return case


MOUNTED = [folder for folder in CASES if load(folder)["contract"] in CONTRACTS]


def assert_as_expected(expected: dict[str, Any], answer: Response) -> None:
    """Compare status and code."""
    assert expected["status"] == answer.status_code
    if "code" in expected:
        assert expected["code"] == answer.json()["error"]["code"]


@pytest.mark.parametrize("folder", MOUNTED, ids=lambda folder: folder.name)
def test_the_case_uploads_and_creates_as_expected(folder: Path) -> None:
    """Status and code of both requests; what comes of the batch is not decided here."""
    case = load(folder)
    world = World(contracts=[case["contract"]])
    file = (case["filename"], (folder / "input.jsonl").read_bytes())

    http = world.http(contract=case["contract"])

    upload = http.post("files", data={"purpose": "batch"}, files={"file": file})
    assert_as_expected(case["expect"]["upload"], upload)
    if "create" not in case["expect"]:
        return

    body = {"input_file_id": upload.json()["id"], "endpoint": case["endpoint"], "completion_window": "24h"}
    body |= case.get("create", {})
    for name in case.get("omit", []):
        del body[name]
    key = case.get("idempotency_key", folder.name)
    create = http.post("batches", json=body, headers={} if key is None else {"idempotency-key": key})
    assert_as_expected(case["expect"]["create"], create)
