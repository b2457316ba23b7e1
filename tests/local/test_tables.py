"""What the protocols of the stores build on: DynamoDB's conditions, transactions and tokens."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from tests.local.stack import Stack

RIVALS = 20


class Table:
    """One table of its own for each test, with a sparse index."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.name = f"table-{uuid4()}"
        attributes = ("pk", "sk", "queue", "rank")
        client.create_table(
            TableName=self.name,
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in attributes],
            KeySchema=_schema("pk", "sk"),
            GlobalSecondaryIndexes=[
                {"IndexName": "ready", "KeySchema": _schema("queue", "rank"), "Projection": {"ProjectionType": "ALL"}}
            ],
            BillingMode="PAY_PER_REQUEST",
        )

    def put(self, sk: str, **attributes: Any) -> None:
        """Put an item of the partition `p`."""
        self.client.put_item(TableName=self.name, Item=_key(sk) | attributes)

    def get(self, sk: str) -> dict[str, Any] | None:
        """Return an item of the partition `p` without its key."""
        item = self.client.get_item(TableName=self.name, Key=_key(sk), ConsistentRead=True).get("Item")
        return item and {name: value for name, value in item.items() if name not in ("pk", "sk")}

    def put_once(self, sk: str, **options: Any) -> dict[str, Any]:
        """Return a transaction's put on condition that the item is not there."""
        condition = {"ConditionExpression": "attribute_not_exists(pk)"}
        return {"Put": {"TableName": self.name, "Item": _key(sk), **condition, **options}}

    def add(self, sk: str, **options: Any) -> dict[str, Any]:
        """Return a transaction's update that counts one more."""
        values = {":one": {"N": "1"}}
        update = {"UpdateExpression": "ADD chunks :one", "ExpressionAttributeValues": values}
        return {"Update": {"TableName": self.name, "Key": _key(sk), **update, **options}}

    def transact(self, *operations: dict[str, Any], **options: Any) -> None:
        """Write the operations, all or none."""
        self.client.transact_write_items(TransactItems=list(operations), **options)

    def query(self, **options: Any) -> dict[str, Any]:
        """Query the partition `p`."""
        values = {":p": {"S": "p"}} | options.pop("values", {})
        condition = "pk = :p" + options.pop("condition", "")
        answer: dict[str, Any] = self.client.query(
            TableName=self.name, KeyConditionExpression=condition, ExpressionAttributeValues=values, **options
        )
        return answer


def _schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def _key(sk: str) -> dict[str, Any]:
    return {"pk": {"S": "p"}, "sk": {"S": sk}}


def _sorts(answer: dict[str, Any]) -> list[str]:
    return [item["sk"]["S"] for item in answer["Items"]]


def _race(attempt: Any) -> list[str]:
    """Run `attempt(n)` in twenty threads at once and return what each came to: "won" or an error's code."""

    def run(number: int) -> str:
        try:
            attempt(number)
        except ClientError as error:
            return error.response["Error"]["Code"]
        return "won"

    with ThreadPoolExecutor(RIVALS) as threads:
        return sorted(threads.map(run, range(RIVALS)))


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Any]:
    """Return the one client that all tests share."""
    client = stack.client("dynamodb")
    yield client
    client.close()


@pytest.fixture
def table(client: Any) -> Table:
    """Return an empty table."""
    return Table(client)


@pytest.mark.usefixtures("restless")
def test_of_many_conditional_updates_one_wins(table: Table) -> None:
    """A lease taken by twenty workers at once is one worker's."""
    table.put("lease", epoch={"N": "0"})

    def take(number: int) -> None:
        table.client.update_item(
            TableName=table.name,
            Key=_key("lease"),
            UpdateExpression="SET epoch = :next, holder = :me",
            ConditionExpression="epoch = :seen",
            ExpressionAttributeValues={":seen": {"N": "0"}, ":next": {"N": "1"}, ":me": {"S": str(number)}},
        )

    assert ["ConditionalCheckFailedException"] * (RIVALS - 1) + ["won"] == _race(take)


@pytest.mark.usefixtures("restless")
def test_of_many_transactions_on_one_item_one_wins(table: Table) -> None:
    """A chunk's record put by twenty workers at once is put once, and counted once."""
    outcomes = _race(lambda _: table.transact(table.put_once("chunk"), table.add("shard")))
    assert ["TransactionCanceledException"] * (RIVALS - 1) + ["won"] == outcomes
    assert {"chunks": {"N": "1"}} == table.get("shard")


