"""Retries over the API: a new batch of the lines that failed or were never answered."""

import json
from typing import Any

import msgspec
import pytest

from shared.core.contracts import CONTRACTS
from shared.core.ids import BatchRef, Space
from shared.core.lifecycle import Event
from shared.core.models import Registry
from shared.core.records import BatchError, Counts
from tests.api import dialects
from tests.api.dialects import chat, error, jsonl
from tests.api.runs import MOUNTS, Run, running
from tests.api.world import KEY, POWERLESS_KEY, World

NOBODY = "batch_00000000000000000000000000"
SESSION = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1In0.c2ln"


@pytest.fixture
def contract(request: pytest.FixtureRequest) -> str:
    """Give a mount; a test that does not say which has the first."""
    return str(getattr(request, "param", "openai"))


@pytest.fixture
def world(contract: str) -> World:
    """Give a world with this mount."""
    return dialects.world(contracts=(contract,))


every_mount = pytest.mark.parametrize("contract", MOUNTS, indirect=True)


def ask(world: World, run: Run, body: Any = None, key: str | None = "again-1", secret: str | None = KEY) -> Any:
    """Ask for a retry; give the answer."""
    headers = {} if key is None else {"idempotency-key": key}
    http = world.http(secret, run.ref.contract)
    return http.post(f"batches/{run.ref.id}/retry", headers=headers, **({} if body is None else {"json": body}))


def keep_input(world: World, run: Run) -> None:
    """Let another batch need the input where it else goes with its first batch."""
    if not CONTRACTS[run.ref.contract].input_ends_with_batch:
        return
    answer = world.http(contract=run.ref.contract).post(
        "batches",
        json={
            "input_file_id": run.batch.input_file_id,
            "endpoint": run.batch.endpoint,
            "completion_window": run.batch.completion_window,
        },
        headers={"idempotency-key": world.new_id("key-")},
    )
    assert 200 == answer.status_code, answer.text


def retried(world: World, run: Run, body: Any = None, key: str = "again-1") -> Run:
    """Retry a batch, and bring the new one to where workers begin."""
    answer = ask(world, run, body, key)
    assert 200 == answer.status_code, answer.text
    return Run(world, run.ref.contract, answer.json()["id"]).begin()


def custom_ids(run: Run) -> list[str]:
    """Give the custom_ids of all rows that a batch has left."""
    return sorted(json.loads(row)["custom_id"] for row in run.delivered())


@every_mount
def test_what_failed_and_what_was_never_answered_is_run_again(world: World, contract: str) -> None:
    """And nothing else: every line of the two batches together has one good answer."""
    run = running(world, contract, 8)
    keep_input(world, run)
    run.commit(0, good=[0], bad=[2])
    run.commit(2, bad=[1], good=[0])
    run.end(Event.CANCEL)
    answer = ask(world, run)

    told = answer.json()
    assert (200, run.ref.id) == (answer.status_code, told["retry_of"])
    assert {"total": 6, "completed": 0, "failed": 0} == told["request_counts"]
    assert told["id"] != run.ref.id
    again = Run(world, contract, told["id"]).begin().answer_all().end()
    assert Counts(total=6, completed=6) == again.batch.counts
    assert ["row-1", "row-2", "row-3", "row-4", "row-5", "row-7"] == custom_ids(again)


@every_mount
def test_a_retry_of_a_retry_runs_what_is_still_left(world: World, contract: str) -> None:
    """Of the same input; its rows name the lines of that, and its own batch."""
    run = running(world, contract, 6)
    keep_input(world, run)
    run.answer_all(bad=["row-1", "row-3", "row-5"]).end()
    again = retried(world, run).answer_all(bad=["row-3", "row-5"]).end()
    third = retried(world, again, key="again-2")
    third.commit(0, good=[1])
    third.end(Event.EXPIRE if contract != "token360" else Event.CANCEL)
    last = retried(world, third, key="again-3").answer_all().end()

    assert ["row-3", "row-5"] == custom_ids(third)
    assert ["row-3"] == custom_ids(last)
    assert run.batch.input_file_id == last.batch.input_file_id
    assert {last.ref.id.removeprefix("batch_")} == {json.loads(row)["id"].split("_")[2] for row in last.delivered()}
    assert {"4"} == {json.loads(row)["id"].split("_")[3] for row in last.delivered()}


