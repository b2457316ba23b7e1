"""The results of a batch while it runs, over the API: every row once, whatever is committed in between."""

import json
import random
from typing import Any

import pytest
from fastapi.testclient import TestClient

from shared.core import paths, place
from shared.core.lifecycle import Event
from shared.core.place import Place
from shared.services.results import PAGE_BYTES
from tests.api import dialects
from tests.api.dialects import error
from tests.api.runs import MOUNTS, Run, release, running
from tests.api.world import KEY, POWERLESS_KEY, World, base_url

pytestmark = pytest.mark.parametrize("contract", MOUNTS)


@pytest.fixture
def world(contract: str) -> World:
    """Give a world with this mount."""
    return dialects.world(contracts=(contract,))


class Reader:
    """A client that goes on from where it was."""

    def __init__(self, world: World, run: Run, limit: int = 100) -> None:
        self._http = world.http(contract=run.ref.contract)
        self._path = f"batches/{run.ref.id}/results"
        self._limit = limit
        self.rows: list[Any] = []
        self.after: str | None = None
        self.at_end = False
        self.status = ""

    def once(self) -> Any:
        """Ask for a page."""
        params: dict[str, Any] = {"limit": self._limit} | ({"after": self.after} if self.after else {})
        answer = self._http.get(self._path, params=params)
        assert 200 == answer.status_code, answer.text
        page = answer.json()
        assert len(page["data"]) <= self._limit
        assert page["data"] or not page["has_more"]
        self.rows += page["data"]
        self.after, self.status = page["next"], page["status"]
        self.at_end = page["next"] is None
        return page

    def catch_up(self) -> list[str]:
        """Ask until there is no more for now; give the custom_ids so far."""
        while not self.at_end and self.once()["has_more"]:
            pass
        return [row["custom_id"] for row in self.rows]


def assert_all_of(reader: Reader, run: Run) -> None:
    """Assert that a reader has seen exactly the rows of the result files, each as it stands there."""
    reader.catch_up()
    assert reader.at_end
    assert run.batch.status == reader.status
    seen = [json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() for row in reader.rows]
    assert sorted(run.delivered()) == sorted(seen)


def test_there_is_nothing_before_anything_is_committed(world: World, contract: str) -> None:
    """And a place to go on from."""
    run = running(world, contract)

    page = Reader(world, run).once()

    assert ("list", [], False, "in_progress") == (page["object"], page["data"], page["has_more"], page["status"])
    assert isinstance(page["next"], str)
    assert {"object", "data", "has_more", "next", "status"} == page.keys()


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_rows_that_are_committed_later_come_later(world: World, contract: str, limit: int) -> None:
    """In the order in which shards and chunks happen to be committed, until the batch has ended; none is lost, none comes twice."""
    run = running(world, contract, 6)
    reader = Reader(world, run, limit)
    assert [] == reader.catch_up()
    run.commit(0, good=[1])
    assert ["row-1"] == reader.catch_up()
    run.commit(0, bad=[0])
    assert ["row-1", "row-0"] == reader.catch_up()
    run.commit(0, good=[2])
    run.commit(1, good=[2], bad=[1])
    assert ["row-1", "row-0", "row-2", "row-5", "row-4"] == reader.catch_up()
    run.stop(Event.CANCEL)
    assert 5 == len(reader.catch_up())
    assert "cancelling" == reader.status
    run.publish()
    assert_all_of(reader, run)
    assert "row-3" == reader.rows[-1]["custom_id"]
    assert_all_of(Reader(world, run, limit), run)


@pytest.mark.parametrize("seed", range(8))
def test_whoever_follows_sees_every_row_once(world: World, contract: str, seed: int) -> None:
    """Readers of several paces, that look at any moment: workers come and go, shards are worked on in any order, the batch ends somehow."""
    chance = random.Random(seed)
    run = running(world, contract, 24, shard_lines=4)
    readers = [Reader(world, run, limit) for limit in (1, 3, 7, 100)]
    left = [list(range(4)) for _ in range(6)]
    while any(left):
        shard = chance.choice([index for index in range(6) if left[index]])
        chance.shuffle(left[shard])
        taken = [left[shard].pop() for _ in range(chance.randint(1, len(left[shard])))]
        good = [position for position in taken if chance.random() < 0.7]
        run.commit(shard, good, [position for position in taken if position not in good])
        if left[shard] and chance.random() < 0.3:
            release(world, run, shard)
        for reader in readers:
            if not reader.at_end and chance.random() < 0.6:
                reader.once()
        if seed % 2 and chance.random() < 0.1:
            break
    run.stop(Event.CANCEL if any(left) else Event.DRAIN)
    readers[0].once()
    run.publish()
    for reader in [*readers, Reader(world, run, 5)]:
        assert_all_of(reader, run)


def test_a_page_that_is_asked_for_again_loses_nothing(world: World, contract: str) -> None:
    """An answer that was lost is no harm: its rows are behind the same place still."""
    run = running(world, contract, 6)
    reader = Reader(world, run, 2)
    run.commit(0, good=[0, 1, 2])
    reader.once()
    before, rows = reader.after, list(reader.rows)
    reader.once()
    run.commit(1, good=[0])
    reader.after, reader.rows = before, rows
    run.answer_all().end()
    assert_all_of(reader, run)


def test_the_end_may_come_while_a_page_is_read(world: World, contract: str) -> None:
    """The chunks are gone when their rows are asked for: then they are in the files."""
    run = running(world, contract, 3)
    reader = Reader(world, run, 2)
    run.commit(0, good=[0, 1, 2])
    reader.once()
    get, memory = world.memory.blobs.get, world.memory.blobs

    def end_first(*args: Any, **named: Any) -> bytes:
        memory.get = get  # type: ignore[method-assign]
        run.end()
        return get(*args, **named)

    memory.get = end_first  # type: ignore[method-assign]
    reader.once()

    assert ["row-0", "row-1", "row-2"] == [row["custom_id"] for row in reader.rows]
    assert ("completed", True) == (reader.status, reader.at_end)


