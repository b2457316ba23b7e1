"""What the reference of `token360` shows, asked of its mount."""

from typing import Any

import pytest

from shared.core.lifecycle import Event
from tests.api import dialects
from tests.api.dialects import chat, create, end, error, jsonl, upload
from tests.api.world import START, World

T = "token360"


@pytest.fixture
def world() -> World:
    """Give a world with several models."""
    return dialects.world()


def test_the_request_of_the_reference(world: World) -> None:
    """Everything that it names is taken and shown."""
    asked = {
        "execution": "auto",
        "callback_url": "https://your-service.example.org/hooks/tide",
        "metadata": {"job": "tides"},
    }
    told = create(world, T, jsonl(chat("a"), chat("b")), **asked).json()
    assert {
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "status": "validating",
        "execution_preference": "auto",
        "execution": "platform",
        "fallback_from_provider": False,
        "client_model": "tide-7b",
        "output_file_id": None,
        "error_file_id": None,
        "completion_window": "24h",
        "request_counts": {"total": 2, "completed": 0, "failed": 0},
        "created_at": int(START),
        "expires_at": int(START) + 86400,
        "metadata": {"job": "tides"},
        "slackwater": {"reason": "validating", "since": int(START)},
    }.items() <= told.items()
    assert told["id"].startswith("batch_")
    assert asked["callback_url"] == dialects.record(world, T, told["id"])["callback_url"]


def test_endpoint_and_window_may_be_left_out(world: World) -> None:
    """There is one of each."""
    told = create(world, T, endpoint=..., completion_window=...).json()
    assert ("/v1/chat/completions", "24h") == (told["endpoint"], told["completion_window"])


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"endpoint": "/v1/embeddings"}, "invalid_request"),
        ({"completion_window": "72h"}, "invalid_request"),
        ({"execution": "provider"}, "batch_routing_unavailable"),
        ({"execution": "cloud"}, "invalid_request"),
        ({"priority": 1}, "unknown_parameter"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 3600}}, "unknown_parameter"),
    ],
)
def test_what_a_create_does_not_take(world: World, fields: dict[str, Any], code: str) -> None:
    """The refusal names the field."""
    (name,) = fields
    assert (400, code, name) == error(create(world, T, **fields))


def test_platform_may_be_asked_for(world: World) -> None:
    """That is where batches run."""
    told = create(world, T, execution="platform").json()
    assert ("platform", "platform") == (told["execution_preference"], told["execution"])


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([chat("a"), chat("b", model="moon-1b")], "batch_multiple_models"),
        ([chat("a"), {"custom_id": "b"}], "batch_invalid_jsonl"),
        ([chat("a"), chat("a")], "batch_invalid_jsonl"),
        ([chat("a", stream=True)], "batch_invalid_jsonl"),
        ([chat("a", model="nobody")], "batch_model_not_supported"),
        ([chat("a", model="shells")], "batch_model_not_supported"),
        ([chat("a", model="resting")], "batch_routing_unavailable"),
        ([chat("a", model="ft:theirs")], "batch_model_not_supported"),
        ([chat("a", model="ft:a1"), chat("b")], "batch_multiple_models"),
    ],
)
def test_the_file_is_judged_at_the_create(world: World, lines: list[dict[str, Any]], code: str) -> None:
    """The upload takes it; the create says what is wrong and where, and uses no key up."""
    answer = create(world, T, jsonl(*lines), key="k")
    assert (400, code, "input_file_id") == error(answer)
    assert f"Line {len(lines)}: " in answer.json()["error"]["message"]
    assert 200 == create(world, T, key="k").status_code


def test_the_name_of_a_file_ends_in_jsonl(world: World) -> None:
    """400 otherwise."""
    file = ("requests.json", jsonl(chat()))
    answer = world.http(contract=T).post("files", data={"purpose": "batch"}, files={"file": file})
    assert (400, "invalid_file_format", "file") == error(answer)


def test_metadata_is_any_object(world: World) -> None:
    """It comes back as it was sent."""
    metadata = {"job": {"steps": [1, 2.5, None, True], "": "empty"}, "big": 2**53}
    told = create(world, T, metadata=metadata).json()
    assert metadata == told["metadata"]
    assert metadata == world.http(contract=T).get(f"batches/{told['id']}").json()["metadata"]


