"""Records in a table, each changed by compare-and-set: read, apply a pure change, write if nobody wrote in between, else again.

Each item has a `version`, which grows by one with each write of whatever kind, and the name of the write that was the last of this kind,
`writer`. The writer tells apart the two ends of a write whose answer was lost: its name is in the item, so it took effect, or another's is.
"""

from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from shared.adapters.dynamodb import items
from shared.adapters.dynamodb.dynamo import Dynamo, Key
from shared.adapters.dynamodb.items import Item
from shared.adapters.dynamodb.tables import PARTITION, SORT
from shared.core.errors import Conflict, NotFound, Unavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import PutTypeDef

R = TypeVar("R", bound=msgspec.Struct)

TRIES = 20
VERSION = "version"
WRITER = "writer"
ABSENT = f"attribute_not_exists({PARTITION})"


class Kind(NamedTuple, Generic[R]):
    """How records of one type are kept: their key, the attributes that an item has besides or instead of its fields, and the fields of an item."""

    type: type[R]
    key: Callable[[R], Key]
    besides: Callable[[R], Mapping[str, Any]] = lambda _: {}
    fields: Callable[[Item], Item] = lambda item: item


class RecordTable(Generic[R]):
    """The records of one kind in one table."""

    def __init__(self, dynamo: Dynamo, table: str, kind: Kind[R]) -> None:
        self._dynamo = dynamo
        self._table = table
        self._kind = kind

    def find(self, key: Key) -> R | None:
        """Give the record as last written, or None."""
        item = self._dynamo.get(self._table, key)
        return None if item is None else self.record(item)

    def get(self, key: Key) -> R:
        """Give the record as last written; NotFound."""
        record = self.find(key)
        if record is None:
            raise self._missing(key)
        return record

    def record(self, item: Item) -> R:
        """Make the record of an item."""
        return items.record(self._kind.fields(item), self._kind.type)

    def item(self, record: R, version: int = 0) -> Item:
        """Give a record's item at a version."""
        key = self._kind.key(record)
        return (
            {PARTITION: key.pk, SORT: key.sk}
            | items.fields(record)
            | {VERSION: version}
            | dict(self._kind.besides(record))
        )

    def keeping(self, record: R) -> "PutTypeDef":
        """Give the put of a record, whatever is there."""
        return {"TableName": self._table, "Item": items.encode(self.item(record))}

    def insertion(self, record: R) -> "PutTypeDef":
        """Give the put of a new record, on condition that there is none yet."""
        return {**self.keeping(record), "ConditionExpression": ABSENT}

    def _replacement(self, record: R, before: Item | None, writer: str) -> "PutTypeDef":
        version = 0 if before is None else before[VERSION]
        after = self.item(record, version + 1) | {WRITER: writer}
        request: PutTypeDef = {"TableName": self._table, "Item": items.encode(after), "ConditionExpression": ABSENT}
        if before is not None:
            request["ConditionExpression"] = "#version = :version"
            request["ExpressionAttributeNames"] = {"#version": VERSION}
            request["ExpressionAttributeValues"] = items.encode({":version": version})
        return request

    def update(
        self,
        key: Key,
        change: Callable[[R], R],
        *,
        empty: R | None = None,
        write: "Callable[[PutTypeDef], None] | None" = None,
    ) -> R:
        """Apply a pure change to the record, or to `empty` when there is none, and give the result. A change that changes nothing writes nothing.

        `write` carries the put out where it is not all: in a transaction. NotFound; what `change` raises; Conflict when others were faster
        many times over; Unavailable when it is unknown, after a look, whether the write took effect.
        """
        writer = token_hex(8)
        for attempt in range(TRIES):
            item = self._dynamo.get(self._table, key)
            if item is not None and item.get(WRITER) == writer:
                return self.record(
                    item
                )  # written by us, though we were told otherwise: the SDK repeated a call whose answer was lost
            old = empty if item is None else self.record(item)
            if old is None:
                raise self._missing(key)
            new = change(old)
            if new == old:
                return new
            request = self._replacement(new, item, writer)
            try:
                (write or self._dynamo.put)(request)
            except Conflict:
                self._dynamo.pause(attempt)
                continue
            except Unavailable:
                if not self._is_written(key, writer):
                    raise
            return self.record(items.decode(request["Item"]))
        raise Conflict(f"{self._kind.type.__name__} {key.sk} is changed by too many at once: try again later")

    def _is_written(self, key: Key, writer: str) -> bool:
        item = self._dynamo.get(self._table, key)
        return item is not None and item.get(WRITER) == writer

    def _missing(self, key: Key) -> NotFound:
        return NotFound(f"there is no {self._kind.type.__name__} {key.sk}")