@pytest.mark.usefixtures("restless")
def test_no_increment_of_a_transaction_is_lost(table: Table) -> None:
    """Twenty transactions that each put a record and count it leave a count of twenty."""
    _race(lambda number: table.transact(table.put_once(f"chunk-{number}"), table.add("shard")))
    assert {"chunks": {"N": str(RIVALS)}} == table.get("shard")


def test_a_cancelled_transaction_says_why_and_changes_nothing(table: Table) -> None:
    """Each operation has its reason, and the one that failed shows the item it found."""
    table.put("chunk", etag={"S": "old"})
    with pytest.raises(ClientError) as caught:
        table.transact(
            table.add("shard"),
            table.put_once("chunk", ReturnValuesOnConditionCheckFailure="ALL_OLD"),
            table.add("other"),
        )
    reasons = caught.value.response["CancellationReasons"]
    assert ["None", "ConditionalCheckFailed", "None"] == [reason["Code"] for reason in reasons]
    assert _key("chunk") | {"etag": {"S": "old"}} == reasons[1]["Item"]
    assert [None, None] == [table.get("shard"), table.get("other")]


def test_a_condition_check_guards_a_transaction(table: Table) -> None:
    """A shard that is closed takes no commit."""
    table.put("shard", state={"S": "closed"})
    check = {"ConditionExpression": "#s = :open", "ExpressionAttributeNames": {"#s": "state"}}
    guard = {
        "TableName": table.name,
        "Key": _key("shard"),
        **check,
        "ExpressionAttributeValues": {":open": {"S": "open"}},
    }
    with pytest.raises(table.client.exceptions.TransactionCanceledException):
        table.transact({"ConditionCheck": guard}, table.put_once("chunk"))
    assert table.get("chunk") is None


def test_a_transaction_deletes_what_it_names(table: Table) -> None:
    """A deletion beside a put takes effect with it."""
    table.put("old")
    table.transact({"Delete": {"TableName": table.name, "Key": _key("old")}}, table.put_once("new"))
    assert ["new"] == _sorts(table.query())


def test_a_transaction_spans_tables(table: Table, client: Any) -> None:
    """Operations on two tables are all or none."""
    other = Table(client)
    table.put("taken")
    with pytest.raises(client.exceptions.TransactionCanceledException):
        table.transact(other.put_once("chunk"), table.put_once("taken"))
    assert other.get("chunk") is None
    table.transact(other.put_once("chunk"), table.put_once("free"))
    assert {} == other.get("chunk")


def test_a_transaction_takes_a_hundred_items(table: Table) -> None:
    """The service's limit holds, not moto's older one; reading them back takes as many."""
    table.transact(*(table.put_once(f"chunk-{number:03}") for number in range(100)))
    keys = [{"Get": {"TableName": table.name, "Key": _key(f"chunk-{number:03}")}} for number in range(100)]
    assert 100 == len(table.client.transact_get_items(TransactItems=keys)["Responses"])


def test_a_transaction_names_an_item_once(table: Table) -> None:
    """Two operations on one item are a mistake of the caller."""
    with pytest.raises(ClientError) as caught:
        table.transact(table.add("shard"), table.add("shard"))
    assert "ValidationException" == caught.value.response["Error"]["Code"]
    assert table.get("shard") is None


def test_a_transaction_with_its_token_is_applied_once(table: Table) -> None:
    """A commit that is sent again after its answer was lost changes nothing more."""
    for _ in range(2):
        table.transact(table.add("shard"), ClientRequestToken="commit-1")
    assert {"chunks": {"N": "1"}} == table.get("shard")


def test_a_token_belongs_to_one_request(table: Table) -> None:
    """The same token with another transaction is refused."""
    table.transact(table.add("shard"), ClientRequestToken="commit-2")
    with pytest.raises(table.client.exceptions.IdempotentParameterMismatchException):
        table.transact(table.add("other"), ClientRequestToken="commit-2")
    assert table.get("other") is None