def nested(levels: int) -> dict[str, Any]:
    """Give an object of so many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "metadata", ["text", [1], {"a": "x" * (16 << 10)}, {"a": 2**70}, nested(101), nested(500), {"a": [nested(100)]}]
)
def test_metadata_has_its_limits(world: World, metadata: object) -> None:
    """An object of 16 KiB and 100 levels, with numbers that JSON readers keep; what could not be shown again is not taken."""
    assert (400, "invalid_request", "metadata") == error(create(world, T, metadata=metadata))
    assert [] == world.http(contract=T).get("batches").json()["data"]


def test_metadata_at_its_limits_is_shown(world: World) -> None:
    """In the answer, by its id and in the list."""
    told = create(world, T, metadata=nested(100)).json()
    assert nested(100) == told["metadata"]
    assert nested(100) == world.http(contract=T).get(f"batches/{told['id']}").json()["metadata"]
    assert [nested(100)] == [batch["metadata"] for batch in world.http(contract=T).get("batches").json()["data"]]


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.com/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00:ec2::254]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://inside.example.com/",
        "https://user:secret@hooks.example.com/",
        "https://",
        "https://[half",
        "ftp://hooks.example.com/",
        "hooks",
        "https://hooks.example.com/" + "x" * 2048,
    ],
)
def test_a_callback_leads_out_of_every_network(world: World, url: str) -> None:
    """HTTPS to a public address, whatever way it is written; a name with one private address is private."""
    assert (400, "invalid_request", "callback_url") == error(create(world, T, callback_url=url))


@pytest.mark.parametrize("url", ["https://hooks.example.com/a?b=c", "https://93.184.216.34:8443/", "https://not.yet/"])
def test_a_public_callback_is_taken(world: World, url: str) -> None:
    """Also one whose name does not resolve yet: it is looked at again when something is sent."""
    assert 200 == create(world, T, callback_url=url).status_code


def test_a_create_wants_an_api_key(world: World) -> None:
    """A session's token is none, nor is nothing at all; an unknown key is another thing."""
    session = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
    for secret in (None, session):
        answer = world.http(secret, contract=T).post("batches", json={})
        assert (401, "missing_execution_api_key", None) == error(answer)
    assert (401, "invalid_api_key", None) == error(world.http("sk-nobody", contract=T).post("batches", json={}))
    assert (401, "invalid_api_key", None) == error(world.http(session, contract=T).get("batches"))
    assert (401, "invalid_api_key", None) == error(world.http(session).post("batches", json={}))


def test_a_finished_batch_is_its_answer_to_a_cancel(world: World) -> None:
    """200 and the object, unchanged."""
    batch_id = create(world, T).json()["id"]
    end(world, T, batch_id, Event.REJECT)
    answer = world.http(contract=T).post(f"batches/{batch_id}/cancel")
    assert (200, "failed", None) == (answer.status_code, answer.json()["status"], answer.json()["slackwater"])


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 30 * 86400),
        ({"ttl_seconds": "7200"}, 7200),
        ({"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}, 3600),
    ],
)
def test_how_long_a_file_lives_may_be_said(world: World, fields: dict[str, str], seconds: int) -> None:
    """In plain seconds here, or as elsewhere; 30 days otherwise."""
    assert int(START) + seconds == upload(world, T, jsonl(chat()), **fields).json()["expires_at"]


def test_only_one_of_both_says_how_long_a_file_lives(world: World) -> None:
    """Two times would leave one of them ignored."""
    fields = {"ttl_seconds": "7200", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    assert (400, "invalid_request", "ttl_seconds") == error(upload(world, T, jsonl(chat()), **fields))


@pytest.mark.parametrize(("contract", "value"), [(T, "soon"), (T, "60"), ("openai", "7200")])
def test_wrong_seconds_are_refused(world: World, contract: str, value: str) -> None:
    """Under other contracts the field is unknown."""
    assert 400 == upload(world, contract, jsonl(chat()), ttl_seconds=value).status_code


def test_the_account_limits_unfinished_batches_of_all_mounts_together() -> None:
    """Of contracts that have no limit of their own, too."""
    world = dialects.world(account_batches=3)
    for contract in ("openai", "gridline", T):
        assert 200 == create(world, contract).status_code
    answer = create(world, T)
    assert (429, "limit_exceeded", None) == error(answer)
    assert {"name": "open_batches", "limit": 3, "current": 3} == answer.json()["error"]["limit"]
