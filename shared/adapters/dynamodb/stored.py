"""How much each space stores: one item of counters, changed in the transaction that makes or removes a file, and never otherwise."""

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from shared.adapters.dynamodb import items
from shared.adapters.dynamodb.dynamo import Dynamo, Key
from shared.core import room as storage
from shared.core.ids import Space
from shared.core.records import File, Stored
from shared.core.room import ENDLESS, Room

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef


def _key(space: Space) -> Key:
    return Key(f"{space}/stored", "stored")


def read(dynamo: Dynamo, table: str, space: Space) -> Stored:
    """Give the counters; zeros before the first file."""
    return items.record(dynamo.get(table, _key(space)) or {}, Stored)


def count_in(table: str, file: File, room: Room = ENDLESS) -> "TransactWriteItemTypeDef":
    """Give the write that counts a new file; its condition fails when there is no room for it."""
    update = _change(table, file.space, storage.change(Stored(), file, 1))
    files, size = ("input_files", "input_bytes") if room.inputs_only else ("files", "bytes")
    limits = {
        files: None if room.files is None else room.files - 1,
        size: None if room.bytes is None else room.bytes - file.bytes,
    }
    conditions: list[str] = []
    values: dict[str, int] = {}
    for name, most in limits.items():
        if most is not None:
            # A counter that is not there yet counts as 0, and does not pass a limit that the file alone is over.
            conditions.append(
                f"(#{name} <= :most_{name}" + (f" OR attribute_not_exists(#{name}))" if most >= 0 else ")")
            )
            values |= {f":most_{name}": most}
    if conditions:
        change = update["Update"]
        change["ConditionExpression"] = " AND ".join(conditions)
        change["ExpressionAttributeValues"] = {**change.get("ExpressionAttributeValues", {}), **items.encode(values)}
    return update


def count_together(table: str, files: Sequence[File]) -> "TransactWriteItemTypeDef":
    """Give the one write that counts several new files of a space, whatever room there is: a transaction writes an item once."""
    return _change(table, files[0].space, reduce(lambda stored, file: storage.change(stored, file, 1), files, Stored()))


def count_out(table: str, file: File) -> "TransactWriteItemTypeDef":
    """Give the write that counts a file that goes."""
    return _change(table, file.space, storage.change(Stored(), file, -1))


def _change(table: str, space: Space, by: Stored) -> "TransactWriteItemTypeDef":
    change = msgspec.structs.asdict(by)
    return {
        "Update": {
            "TableName": table,
            "Key": _key(space).encode(),
            "UpdateExpression": "ADD " + ", ".join(f"#{name} :{name}" for name in change),
            "ExpressionAttributeNames": {f"#{name}": name for name in change},
            "ExpressionAttributeValues": items.encode({f":{name}": value for name, value in change.items()}),
        }
    }