def test_a_batch_that_never_ran_has_no_rows(world: World, contract: str) -> None:
    """An empty page, and no place to go on from."""
    run = running(world, contract)
    dialects.end(world, contract, run.ref.id)

    page = Reader(world, run).once()

    assert ([], False, None, "failed") == (page["data"], page["has_more"], page["next"], page["status"])


def test_a_page_is_never_larger_than_an_answer_may_be(world: World, contract: str) -> None:
    """In bytes as well as in rows."""
    run = running(world, contract, 3)
    run.commit(0, good=[0, 1, 2], content=lambda _: "x" * (PAGE_BYTES // 2 - 300))
    reader = Reader(world, run)

    assert (2, True) == (len(reader.once()["data"]), reader.after is not None)
    assert 1 == len(reader.once()["data"])
    run.end()
    assert_all_of(reader, run)
    assert_all_of(Reader(world, run), run)


def test_a_row_that_is_too_large_for_an_answer_comes_from_the_store(world: World, contract: str) -> None:
    """By a redirect, as large contents do, and nobody is stuck before it; what was kept for it goes with the results."""
    run = running(world, contract, 3)
    run.commit(0, good=[0, 1, 2], content=lambda line: "x" * (PAGE_BYTES * 2 if line.line == 2 else 1))
    app = world.build(inline_bytes=PAGE_BYTES + 100_000)
    http = TestClient(app, base_url=base_url(contract), headers={"authorization": f"Bearer {KEY}"})
    path = f"batches/{run.ref.id}/results"
    first = http.get(path).json()

    answer = http.get(path, params={"after": first["next"]}, follow_redirects=False)

    assert (1, True, 302) == (len(first["data"]), first["has_more"], answer.status_code)
    key = answer.headers["location"].removeprefix("memory://").partition("?")[0]
    page = json.loads(world.memory.blobs.get(key))
    assert ["row-1"] == [row["custom_id"] for row in page["data"]]
    assert ["row-2"] == [row["custom_id"] for row in http.get(path, params={"after": page["next"]}).json()["data"]]
    run.end()
    assert [] == world.memory.blobs.keys(paths.chunks(run.ref))


def test_results_that_are_gone_are_said_to_be_gone(world: World, contract: str) -> None:
    """410, whichever of the files was deleted, and when their time is over."""
    run = running(world, contract, 3).answer_all(bad=["row-1"]).end()
    http = world.http(contract=contract)
    reader = Reader(world, run, 1)
    reader.once()
    assert 200 == http.delete(f"files/{run.batch.error_file_id}").status_code

    answer = http.get(f"batches/{run.ref.id}/results", params={"after": reader.after})

    assert (410, "results_expired", None) == error(answer)
    other = running(world, contract, 3).answer_all().end()
    world.time += 40 * 86400
    assert (410, "results_expired", None) == error(http.get(f"batches/{other.ref.id}/results"))


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("0", "integer_below_min_value"),
        ("-1", "integer_below_min_value"),
        ("1001", "integer_above_max_value"),
        ("many", "invalid_request"),
    ],
)
def test_a_limit_out_of_bounds_is_refused(world: World, contract: str, limit: str, code: str) -> None:
    """As of every list."""
    run = running(world, contract)

    answer = world.http(contract=contract).get(f"batches/{run.ref.id}/results", params={"limit": limit})

    assert (400, code, "limit") == error(answer)
    assert answer.headers["x-request-id"].startswith("req_")


def test_a_place_that_is_none_is_refused(world: World, contract: str) -> None:
    """Garbage, another batch's, one within a row, one beyond the end: 400, never anything else."""
    run, other = running(world, contract), running(world, contract)
    run.commit(0, good=[0, 1, 2])
    places = [
        "",
        "x",
        "é",
        "batch_1",
        "AAAAAAAAAAAA",
        place.encode(Place(), other.ref),
        place.encode(Place(shard=0, at=7), run.ref),
        place.encode(Place(shard=0, at=10**9), run.ref),
        place.encode(Place(shard=0, at=-1), run.ref),
    ]
    for after in places:
        answer = world.http(contract=contract).get(f"batches/{run.ref.id}/results", params={"after": after})
        assert (400, "invalid_request", "after") == error(answer), after


def test_only_who_may_read_sees_results(world: World, contract: str) -> None:
    """A foreign batch is a missing one; a key without a scope is refused."""
    run = running(world, contract)
    path = f"batches/{run.ref.id}/results"
    world.add_key("sk-other-all", "other", "batch:write", "inference:write", "routing:write", "read")

    assert 404 == world.http("sk-other-all", contract).get(path).status_code
    assert 404 == world.http(contract=contract).get("batches/batch_00000000000000000000000000/results").status_code
    assert 404 == world.http(contract=contract).get("batches/no-batch/results").status_code
    assert 403 == world.http(POWERLESS_KEY, contract).get(path).status_code
    assert 401 == world.http(None, contract).get(path).status_code


def test_it_is_in_the_document(world: World, contract: str) -> None:
    """With its parameters and its page."""
    told = world.http(contract=contract).get("openapi.json").json()
    route = next(value for path, value in told["paths"].items() if path.endswith("/batches/{batch_id}/results"))["get"]

    assert {"batch_id", "after", "limit"} <= {parameter["name"] for parameter in route["parameters"]}
    assert "#/components/schemas/ResultList" in json.dumps(route["responses"]["200"])
