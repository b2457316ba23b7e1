"""Batches over the API: created, shown, listed and cancelled."""

from functools import partial
from typing import Any

import msgspec
import openai
import pytest

from shared.core import lifecycle, paths
from shared.core.lifecycle import Event
from shared.core.records import Batch, BatchError, Counts, Shard, Usage
from tests.api.world import ACME, OTHER_KEY, START, World, lines
from tests.services.world import ref

NOBODY = "batch_00000000000000000000000000"


def change(world: World, batch_id: str, **fields: Any) -> Batch:
    """Write fields of a record."""
    return world.memory.batches.update(ref(batch_id), lambda batch: msgspec.structs.replace(batch, **fields))


def move(world: World, batch_id: str, *events: Event) -> None:
    """Let things happen to a batch."""
    for event in events:
        world.memory.batches.update(ref(batch_id), partial(lifecycle.advance, event=event, at=int(START) + 9))


def body(world: World, **fields: Any) -> dict[str, Any]:
    """Give a good body of a create, with these fields."""
    return {
        "input_file_id": world.upload(),
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    } | fields


def test_a_new_batch_has_every_field_of_the_object(world: World) -> None:
    """All keys, null where there is nothing yet; the total is known at once."""
    asked = body(world, metadata={"job": "nightly"})

    answer = world.http().post("batches", json=asked)

    assert 200 == answer.status_code
    batch_id = answer.json()["id"]
    assert batch_id.startswith("batch_")
    assert {
        "id": batch_id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "model": None,
        "errors": None,
        "input_file_id": asked["input_file_id"],
        "completion_window": "24h",
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": int(START),
        "in_progress_at": None,
        "expires_at": int(START) + 86400,
        "finalizing_at": None,
        "completed_at": None,
        "failed_at": None,
        "expired_at": None,
        "cancelling_at": None,
        "cancelled_at": None,
        "request_counts": {"total": 2, "completed": 0, "failed": 0},
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
        "metadata": {"job": "nightly"},
        "slackwater": {"reason": "validating", "since": int(START)},
    } == answer.json()
    assert answer.json() == world.http().get(f"batches/{batch_id}").json()


def test_a_create_starts_the_lifecycle(world: World) -> None:
    """One execution, the first generation."""
    batch_id = world.create()

    assert [(ref(batch_id), 1)] == world.memory.workflow.started


def test_the_longer_window_ends_later(world: World) -> None:
    """72h is three days."""
    batch_id = world.create(completion_window="72h")

    assert int(START) + 72 * 3600 == world.openai().batches.retrieve(batch_id).expires_at


