"""The records of batches, with the idempotency keys of their creates, and the index of those that have not ended.

The attribute `open` is in an item exactly while its batch has not ended; it is what the sparse index is made of. Beside them each organization has
one item that names its unfinished batches, all of them and those of each contract, in sets: an id is put in and taken out with the batch's own
creation and end, and a repetition changes nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from shared.adapters.dynamodb import files, items, stored, tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key, Sorted
from shared.adapters.dynamodb.items import Item
from shared.adapters.dynamodb.record_table import ABSENT, Kind, RecordTable
from shared.adapters.dynamodb.tables import PARTITION, SORT
from shared.adapters.errors import Busy
from shared.core.errors import OPEN_BATCHES, Conflict, Full, Limit, NotFound, Unavailable
from shared.core.ids import BatchRef, Space
from shared.core.lifecycle import is_terminal
from shared.core.records import Batch, File
from shared.ports import NO_TERMS, IdempotencyKey, Terms

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import PutTypeDef, TransactWriteItemTypeDef, UpdateTypeDef

TRIES = 3


def _key(ref: BatchRef) -> Key:
    return Key(str(ref.space), ref.id)


def _bound_key(org: str, key: IdempotencyKey) -> Key:
    return Key(org, f"key#{sha256(key.key.encode()).hexdigest()}")


def _besides(batch: Batch) -> dict[str, Any]:
    # DynamoDB's numbers and nesting are not JSON's: metadata is kept as text.
    metadata = {} if batch.metadata is None else {"metadata": msgspec.json.encode(batch.metadata).decode()}
    return metadata if is_terminal(batch) else {tables.OPEN.partition: "open", **metadata}


def _fields(item: Item) -> Item:
    return {**item, "metadata": msgspec.json.decode(item["metadata"])} if "metadata" in item else item


KIND = Kind(Batch, lambda batch: _key(batch.ref), _besides, _fields)


def _unfinished(org: str) -> Key:
    return Key(org, "open")


def _sets(batch: Batch) -> dict[str, str]:
    return {"#all": "batches", "#here": f"batches_{batch.contract}"}


class DynamoBatches:
    """`shared.ports.BatchStore` and `OpenBatches`. Args: the client, and what the names of the deployment's tables begin with."""

    def __init__(self, dynamo: Dynamo, prefix: str) -> None:
        self._dynamo = dynamo
        self._table = tables.BATCHES.named(prefix)
        self._files_table = tables.FILES.named(prefix)
        self._batches = RecordTable(dynamo, self._table, KIND)
        self._files = RecordTable(dynamo, self._files_table, files.KIND)

    def create(self, batch: Batch, key: IdempotencyKey | None, terms: Terms = NO_TERMS) -> Batch:
        """Keep a new batch, hold its files and bind the key, in one transaction.

        What is there decides, also after an answer was lost: a bound key gives its batch, or Conflict; a batch of this very id is the one we made.
        """
        writes: list[TransactWriteItemTypeDef] = [
            {"Put": self._batches.insertion(batch)},
            self._counting(batch, terms),
            *(
                files.hold(self._files_table, file, batch.id, terms.input_until if file == _input(batch) else None)
                for file in _needs(batch)
            ),
        ]
        if key is not None:
            writes.append(self._binding(batch, key))
        for attempt in range(TRIES):
            try:
                self._dynamo.transact(writes)
            except Conflict:
                made = self._made(batch, key)
                if made is not None:
                    return made
                for file in _needs(batch):
                    if self._files.find(file) is None:
                        raise NotFound(f"there is no file {file.sk}") from None
                self._check_slots(batch, terms)
                self._dynamo.pause(attempt)  # what stood in the way is gone again
            except Unavailable:
                made = self._made(batch, key)
                if made is None:
                    raise
                return made
            else:
                return batch
        raise Busy(f"batch {batch.id} could not be kept: others were faster each time")

    def _binding(self, batch: Batch, key: IdempotencyKey) -> "TransactWriteItemTypeDef":
        bound = _bound_key(batch.org, key)
        item = {PARTITION: bound.pk, SORT: bound.sk, "batch": str(batch.ref), "request_hash": key.request_hash}
        return {"Put": {"TableName": self._table, "Item": items.encode(item), "ConditionExpression": ABSENT}}

    def _counting(self, batch: Batch, terms: Terms) -> "TransactWriteItemTypeDef":
        limits = {
            name: most for name, most in (("all", terms.account_most), ("here", terms.space_most)) if most is not None
        }
        update: UpdateTypeDef = {
            "TableName": self._table,
            "Key": _unfinished(batch.org).encode(),
            "UpdateExpression": "ADD #all :batch, #here :batch",
            "ExpressionAttributeNames": _sets(batch),
            "ExpressionAttributeValues": items.encode(
                {":batch": {batch.id}} | {f":{name}": most for name, most in limits.items()}
            ),
        }
        if limits:
            update["ConditionExpression"] = " AND ".join(
                f"(attribute_not_exists(#{name}) OR size(#{name}) < :{name})" for name in limits
            )
        return {"Update": update}

    def _uncounting(self, batch: Batch) -> "TransactWriteItemTypeDef":
        return {
            "Update": {
                "TableName": self._table,
                "Key": _unfinished(batch.org).encode(),
                "UpdateExpression": "DELETE #all :batch, #here :batch",
                "ExpressionAttributeNames": _sets(batch),
                "ExpressionAttributeValues": items.encode({":batch": {batch.id}}),
            }
        }

    def _check_slots(self, batch: Batch, terms: Terms) -> None:
        item = self._dynamo.get(self._table, _unfinished(batch.org)) or {}
        for name, most in (("#all", terms.account_most), ("#here", terms.space_most)):
            used = len(item.get(_sets(batch)[name], ()))
            if most is not None and used >= most:
                raise Full(f"{batch.org} has {used} unfinished batches", Limit(OPEN_BATCHES, most, used)) from None

    def _made(self, batch: Batch, key: IdempotencyKey | None) -> Batch | None:
        """Give the batch that this create has made, or one before it with the same key."""
        bound = None if key is None else self._dynamo.get(self._table, _bound_key(batch.org, key))
        if bound is None or key is None:
            return self._batches.find(_key(batch.ref))
        if bound["request_hash"] != key.request_hash:
            raise Conflict("the idempotency key was used for another request: use a new key")
        return self.get(BatchRef.parse(bound["batch"]))

    def get(self, ref: BatchRef) -> Batch:
        """Give the record as last written; NotFound."""
        return self._batches.get(_key(ref))

    def update(self, ref: BatchRef, change: Callable[[Batch], Batch]) -> Batch:
        """Apply a pure change, by compare-and-set; NotFound; what `change` raises."""
        return self._batches.update(_key(ref), change)

    def finish(
        self, ref: BatchRef, change: Callable[[Batch], Batch], files_: Sequence[File], *, input_until: int | None = None
    ) -> Batch:
        """Apply the change that ends the batch, keep its result files and let go of those that it needed, in one transaction."""
        kept = [self._files.keeping(file) for file in files_]

        def write(ended: "PutTypeDef") -> None:
            batch = self._batches.record(items.decode(ended["Item"]))
            writes: list[TransactWriteItemTypeDef] = [{"Put": put} for put in (ended, *kept)]
            writes.append(self._uncounting(batch))
            if files_:
                writes.append(stored.count_together(self._files_table, files_))
            for file in _needs(batch):
                # It should be there, but if it is not the batch must end all the same.
                if self._files.find(file) is not None:
                    until = input_until if file == _input(batch) else None
                    writes.append(files.let_go(self._files_table, file, batch.id, until))
            self._dynamo.transact(writes)

        return self._batches.update(_key(ref), change, write=write)

    def page(self, space: Space, *, after: str | None, limit: int) -> list[Batch]:
        """Give the next `limit` batches, newest first."""
        behind = None if after is None else Sorted("<", after)
        page = self._dynamo.query(self._table, str(space), behind, forward=False, limit=limit)
        return [self._batches.record(item) for item in page]

    def open(self) -> Iterator[BatchRef]:
        """Give each batch that has not ended, from the index."""
        for item in self._dynamo.query(self._table, "open", index=tables.OPEN):
            yield BatchRef.parse(f"{item[PARTITION]}/{item[SORT]}")


def _needs(batch: Batch) -> list[Key]:
    return [files.key(batch.space, file_id) for file_id in batch.needs]


def _input(batch: Batch) -> Key:
    return files.key(batch.space, batch.input_file_id)
