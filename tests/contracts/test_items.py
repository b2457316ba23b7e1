"""Records become items and come back, whatever is in them."""

import pytest

from shared.adapters.dynamodb import items, tables
from shared.core.records import ApiKey, Batch, Chunk, File, Record, Shard, Workers
from tests.contracts.samples import batch, chunk, file, shard

RECORDS: list[Record] = [
    batch(),
    file(),
    shard(),
    chunk(shard()),
    Workers(revision="echo@1"),
    ApiKey(org="acme", hash="5e", scopes=("batch:write",)),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_equal(record: Record) -> None:
    """Through plain values and DynamoDB's attributes."""
    item = items.decode(items.encode(items.fields(record)))
    assert record == items.record(item, type(record))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "\u2028 tide",
        0,
        -1,
        10**21,
        1_800_000_000.123456,
        0.5,
        True,
        False,
        None,
        b"",
        b"\x00\xff",
        [],
        {},
        [1, "a"],
    ],
)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    """Of every kind that records hold, also nested."""
    item = {"field": value, "nested": {"in": [value]}}
    assert item == items.decode(items.encode(item))


def test_a_set_comes_back_as_a_sorted_list() -> None:
    """DynamoDB keeps no order in it."""
    assert {"field": ["a", "b"]} == items.decode(items.encode({"field": {"b", "a"}}))


def test_what_no_attribute_can_hold_is_a_mistake() -> None:
    """It is not guessed at."""
    with pytest.raises(TypeError, match="object"):
        items.encode({"field": object()})


def test_nothing_is_called_like_what_the_store_adds() -> None:
    """Keys and index attributes are no field's name."""
    fields = {name for kind in (ApiKey, Batch, Chunk, File, Shard, Workers) for name in kind.__struct_fields__}
    added = {tables.PARTITION, tables.SORT, "writer", tables.OPEN.partition, tables.QUEUE.partition}
    assert set() == fields & added


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda table: table.name)
def test_a_table_is_made_on_demand_and_names_every_key(table: tables.Table) -> None:
    """The attributes that are defined are those that keys use: CreateTable refuses anything else."""
    request = tables.creation(table, "slackwater")
    keys = [*request["KeySchema"]]
    for index in request.get("GlobalSecondaryIndexes", ()):
        keys += index["KeySchema"]
    assert {key["AttributeName"] for key in keys} == {
        definition["AttributeName"] for definition in request["AttributeDefinitions"]
    }
    assert f"slackwater-{table.name}" == request["TableName"]
    assert "PAY_PER_REQUEST" == request["BillingMode"]