@pytest.mark.parametrize("name", ["input_file_id", "endpoint", "completion_window"])
@pytest.mark.parametrize("absent", [True, False])
def test_a_missing_or_null_field_is_named(world: World, name: str, absent: bool) -> None:  # noqa: FBT001
    """400 `missing_required_parameter`, with `param`."""
    asked = body(world, **{name: None})
    if absent:
        del asked[name]

    error = world.http().post("batches", json=asked).json()["error"]

    assert ("missing_required_parameter", name) == (error["code"], error["param"])


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"endpoint": "/v1/images/generations"}, "endpoint"),
        ({"endpoint": 7}, "endpoint"),
        ({"completion_window": "48h"}, "completion_window"),
        ({"completion_window": 24}, "completion_window"),
        ({"input_file_id": ["file-1"]}, "input_file_id"),
        ({"metadata": "text"}, "metadata"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ({"metadata": {"k" * 65: ""}}, "metadata"),
        ({"metadata": {"k": "v" * 513}}, "metadata.k"),
        ({"metadata": {"k": 1}}, "metadata.k"),
        ({"metadata": {"k": None}}, "metadata.k"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(world: World, fields: dict[str, Any], param: str) -> None:
    """400 `invalid_request`, with `param`, and no batch."""
    answer = world.http().post("batches", json=body(world, **fields))

    assert 400 == answer.status_code
    assert ("invalid_request", param) == (answer.json()["error"]["code"], answer.json()["error"]["param"])
    assert [] == world.openai().batches.list().data


def test_an_unknown_field_is_named(world: World) -> None:
    """Nothing is silently ignored."""
    answer = world.http().post("batches", json=body(world, priority="high"))

    assert 400 == answer.status_code
    assert ("unknown_parameter", "priority") == (answer.json()["error"]["code"], answer.json()["error"]["param"])


def test_metadata_at_its_limits_is_kept(world: World) -> None:
    """16 pairs, keys of 64 and values of 512 characters."""
    metadata = {f"{number:02d}" + "ü" * 62: "ü" * 512 for number in range(16)}

    assert metadata == world.openai().batches.retrieve(world.create(metadata=metadata)).metadata


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"text"', b"null", b"\xff\xfe", b'{"a": NaN}', b"[" * 100_000, b'{"endpoint": "\\ud800"}'],
)
def test_a_body_that_is_no_json_object_is_refused(world: World, content: bytes) -> None:
    """400 and the envelope, whatever it is."""
    answer = world.http().post("batches", content=content, headers={"content-type": "application/json"})

    assert (400, "invalid_request") == (answer.status_code, answer.json()["error"]["code"])


def test_a_body_that_is_too_large_is_refused(world: World) -> None:
    """A create is small."""
    answer = world.http().post("batches", content=b" " * (1 << 20) + b"{}")

    assert (413, "body_too_large") == (answer.status_code, answer.json()["error"]["code"])


@pytest.mark.parametrize("file_id", ["file-00000000000000000000000000", "file-", "nonsense", "", "file-" + "x" * 5000])
def test_a_batch_needs_its_input_file(world: World, file_id: str) -> None:
    """A file that is not there is a 404."""
    answer = world.http().post("batches", json=body(world, input_file_id=file_id))

    assert (404, "not_found") == (answer.status_code, answer.json()["error"]["code"])


def test_a_result_file_is_no_input(world: World) -> None:
    """Its purpose is another."""
    file_id = world.upload()
    world.memory.files.update(ACME, file_id, lambda file: msgspec.structs.replace(file, purpose="batch_output"))

    answer = world.http().post("batches", json=body(world, input_file_id=file_id))

    assert (400, "input_file_id") == (answer.status_code, answer.json()["error"]["param"])


def test_one_idempotency_key_makes_one_batch(world: World) -> None:
    """The same create again gives the same batch."""
    asked, headers = body(world), {"idempotency-key": "run-1"}

    first = world.http().post("batches", json=asked, headers=headers)
    again = world.http().post("batches", json=dict(reversed(asked.items())), headers=headers)

    assert first.json() == again.json()
    assert 1 == len(world.openai().batches.list().data)


def test_an_idempotency_key_gives_its_batch_even_when_the_file_is_gone(world: World) -> None:
    """A key lives as long as its batch, not as long as the input."""
    asked, headers = body(world), {"idempotency-key": "run-1"}
    first = world.http().post("batches", json=asked, headers=headers)
    world.memory.files.update(ACME, asked["input_file_id"], lambda file: msgspec.structs.replace(file, held_by=()))
    world.time += 31 * 86400

    assert first.json() == world.http().post("batches", json=asked, headers=headers).json()
    assert 404 == world.http().post("batches", json=asked, headers={"idempotency-key": "run-2"}).status_code


def test_an_idempotency_key_of_another_request_is_a_conflict(world: World) -> None:
    """409, and not worth a retry."""
    asked, headers = body(world), {"idempotency-key": "run-1"}
    world.http().post("batches", json=asked, headers=headers)

    answer = world.http().post("batches", json=asked | {"completion_window": "72h"}, headers=headers)

    assert (409, "idempotency_key_reused") == (answer.status_code, answer.json()["error"]["code"])
    assert "false" == answer.headers["x-should-retry"]


def test_a_refused_create_does_not_use_its_key_up(world: World) -> None:
    """The corrected request may use it."""
    headers = {"idempotency-key": "run-1"}
    world.http().post("batches", json=body(world, endpoint="/nowhere"), headers=headers)

    assert 200 == world.http().post("batches", json=body(world), headers=headers).status_code


@pytest.mark.parametrize(
    ("key", "status"), [("", 400), ("k", 200), ("k" * 256, 200), ("k" * 257, 400), ("ü" * 128, 200), ("ü" * 129, 400)]
)
def test_an_idempotency_key_has_1_to_256_bytes(world: World, key: str, status: int) -> None:
    """Counted as they are sent."""
    answer = world.http().post("batches", json=body(world), headers={b"idempotency-key": key.encode()})

    assert status == answer.status_code


def test_walking_45_batches_yields_each_once(world: World) -> None:
    """Newest first, through the SDK's own pagination."""
    file_id = world.upload()
    made = [world.create(file_id) for _ in range(45)]

    assert made[::-1] == [batch.id for batch in world.openai().batches.list(limit=10)]
    assert made[::-1] == [batch.id for batch in world.openai().batches.list()]


def test_a_page_knows_its_ends_and_whether_more_follow(world: World) -> None:
    """`has_more` is exact, also where the page is just full."""
    file_id = world.upload()
    made = [world.create(file_id) for _ in range(4)]

    first = world.http().get("batches", params={"limit": 2}).json()
    second = world.http().get("batches", params={"limit": 2, "after": first["last_id"]}).json()

    assert (made[3], made[2], True) == (first["first_id"], first["last_id"], first["has_more"])
    assert (made[1], made[0], False) == (second["first_id"], second["last_id"], second["has_more"])


@pytest.mark.parametrize("after", [NOBODY, "nonsense", "", "batch_" + "x" * 5000])
def test_an_unknown_cursor_is_refused(world: World, after: str) -> None:
    """400, naming it."""
    answer = world.http().get("batches", params={"after": after})

    assert (400, "after") == (answer.status_code, answer.json()["error"]["param"])


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("0", "integer_below_min_value"),
        ("101", "integer_above_max_value"),
        ("x", "invalid_request"),
        ("1_0", "invalid_request"),
        ("\u0661", "invalid_request"),
        ("9" * 5000, "integer_above_max_value"),
        ("-" + "9" * 5000, "integer_below_min_value"),
    ],
)
def test_a_limit_out_of_range_is_refused(world: World, limit: str, code: str) -> None:
    """1 to 100."""
    answer = world.http().get("batches", params={"limit": limit})

    assert (400, code, "limit") == (answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["param"])