def test_a_token_of_a_cancelled_transaction_may_be_tried_again(table: Table) -> None:
    """Only a success is remembered."""
    table.put("chunk")
    with pytest.raises(table.client.exceptions.TransactionCanceledException):
        table.transact(table.put_once("chunk"), ClientRequestToken="commit-3")
    table.client.delete_item(TableName=table.name, Key=_key("chunk"))
    table.transact(table.put_once("chunk"), ClientRequestToken="commit-3")
    assert {} == table.get("chunk")


@pytest.mark.parametrize("operation", ["put_item", "update_item", "delete_item"])
def test_a_failed_condition_returns_the_item_that_failed_it(table: Table, operation: str) -> None:
    """A second read is not needed to know why."""
    table.put("shard", epoch={"N": "7"})
    arguments: dict[str, dict[str, Any]] = {
        "put_item": {"Item": _key("shard")},
        "update_item": {"Key": _key("shard"), "UpdateExpression": "REMOVE epoch"},
        "delete_item": {"Key": _key("shard")},
    }
    with pytest.raises(table.client.exceptions.ConditionalCheckFailedException) as caught:
        getattr(table.client, operation)(
            TableName=table.name,
            ConditionExpression="epoch < :seven",
            ExpressionAttributeValues={":seven": {"N": "7"}},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **arguments[operation],
        )
    assert _key("shard") | {"epoch": {"N": "7"}} == caught.value.response["Item"]


def test_an_index_holds_only_items_that_have_its_keys(table: Table) -> None:
    """The ready queue is sparse and read from either end."""
    for sk, rank in (("a", "3"), ("b", "1"), ("c", "2")):
        table.put(sk, queue={"S": "model"}, rank={"S": rank})
    table.put("leased", queue={"S": "model"})
    table.put("other", queue={"S": "other"}, rank={"S": "0"})

    def ready(**options: Any) -> list[str]:
        return _sorts(
            table.client.query(
                TableName=table.name,
                IndexName="ready",
                KeyConditionExpression="queue = :q",
                ExpressionAttributeValues={":q": {"S": "model"}},
                **options,
            )
        )

    assert ["b", "c", "a"] == ready()
    assert ["a", "c"] == ready(ScanIndexForward=False, Limit=2)


def test_a_partition_is_read_in_the_order_of_its_sort_key(table: Table) -> None:
    """Ranges, prefixes, both directions and pages see the partition's items only."""
    for sk in ("b-2", "a-1", "b-1", "c-1"):
        table.put(sk)
    table.client.put_item(TableName=table.name, Item={"pk": {"S": "q"}, "sk": {"S": "b-0"}})
    assert ["a-1", "b-1", "b-2", "c-1"] == _sorts(table.query())
    assert ["c-1", "b-2"] == _sorts(table.query(ScanIndexForward=False, Limit=2))
    assert ["b-1", "b-2"] == _sorts(table.query(condition=" AND begins_with(sk, :s)", values={":s": {"S": "b-"}}))
    between = {":low": {"S": "a-1"}, ":high": {"S": "b-1"}}
    assert ["a-1", "b-1"] == _sorts(table.query(condition=" AND sk BETWEEN :low AND :high", values=between))
    first = table.query(Limit=3)
    assert ["c-1"] == _sorts(table.query(ExclusiveStartKey=first["LastEvaluatedKey"]))


def test_every_kind_of_value_comes_back_as_it_was_written(table: Table) -> None:
    """Numbers of 38 digits, bytes, sets, lists and maps survive get, query and update."""
    kinds = {
        "number": {"N": "12345678901234567890123456789012345678"},
        "bytes": {"B": b"\x00\xff bitmap"},
        "strings": {"SS": ["a", "b"]},
        "list": {"L": [{"N": "1"}, {"NULL": True}, {"BOOL": False}]},
        "map": {"M": {"inner": {"M": {"bytes": {"B": b"\x01"}}}}},
    }
    table.put("kinds", **kinds)
    assert kinds == table.get("kinds")
    assert [_key("kinds") | kinds] == table.query()["Items"]
    updated = table.client.update_item(
        TableName=table.name,
        Key=_key("kinds"),
        UpdateExpression="SET flag = :yes",
        ExpressionAttributeValues={":yes": {"BOOL": True}},
        ReturnValues="ALL_NEW",
    )
    assert _key("kinds") | kinds | {"flag": {"BOOL": True}} == updated["Attributes"]
