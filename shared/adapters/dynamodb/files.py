"""The records of files.

`held_by` is a set in the item, so that creating and ending a batch can change it without reading: every holder is one element, and the
attribute is there exactly while somebody holds the file. A delete needs no more than that.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shared.adapters.dynamodb import items, stored, tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key, Sorted
from shared.adapters.dynamodb.record_table import VERSION, Kind, RecordTable
from shared.adapters.dynamodb.tables import PARTITION
from shared.core import expiry
from shared.core.errors import Conflict, Full, Unavailable
from shared.core.ids import Space
from shared.core.records import File, Stored
from shared.core.room import ENDLESS, Room

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import DeleteTypeDef, TransactWriteItemTypeDef


def key(space: Space, file_id: str) -> Key:
    """Give the key of a file's item."""
    return Key(str(space), file_id)


def _besides(file: File) -> dict[str, Any]:
    holders = {"held_by": frozenset(file.held_by)} if file.held_by else {}
    due = expiry.file_due(file)
    return holders | (tables.due(due) if due is not None else {})


KIND = Kind(File, lambda file: key(file.space, file.id), _besides)


class DynamoFiles:
    """`shared.ports.FileStore`. Args: the client, and what the names of the deployment's tables begin with."""

    def __init__(self, dynamo: Dynamo, prefix: str) -> None:
        self._dynamo = dynamo
        self._table = tables.FILES.named(prefix)
        self._files = RecordTable(dynamo, self._table, KIND)

    def put(self, file: File, room: Room = ENDLESS) -> None:
        """Keep a new record if there is room; the very same one again changes nothing, another one of that id is a Conflict; Full."""
        try:
            self._dynamo.transact([{"Put": self._files.insertion(file)}, stored.count_in(self._table, file, room)])
        except Conflict:
            found = self._files.find(key(file.space, file.id))
            if found is None:
                raise Full(f"{file.space} has no room for {file.id}") from None
            if found != file:
                raise

    def get(self, space: Space, file_id: str) -> File:
        """Give the record as last written; NotFound."""
        return self._files.get(key(space, file_id))

    def update(self, space: Space, file_id: str, change: Callable[[File], File]) -> File:
        """Apply a pure change, by compare-and-set; NotFound; what `change` raises."""
        return self._files.update(key(space, file_id), change)

    def delete(self, space: Space, file_id: str) -> None:
        """Remove the record; Conflict while a live batch holds it; NotFound."""
        file = self.get(space, file_id)
        removal: DeleteTypeDef = {
            "TableName": self._table,
            "Key": key(space, file_id).encode(),
            "ConditionExpression": f"attribute_exists({PARTITION}) AND attribute_not_exists(held_by)",
        }
        try:
            self._dynamo.transact([{"Delete": removal}, stored.count_out(self._table, file)])
        except Conflict:
            self.get(space, file_id)
            raise
        except Unavailable:
            # Whether it took effect can be seen; a deletion that is reported as failed would be repeated as one of a file that is not there.
            if self._files.find(key(space, file_id)) is not None:
                raise

    def page(self, space: Space, *, after: str | None, limit: int, newest_first: bool) -> list[File]:
        """Give the next `limit` records, by id."""
        behind = None if after is None else Sorted("<" if newest_first else ">", after)
        page = self._dynamo.query(self._table, str(space), behind, forward=not newest_first, limit=limit)
        return [self._files.record(item) for item in page]

    def stored(self, space: Space) -> Stored:
        """Give what the space stores."""
        return stored.read(self._dynamo, self._table, space)


def hold(table: str, file: Key, batch: str, until: int | None) -> "TransactWriteItemTypeDef":
    """Give the write by which a batch holds a file, which expires at `until` if that is said; its condition fails when the file is gone."""
    return _change(table, file, "ADD held_by :batch, #version :one", batch, until)


def let_go(table: str, file: Key, batch: str, until: int | None) -> "TransactWriteItemTypeDef":
    """Give the write by which a batch lets a file go; its condition fails when the file is gone."""
    return _change(table, file, "ADD #version :one DELETE held_by :batch", batch, until)


def _change(table: str, file: Key, expression: str, batch: str, until: int | None) -> "TransactWriteItemTypeDef":
    expiry = {} if until is None else {"expires_at": until, **tables.due(until)}
    if expiry:
        expression += " SET " + ", ".join(f"#{name} = :{name}" for name in expiry)
    return {
        "Update": {
            "TableName": table,
            "Key": file.encode(),
            "UpdateExpression": expression,
            "ConditionExpression": f"attribute_exists({PARTITION})",
            "ExpressionAttributeNames": {"#version": VERSION} | {f"#{name}": name for name in expiry},
            "ExpressionAttributeValues": items.encode(
                {":batch": {batch}, ":one": 1} | {f":{name}": value for name, value in expiry.items()}
            ),
        }
    }