def test_a_running_batch_sums_its_shards(world: World) -> None:
    """Counts and usage come from the shards, at most two seconds old."""
    batch_id = world.create(world.upload(lines(5)))
    change(world, batch_id, shards=2, model="echo")
    move(world, batch_id, Event.ADMIT)
    shard = Shard(org="acme", contract="openai", batch=batch_id, index=0, revision="echo@1", lines=3, rank="0")
    one = msgspec.structs.replace(
        shard, completed=2, failed=1, usage=Usage(input_tokens=10, cached_tokens=4, output_tokens=6)
    )
    two = msgspec.structs.replace(shard, index=1, lines=2, completed=1, usage=Usage(input_tokens=1, reasoning_tokens=2))
    for found in (one, two):
        world.memory.shards.write(found)

    batch = world.openai().batches.retrieve(batch_id)

    assert batch.request_counts
    assert batch.usage
    assert ("in_progress", "echo") == (batch.status, batch.model)
    assert (5, 3, 1) == (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed)
    assert (11, 6, 17) == (batch.usage.input_tokens, batch.usage.output_tokens, batch.usage.total_tokens)
    assert 4 == batch.usage.input_tokens_details.cached_tokens
    assert 2 == batch.usage.output_tokens_details.reasoning_tokens

    world.memory.shards.write(msgspec.structs.replace(two, completed=2))
    world.time += 1.9
    assert batch == world.openai().batches.retrieve(batch_id)
    world.time += 0.2
    assert 4 == world.http().get(f"batches/{batch_id}").json()["request_counts"]["completed"]


def test_an_ended_batch_shows_its_record(world: World) -> None:
    """What is final no longer depends on shards."""
    batch_id = world.create()
    change(
        world,
        batch_id,
        shards=1,
        counts=Counts(total=2, completed=2),
        usage=Usage(input_tokens=7),
        output_file_id="file-1",
    )
    move(world, batch_id, Event.ADMIT, Event.DRAIN, Event.PUBLISH_COMPLETED)

    batch = world.http().get(f"batches/{batch_id}").json()

    assert ("completed", int(START) + 9, "file-1", None) == (
        batch["status"],
        batch["completed_at"],
        batch["output_file_id"],
        batch["error_file_id"],
    )
    assert {"total": 2, "completed": 2, "failed": 0} == batch["request_counts"]
    assert 7 == batch["usage"]["total_tokens"]


