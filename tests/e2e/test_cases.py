"""The input cases, through the whole stack: each is one upload and one create, and says how that ends (tests/cases/README.md)."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from shared.core.contracts import CONTRACTS
from tests.e2e.stack import LocalStack, until

pytestmark = pytest.mark.stack

CASES = Path(__file__).parent.parent / "cases"


def _cases() -> list[Path]:
    return [path.parent for path in sorted(CASES.glob("*/case.json")) if _read(path.parent)["contract"] in CONTRACTS]


def _read(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "case.json").read_bytes()))


@pytest.mark.parametrize("folder", _cases(), ids=lambda folder: folder.name)
def test_a_case_ends_as_it_says(stack: LocalStack, folder: Path) -> None:
    """The upload, the create and the batch end as the case says."""
    case = _read(folder)
    expect = case["expect"]
    with stack.client(contract=case["contract"]) as client:
        http = httpx.Client(base_url=str(client.base_url), headers=client.auth_headers, timeout=60)
        with http:
            file = (case["filename"], (folder / "input.jsonl").read_bytes())
            uploaded = http.post("files", data={"purpose": "batch"}, files={"file": file})
            _assert_answer(expect["upload"], uploaded)
            if "create" not in expect:
                return
            created = http.post("batches", json=_create(case, uploaded.json()["id"]), headers=_headers(case, folder))
            _assert_answer(expect["create"], created)
        if "final" not in expect:
            return
        batch = until(client, client.batches.retrieve(created.json()["id"]))
        assert expect["final"] == batch.status
        if "counts" in expect:
            assert batch.request_counts is not None
            assert expect["counts"] == batch.request_counts.to_dict()
        if "errors" in expect:
            assert batch.errors is not None
            assert expect["errors"] == [{"code": error.code, "line": error.line} for error in batch.errors.data or []]


def _create(case: dict[str, Any], file_id: str) -> dict[str, Any]:
    fields = {"input_file_id": file_id, "endpoint": case["endpoint"], "completion_window": "24h"}
    fields |= case.get("create", {})
    return {name: value for name, value in fields.items() if name not in case.get("omit", ())}


def _headers(case: dict[str, Any], folder: Path) -> dict[str, str]:
    key = case.get("idempotency_key", folder.name)
    return {} if key is None else {"Idempotency-Key": key}


def _assert_answer(expected: dict[str, Any], answer: httpx.Response) -> None:
    assert expected["status"] == answer.status_code, answer.text
    if "code" in expected:
        assert expected["code"] == answer.json()["error"]["code"]
