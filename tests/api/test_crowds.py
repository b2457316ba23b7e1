"""Many callers at once, over real HTTP: lists that are walked while they grow, and creates that share an Idempotency-Key.

Each over stores in memory and over DynamoDB as moto has it.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from openai import OpenAI

from shared.adapters.dynamodb.batches import DynamoBatches
from shared.adapters.dynamodb.dynamo import Dynamo
from shared.adapters.dynamodb.files import DynamoFiles
from shared.adapters.dynamodb.tables import TABLES, creation
from tests.api.world import KEY, World
from tests.contracts.conftest import Aws
from tests.fakes import Call, Fault, Hostile, ok
from tests.serving import serving

CROWD = 20
MANY = {"memory": 250, "aws": 120}  # moto copies its tables for every transaction
ROOM = 2000


def in_the_way(_: Call) -> Any:
    """Say what DynamoDB says when another transaction works on the item."""
    answer: Any = {
        "Error": {"Code": "TransactionCanceledException"},
        "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
    }
    raise ClientError(answer, "TransactWriteItems")


def unheard(call: Call) -> Any:
    """Let the call take effect and lose its answer, as a balancer that times out does."""
    call()
    answer: Any = {"Error": {"Code": "InternalServerError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
    raise ClientError(answer, "TransactWriteItems")


@pytest.fixture
def client() -> Iterator[Any]:
    """Give DynamoDB with its tables, each call of it atomic."""
    with mock_aws():
        client = Aws().client("dynamodb")
        for table in TABLES:
            client.create_table(**creation(table, "crowd"))
        yield client


def over(client: Any, *faults: Fault) -> World:
    """Give a world over DynamoDB; its first transactions that create batches meet these faults."""
    files = Dynamo(client, sleep=_briefly, random=random.random)
    batches = Dynamo(Hostile(client, {"transact_write_items": faults}).port, sleep=_briefly, random=random.random)
    return World(
        account_batches=ROOM, file_store=DynamoFiles(files, "crowd"), batch_store=DynamoBatches(batches, "crowd")
    )


def _briefly(seconds: float) -> None:
    time.sleep(seconds / 10)


@pytest.fixture(params=["memory", "aws"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the stores are."""
    place: str = request.param
    return place


@pytest.fixture
def world(place: str, request: pytest.FixtureRequest) -> World:
    """Give a world that holds many batches."""
    if place == "memory":
        return World(account_batches=ROOM)
    return over(request.getfixturevalue("client"))


def at_once(port: int, requests: Sequence[Callable[[httpx.Client], httpx.Response]]) -> list[httpx.Response]:
    """Send requests at the same moment, each over a connection of its own."""
    barrier = Barrier(len(requests), timeout=60)

    def one(send: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
        headers = {"authorization": f"Bearer {KEY}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1/", headers=headers, timeout=60) as client:
            client.get("healthz")  # the connection stands
            barrier.wait()
            return send(client)

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests))


def create(file_id: str, key: str, **fields: Any) -> Callable[[httpx.Client], httpx.Response]:
    """Give a create of this file under a key."""
    body = {"input_file_id": file_id, "endpoint": "/v1/chat/completions", "completion_window": "24h"} | fields
    return lambda client: client.post("batches", json=body, headers={"idempotency-key": key})


def test_a_list_that_grows_is_walked_each_batch_once(world: World, place: str) -> None:
    """All that were there when the walk began, newest first; those made meanwhile are in nobody's way."""
    file_id = world.upload()
    before = [world.create(file_id) for _ in range(MANY[place])]
    walked = Event()

    def make_more(port: int) -> list[str]:
        made = []
        with OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY) as sdk:
            while not walked.is_set():
                made.append(
                    sdk.batches.create(
                        input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h"
                    ).id
                )
        return made

    with serving(world.app) as port, ThreadPoolExecutor(2) as pool:
        more = [pool.submit(make_more, port) for _ in range(2)]
        try:
            with OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY) as sdk:
                while sdk.batches.list(limit=1).data[0].id == before[-1]:  # nobody is at it yet
                    assert not any(made.done() for made in more)
                listed = [batch.id for batch in sdk.batches.list(limit=30)]
        finally:
            walked.set()
        new = {batch_id for made in more for batch_id in made.result()}
    assert len(listed) == len(set(listed))
    assert before[::-1] == [batch_id for batch_id in listed if batch_id not in new]
    assert new


def test_twenty_creates_with_one_key_make_one_batch(world: World) -> None:
    """All of them are told the same batch; another request under that key is refused, then as later."""
    file_id = world.upload()
    with serving(world.app) as port:
        answers = at_once(port, [create(file_id, "nightly")] * CROWD)
        (changed,) = at_once(port, [create(file_id, "nightly", metadata={"run": "2"})])
        (again,) = at_once(port, [create(file_id, "nightly")])
    assert {200} == {answer.status_code for answer in answers}
    assert 1 == len({answer.json()["id"] for answer in [*answers, again]})
    assert [answers[0].json()["id"]] == [batch.id for batch in world.openai().batches.list()]
    assert (409, "idempotency_key_reused") == (changed.status_code, changed.json()["error"]["code"])
    assert "false" == changed.headers["x-should-retry"]


def test_of_twenty_different_creates_with_one_key_one_is_made(world: World) -> None:
    """The others are refused, whichever came first."""
    file_id = world.upload()
    requests = [create(file_id, "nightly", metadata={"run": str(number)}) for number in range(CROWD)]
    with serving(world.app) as port:
        answers = at_once(port, requests)
    statuses = sorted(answer.status_code for answer in answers)
    assert [200] + [409] * (CROWD - 1) == statuses
    assert 1 == len(world.openai().batches.list().data)


@pytest.mark.parametrize(
    "faults",
    [[in_the_way] * 3 * CROWD, [in_the_way, unheard, ok] * CROWD, [unheard] * CROWD],
    ids=["conflicts", "conflicts and lost answers", "lost answers"],
)
def test_one_key_makes_one_batch_among_transactions_that_conflict(client: Any, faults: list[Fault]) -> None:
    """What DynamoDB turns away is tried again, and where an answer was lost, what is there says what became of it.

    A create that always was in another's way is a 503, which the SDK repeats.
    """
    world = over(client, *faults)
    file_id = world.upload()
    barrier = Barrier(CROWD, timeout=60)

    def make(port: int) -> str:
        with OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY) as sdk:
            barrier.wait()
            return sdk.batches.create(
                input_file_id=file_id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                extra_headers={"Idempotency-Key": "nightly"},
            ).id

    with serving(world.app) as port, ThreadPoolExecutor(CROWD) as pool:
        made = set(pool.map(make, [port] * CROWD))
    assert 1 == len(made)
    assert made == {batch.id for batch in world.openai().batches.list()}