@every_mount
def test_it_runs_under_the_terms_of_the_first_one(world: World, contract: str) -> None:
    """Endpoint, window and metadata; two of them may be changed."""
    metadata = {"batchrouter_work_unit_id": "unit-1"} if contract == "boardwalk" else {"job": "nightly"}
    other = {"batchrouter_work_unit_id": "unit-2"} if contract == "boardwalk" else {"job": "daily"}
    run = running(world, contract, 3, metadata=metadata)
    keep_input(world, run)
    run.answer_all(bad=["row-0"]).end()
    same = ask(world, run).json()
    changed = ask(world, run, {"metadata": other, "completion_window": "24h"}, key="again-2").json()

    assert (run.batch.endpoint, "24h", metadata) == (same["endpoint"], same["completion_window"], same["metadata"])
    assert other == changed["metadata"]
    assert same["id"] != changed["id"]


def test_a_longer_window_may_be_asked_for(world: World) -> None:
    """Its time begins with the retry."""
    run = running(world, "openai", 3).answer_all(bad=["row-0"]).end()
    world.time += 1000

    told = ask(world, run, {"completion_window": "72h", "metadata": None}).json()

    assert ("72h", int(world.time) + 72 * 3600) == (told["completion_window"], told["expires_at"])


@every_mount
def test_one_key_makes_one_retry(world: World, contract: str) -> None:
    """Also when its files are gone in the meantime; another request under that key is a conflict, and so is the create of a batch."""
    run = running(world, contract, 3)
    keep_input(world, run)
    run.answer_all(bad=["row-0"]).end()
    first = ask(world, run).json()
    assert first["id"] == ask(world, run).json()["id"]
    other = {"batchrouter_work_unit_id": "x"} if contract == "boardwalk" else {"x": "y"}
    assert (409, "idempotency_key_reused", "Idempotency-Key") == error(ask(world, run, {"metadata": other}))
    again = Run(world, contract, first["id"]).begin().answer_all().end()
    world.time += 40 * 86400
    world.expiries.sweep()

    answer = ask(world, run)

    assert (200, again.ref.id, "completed") == (answer.status_code, answer.json()["id"], answer.json()["status"])
    assert (409, "input_expired", None) == error(ask(world, run, key="again-2"))


@every_mount
def test_a_key_that_made_another_batch_of_the_same_input_is_a_conflict(world: World, contract: str) -> None:
    """A create, or the retry of another batch, is another request, though it asks for the very same terms."""
    run = running(world, contract, 3)
    body = {"input_file_id": run.batch.input_file_id, "endpoint": run.batch.endpoint, "completion_window": "24h"}
    headers = {"idempotency-key": "create"}
    made = world.http(contract=contract).post("batches", json=body, headers=headers).json()["id"]
    run.answer_all(bad=["row-0"]).end()
    assert (409, "idempotency_key_reused", "Idempotency-Key") == error(ask(world, run, key="create"))
    assert 200 == ask(world, run).status_code
    Run(world, contract, made).begin().answer_all(bad=["row-1"]).end()

    assert (409, "idempotency_key_reused", "Idempotency-Key") == error(ask(world, Run(world, contract, made)))


@every_mount
def test_a_refused_retry_does_not_use_its_key_up(world: World, contract: str) -> None:
    """It is the very retry that is made with it later."""
    run = running(world, contract, 3)
    keep_input(world, run)

    assert (409, "batch_not_ended", None) == error(ask(world, run))
    run.answer_all(bad=["row-0"]).end()
    assert 200 == ask(world, run).status_code


@every_mount
def test_there_is_nothing_to_retry_where_all_is_well(world: World, contract: str) -> None:
    """409, that no SDK repeats."""
    run = running(world, contract, 3)
    keep_input(world, run)
    run.answer_all().end()

    answer = ask(world, run)

    assert (409, "nothing_to_retry", None) == error(answer)
    assert "false" == answer.headers["x-should-retry"]
    assert {"message", "type", "param", "code"} == answer.json()["error"].keys()
    assert answer.headers["x-request-id"].startswith("req_")