def test_a_failed_batch_shows_its_first_thousand_errors_and_how_many_there_are(world: World) -> None:
    """The list shows the few that the record keeps."""
    batch_id = world.create()
    errors = [
        BatchError(code="invalid_json_line", message="the line is not JSON", line=number) for number in range(1, 1201)
    ]
    world.memory.blobs.put(
        paths.errors(ref(batch_id)), b"".join(msgspec.json.encode(error) + b"\n" for error in errors)
    )
    change(world, batch_id, errors=tuple(errors[:10]), errors_total=1200)
    move(world, batch_id, Event.REJECT)

    shown = world.openai().batches.retrieve(batch_id).errors
    listed = world.http().get("batches").json()["data"][0]["errors"]

    assert shown
    assert shown.data
    assert list(range(1, 1001)) == [error.line for error in shown.data]
    assert {"code": "invalid_json_line", "message": "the line is not JSON", "param": None, "line": 1} == listed["data"][
        0
    ]
    assert ("list", 10, 1200) == (listed["object"], len(listed["data"]), listed["total"])


def test_errors_that_have_been_swept_leave_the_first_ones(world: World) -> None:
    """The batch is there longer than the object that has all of its errors."""
    batch_id = world.create()
    errors = tuple(BatchError(code="invalid_json_line", message="bad", line=line) for line in range(1, 11))
    change(world, batch_id, errors=errors, errors_total=30)
    move(world, batch_id, Event.REJECT)

    told = world.http().get(f"batches/{batch_id}").json()["errors"]

    assert (list(range(1, 11)), 30) == ([error["line"] for error in told["data"]], told["total"])


def test_a_cancel_wakes_the_state_that_waits(world: World) -> None:
    """And says so at once."""
    batch_id = world.create()
    move(world, batch_id, Event.ADMIT)
    change(world, batch_id, token="token-1")

    batch = world.openai().batches.cancel(batch_id)

    assert ("cancelling", int(START)) == (batch.status, batch.cancelling_at)
    assert ["token-1"] == world.memory.workflow.resumed
    assert "cancelling" == world.openai().batches.cancel(batch_id).status


def test_a_cancelled_batch_can_be_cancelled_again(world: World) -> None:
    """200 and the object, which does not change."""
    batch_id = world.create()
    move(world, batch_id, Event.CANCEL, Event.PUBLISH_CANCELLED)
    before = world.openai().batches.retrieve(batch_id)

    assert before == world.openai().batches.cancel(batch_id)


@pytest.mark.parametrize(
    "events",
    [
        (Event.REJECT,),
        (Event.ADMIT, Event.DRAIN, Event.PUBLISH_COMPLETED),
        (Event.EXPIRE, Event.PUBLISH_EXPIRED),
    ],
)
def test_a_batch_that_ended_otherwise_cannot_be_cancelled(world: World, events: tuple[Event, ...]) -> None:
    """409, and not worth a retry."""
    batch_id = world.create()
    move(world, batch_id, *events)

    answer = world.http().post(f"batches/{batch_id}/cancel")

    assert (409, "batch_not_cancellable") == (answer.status_code, answer.json()["error"]["code"])
    assert "false" == answer.headers["x-should-retry"]


@pytest.mark.parametrize("invented", [NOBODY, "nonsense", "batch_" + "x" * 5000])
def test_a_foreign_batch_is_a_missing_batch(world: World, invented: str) -> None:
    """Reading and cancelling somebody else's batch is as reading none, and using his file is too."""
    mine = world.create()
    for method, path in (("GET", ""), ("POST", "/cancel")):
        theirs = world.http(OTHER_KEY).request(method, f"batches/{mine}{path}")
        nobodys = world.http(OTHER_KEY).request(method, f"batches/{invented}{path}")
        assert (404, nobodys.json()) == (theirs.status_code, theirs.json())
    assert [] == world.openai(OTHER_KEY).batches.list().data
    with pytest.raises(openai.NotFoundError):
        world.create(world.upload(), secret=OTHER_KEY)
