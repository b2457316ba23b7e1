"""DynamoDB: transactions that are atomic and idempotent, and queries that look at one partition.

What moto 5.2.5 does otherwise, and what stands here instead:

- an operation reads, checks and writes without a lock: operations run one at a time;
- TransactWriteItems copies whole tables to be able to roll back: it runs on copies of the items it names, which take
  their place if it succeeds;
- ClientRequestToken is ignored: within ten minutes a token that succeeded is answered and not applied again, and one
  that comes with another request is refused;
- a query sorts the whole table: it is given the items of its partition (or of its index's partition) only;
- an answer is walked through the model of its shape, a millisecond an item: it is JSON already, and dumped as it is;
- TransactGetItems takes 25 items: it takes 100, as the service does.

Conflicts between transactions do not occur here (they wait for each other), nor do throttles and capacity.
"""

# ruff: noqa: ANN401 - moto's own values pass through untouched

import copy
import hashlib
import json
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from threading import RLock
from typing import Any

from moto.core.common_types import TYPE_RESPONSE
from moto.core.responses import ActionContext
from moto.dynamodb import responses
from moto.dynamodb.exceptions import ERROR_TYPE_PREFIX, DynamodbException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.dynamodb.models.utilities import dynamo_json_dump
from moto.dynamodb.responses import DynamoHandler, DynamoResult

from local.shim.patches import replace

_TOKEN_SECONDS = 600.0
_TRANSACTION_ITEMS = 100
_INDEX_NAME = 6  # its place among what moto passes to a query in order, after the hash key


class _RequestTokens:
    """The ClientRequestTokens of transactions that succeeded, with a digest of the request and its answer."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[float, bytes, Any]] = OrderedDict()

    def answer(self, token: str, digest: bytes) -> Any | None:
        """Return the answer given before, or None.

        Raises IdempotentParameterMismatchException if it was given to another request.
        """
        self._forget()
        if token not in self._answers:
            return None
        _, before, answer = self._answers[token]
        if before != digest:
            raise DynamodbException(
                ERROR_TYPE_PREFIX + "IdempotentParameterMismatchException",
                "The request token was used with a different request within the idempotency window",
            )
        return answer

    def keep(self, token: str, digest: bytes, answer: Any) -> None:
        """Remember what a transaction answered."""
        self._answers[token] = (time.monotonic(), digest, answer)

    def _forget(self) -> None:
        while self._answers and next(iter(self._answers.values()))[0] < time.monotonic() - _TOKEN_SECONDS:
            self._answers.popitem(last=False)


def install(undo: ExitStack) -> None:
    """Make moto's DynamoDB atomic under concurrent requests."""
    replace(undo, responses, "TRANSACTION_MAX_ITEMS", _TRANSACTION_ITEMS)
    _one_at_a_time(undo)
    _apply_once(undo)
    _transact_on_copies(undo)
    _query_one_partition(undo)
    replace(undo, responses, "DynamoResult", _PlainResult)


class _PlainResult(DynamoResult):
    """An answer whose members are the service's own, attribute values included."""

    def execute_result(self, context: ActionContext) -> TYPE_RESPONSE:
        del context
        return 200, {"Content-Type": "application/x-amz-json-1.0"}, dynamo_json_dump(self.result)


def _one_at_a_time(undo: ExitStack) -> None:
    lock = RLock()

    def call_action(handler: DynamoHandler) -> Any:
        with lock:
            return call_action_in_moto(handler)

    call_action_in_moto = replace(undo, DynamoHandler, "call_action", call_action)


def _apply_once(undo: ExitStack) -> None:
    tokens = _RequestTokens()

    def transact(handler: DynamoHandler) -> Any:
        token = handler.body.get("ClientRequestToken")
        if token is None:
            return transact_in_moto(handler)
        request = {name: value for name, value in json.loads(handler.raw_body).items() if name != "ClientRequestToken"}
        digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).digest()
        answer = tokens.answer(token, digest)
        if answer is None:
            answer = transact_in_moto(handler)
            tokens.keep(token, digest, answer)
        return answer

    transact_in_moto = replace(undo, DynamoHandler, "transact_write_items", transact)


def _transact_on_copies(undo: ExitStack) -> None:
    def transact(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        touched = [_key_of(backend, operation) for item in transact_items for operation in item.values()]
        scratch = copy.copy(backend)
        scratch.tables = {}
        for table, keys in touched:
            kept = scratch.tables.setdefault(table.name, _view(table, ()))
            _put(kept, [copy.deepcopy(item) for item in _find(table, keys)])
        transact_in_moto(scratch, transact_items)
        for table, keys in touched:
            table.delete_item(*keys)
            _put(table, _find(scratch.tables[table.name], keys))

    transact_in_moto = replace(undo, DynamoDBBackend, "transact_write_items", transact)


def _query_one_partition(undo: ExitStack) -> None:
    def query(table: Table, hash_key: DynamoType | None, *args: Any, **named: Any) -> Any:
        if args[_INDEX_NAME] is None and hash_key is not None:
            items = _partition(table, hash_key)
            if table.has_range_key:
                # Moto then sorts a sorted list: one slow comparison an item instead of log n.
                items.sort(key=_sort_value)
        else:
            conditions = named.get("hash_key_conditions") or []
            items = [item for item in _items(table) if _meets(item, conditions)]
        view = copy.copy(table)
        vars(view)["all_items"] = lambda: items
        return query_in_moto(view, hash_key, *args, **named)

    query_in_moto = replace(undo, Table, "query", query)


def _key_of(backend: DynamoDBBackend, operation: dict[str, Any]) -> tuple[Table, tuple[DynamoType, DynamoType | None]]:
    table = backend.get_table(operation["TableName"])
    return table, backend.get_keys_value(table, operation.get("Item") or operation["Key"])


def _meets(item: Item, conditions: Iterable[tuple[str, DynamoType]]) -> bool:
    return all(name in item.attrs and item.attrs[name] == value for name, value in conditions)


def _view(table: Table, items: Iterable[Item]) -> Table:
    """Return a table like `table` that holds `items` only (the very objects) and feeds no stream."""
    view = copy.copy(table)
    view.items = defaultdict(dict)
    view.stream_shard = None
    _put(view, items)
    return view


def _put(table: Table, items: Iterable[Item]) -> None:
    contents: Any = table.items  # by hash key, then by range key where the table has one
    for item in items:
        if item.range_key is None:
            contents[item.hash_key] = item
        else:
            contents[item.hash_key][item.range_key] = item


def _find(table: Table, keys: tuple[DynamoType, DynamoType | None]) -> list[Item]:
    item = table.get_item(*keys)
    return [] if item is None else [item]


def _partition(table: Table, hash_key: DynamoType) -> list[Item]:
    contents: Any = table.items
    if hash_key not in contents:
        return []
    return list(contents[hash_key].values()) if table.has_range_key else [contents[hash_key]]


def _sort_value(item: Item) -> Any:
    return item.range_key and item.range_key.cast_value


def _items(table: Table) -> Iterable[Item]:
    for hash_key in list(table.items):
        yield from _partition(table, hash_key)