def test_what_a_retry_takes_can_be_gone(world: World) -> None:
    """The input or the error file, deleted or expired: 409 `input_expired`."""
    http = world.http()
    one = running(world, "openai", 3).answer_all(bad=["row-0"]).end()
    two = running(world, "openai", 3).answer_all(bad=["row-0"]).end()
    old = running(world, "openai", 3).answer_all(bad=["row-0"]).end()
    assert 200 == http.delete(f"files/{one.batch.input_file_id}").status_code
    assert 200 == http.delete(f"files/{two.batch.error_file_id}").status_code

    assert (409, "input_expired", None) == error(ask(world, one))
    assert (409, "input_expired", None) == error(ask(world, two))
    world.time += 31 * 86400
    assert (409, "input_expired", None) == error(ask(world, old))


def test_an_input_that_ends_with_its_batch_is_gone(world: World) -> None:
    """As the mount has it: then the lines are uploaded again."""
    world = dialects.world(contracts=("boardwalk",))
    run = running(world, "boardwalk", 3).answer_all(bad=["row-0"]).end()

    assert (409, "input_expired", None) == error(ask(world, run))


@every_mount
def test_what_a_retry_needs_cannot_go_under_it(world: World, contract: str) -> None:
    """Neither file can be deleted, nor does it expire, until the retry has ended: it runs the lines that it was made for."""
    run = running(world, contract, 6)
    keep_input(world, run)
    run.answer_all(bad=["row-1", "row-4"]).end()
    http = world.http(contract=contract)
    error_file = run.batch.error_file_id
    ends = [world.memory.files.get(run.ref.space, str(name)).expires_at or 0 for name in (*run.batch.needs, error_file)]
    world.time = min(at for at in ends if at > world.time) - 50.0
    told = ask(world, run).json()

    assert (409, "file_in_use", None) == error(http.delete(f"files/{error_file}"))
    assert (409, "file_in_use", None) == error(http.delete(f"files/{run.batch.input_file_id}"))
    assert 200 == http.delete(f"files/{run.batch.output_file_id}").status_code
    world.time += 100
    world.expiries.sweep()
    again = Run(world, contract, told["id"]).begin()
    assert 2 == sum(shard.lines for shard in world.memory.shards.of(again.ref))
    again.answer_all().end()
    assert ["row-1", "row-4"] == custom_ids(again)
    assert () == world.memory.files.get(Space("acme", contract), str(error_file)).held_by
    world.time += 40 * 86400
    world.expiries.sweep()
    assert 404 == http.get(f"files/{error_file}").status_code


def test_a_batch_whose_file_was_refused_is_not_retried(world: World) -> None:
    """Its file would be refused again; the answer says what to do."""
    answer = dialects.create(world, "openai", jsonl(chat("a"), chat("b", model="nobody")))
    run = Run(world, "openai", answer.json()["id"]).begin()
    assert "failed" == run.batch.status

    refused = ask(world, run)

    assert (409, "batch_not_retryable", None) == error(refused)
    assert "create a new batch" in refused.json()["error"]["message"]


def test_a_batch_that_failed_for_no_fault_of_its_file_is_run_as_a_whole(world: World) -> None:
    """Nothing of it ran: all of its lines are left."""
    answer = dialects.create(world, "openai", jsonl(chat("a"), chat("b")))
    run = Run(world, "openai", answer.json()["id"])
    run.pipeline.fail(run.ref)
    assert ("failed", None) == (run.batch.status, run.batch.error_file_id)
    assert (BatchError(code="server_error", message=run.batch.errors[0].message),) == run.batch.errors

    told = ask(world, run).json()

    assert 2 == told["request_counts"]["total"]
    assert ["a", "b"] == custom_ids(Run(world, "openai", told["id"]).begin().answer_all().end())


