"""What the `openai` contract takes beyond the common fields, and that a fifth contract is one value."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from functions.api.app import build_app
from shared.core.contracts import CONTRACTS, mounted
from tests.api import dialects
from tests.api.dialects import create, error
from tests.api.world import KEY, START, World


@pytest.fixture
def world() -> World:
    """Give a world with several models."""
    return dialects.world()


def test_execution_callback_and_the_life_of_results_are_kept(world: World) -> None:
    """They are part of the batch's record."""
    told = create(
        world,
        "openai",
        execution="platform",
        callback_url="https://hooks.example.com/",
        output_expires_after={"anchor": "created_at", "seconds": 7200.0},
    ).json()
    record = dialects.record(world, "openai", told["id"])
    assert ("platform", "https://hooks.example.com/", 7200) == (
        record["execution_preference"],
        record["callback_url"],
        record["output_lifetime"],
    )
    assert {"reason": "validating", "since": int(START)} == told["slackwater"]


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("soon", "output_expires_after"),
        ({"anchor": "created_at", "seconds": 3600, "more": 1}, "output_expires_after"),
        ({"anchor": "last_active_at", "seconds": 3600}, "output_expires_after.anchor"),
        ({"anchor": "created_at"}, "output_expires_after.seconds"),
        ({"anchor": "created_at", "seconds": 3599}, "output_expires_after.seconds"),
        ({"anchor": "created_at", "seconds": 2592001}, "output_expires_after.seconds"),
        ({"anchor": "created_at", "seconds": True}, "output_expires_after.seconds"),
    ],
)
def test_the_life_of_results_has_bounds(world: World, value: Any, param: str) -> None:
    """From an hour to thirty days."""
    assert (400, "invalid_request", param) == error(create(world, "openai", output_expires_after=value))


def test_no_provider_runs_batches_here(world: World) -> None:
    """400 `batch_routing_unavailable`."""
    answer = create(world, "openai", execution="provider")
    assert (400, "batch_routing_unavailable", "execution") == error(answer)


def test_a_deployment_lists_the_completion_windows(world: World) -> None:
    """Any number of hours; a batch may name each of them, and no other one. Other contracts have their own."""
    mounts = mounted("openai=/v1,gridline=/gridline/openai/v1", "6h,144h")
    app = build_app(world.services(), mounts, clock=world.clock, new_id=world.new_id)
    http = TestClient(app, base_url="http://testserver/v1", headers={"authorization": f"Bearer {KEY}"})
    file = ("requests.jsonl", dialects.jsonl(dialects.chat()))
    uploaded = http.post("files", data={"purpose": "batch"}, files={"file": file}).json()
    body = {"input_file_id": uploaded["id"], "endpoint": dialects.CHAT}
    for hours in (6, 144):
        told = http.post("batches", json=body | {"completion_window": f"{hours}h"}).json()
        assert (f"{hours}h", int(START) + hours * 3600) == (told["completion_window"], told["expires_at"])
    for window in ("24h", "06h", "6H", "6 h"):
        answer = http.post("batches", json=body | {"completion_window": window})
        assert (400, "invalid_request", "completion_window") == error(answer)
    assert ["6h", "144h"] == http.get("models/tide-7b").json()["batch"]["completion_windows"]
    other = http.get("http://testserver/gridline/openai/v1/models/tide-7b").json()
    assert ["24h", "72h"] == other["batch"]["completion_windows"]


def test_a_fifth_contract_is_one_value(world: World) -> None:
    """A mount of rules that no file has: its windows and its size are what it says."""
    tidal = replace(CONTRACTS["openai"], name="tidal", windows={"6h": 6 * 3600}, file_requests=7)
    app = build_app(world.services(), {"/tidal": tidal}, clock=world.clock, new_id=world.new_id)
    http = TestClient(app, base_url="http://testserver/tidal", headers={"authorization": f"Bearer {KEY}"})
    file = ("requests.jsonl", dialects.jsonl(dialects.chat()))
    uploaded = http.post("files", data={"purpose": "batch"}, files={"file": file}).json()
    body = {"input_file_id": uploaded["id"], "endpoint": dialects.CHAT, "completion_window": "6h"}
    assert int(START) + 6 * 3600 == http.post("batches", json=body).json()["expires_at"]
    terms = http.get("models/tide-7b").json()["batch"]
    assert (["6h"], 7) == (terms["completion_windows"], terms["max_requests"])