@every_mount
def test_the_rules_of_a_create_hold(world: World, contract: str) -> None:
    """Unknown fields, bodies that are none, windows that are not offered, missing and overlong keys."""
    run = running(world, contract, 3)
    keep_input(world, run)
    run.answer_all(bad=["row-0"]).end()
    http = world.http(contract=contract)
    path = f"batches/{run.ref.id}/retry"

    assert (400, "unknown_parameter", "endpoint") == error(ask(world, run, {"endpoint": "/v1/chat/completions"}))
    assert (400, "unknown_parameter", "input_file_id") == error(ask(world, run, {"input_file_id": "file-1"}))
    assert (400, "invalid_request", "completion_window") == error(ask(world, run, {"completion_window": "1h"}))
    assert (400, "invalid_request", "metadata") == error(ask(world, run, {"metadata": "text"}))
    assert (400, "invalid_request", None) == error(ask(world, run, [1]))
    assert (400, "invalid_request", None) == error(http.post(path, content=b"{"))
    assert (400, "invalid_request", "Idempotency-Key") == error(ask(world, run, key="k" * 257))
    if contract == "boardwalk":
        assert (400, "missing_required_parameter", "Idempotency-Key") == error(ask(world, run, key=None))
    else:
        assert 200 == ask(world, run, key=None).status_code


@every_mount
def test_only_who_may_create_may_retry(world: World, contract: str) -> None:
    """A foreign batch is a missing one; a login is no key."""
    run = running(world, contract, 3).answer_all(bad=["row-0"]).end()
    world.add_key("sk-other-all", "other", "batch:write", "inference:write", "routing:write", "read")
    nobody = Run(world, contract, NOBODY)

    assert 404 == ask(world, run, secret="sk-other-all").status_code
    assert 404 == ask(world, nobody).status_code
    assert (403, "insufficient_permissions", None) == error(ask(world, run, secret=POWERLESS_KEY))
    no_key = "missing_execution_api_key" if contract == "token360" else "invalid_api_key"
    assert (401, no_key, None) == error(ask(world, run, secret=None))
    assert (401, no_key, None) == error(ask(world, run, secret=SESSION))


def test_a_retry_counts_as_an_unfinished_batch() -> None:
    """429 with the limit, where the organization has as many as it may."""
    world = dialects.world(contracts=("gridline",))
    run = running(world, "gridline", 3).answer_all(bad=["row-0"]).end()
    assert [200, 200] == [ask(world, run, key=f"again-{number}").status_code for number in range(2)]

    answer = ask(world, run, key="again-3")

    assert (429, "limit_exceeded", None) == error(answer)
    assert {"name": "open_batches", "limit": 2, "current": 2} == answer.json()["error"]["limit"]


def test_a_model_that_is_served_no_more_refuses_the_retry() -> None:
    """Where files are judged at the create; elsewhere the new batch fails."""
    registry = Registry(tuple(dialects.REGISTRY.values()))
    world = dialects.world(contracts=("token360",), registry=registry)
    run = running(world, "token360", 3).answer_all(bad=["row-0"]).end()
    gone = [msgspec.structs.replace(model, active=model.id != "tide-7b") for model in registry.values()]
    registry.__init__(tuple(gone))  # type: ignore[misc]

    assert (400, "batch_routing_unavailable", "input_file_id") == error(ask(world, run))


def test_it_is_in_the_document(world: World) -> None:
    """With what may be sent."""
    told = world.http().get("openapi.json").json()
    route = told["paths"]["/v1/batches/{batch_id}/retry"]["post"]

    schema = route["requestBody"]["content"]["application/json"]["schema"]
    assert {"completion_window", "metadata"} == schema["properties"].keys()
    assert "idempotency-key" in {parameter["name"] for parameter in route["parameters"]}
    assert "required" not in route["requestBody"]


def test_the_reference_of_a_batch_is_its_organizations(world: World) -> None:
    """The new batch lives where the first one does."""
    run = running(world, "openai", 3).answer_all(bad=["row-0"]).end()

    assert BatchRef("acme", "openai", ask(world, run).json()["id"]) == retried(world, run).ref
