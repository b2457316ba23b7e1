"""DynamoDB as the stores use it: plain items in and out, errors in our words, consistent reads.

- A call that was turned away without effect (a throttle, another transaction on the item) is tried again here, a few times, after a
  short random pause. A call of unknown effect never is: that is for whoever knows what a repetition would do.
- Every condition is on one item; every transaction carries a token made of what it writes, so that the SDK's own repetitions are harmless.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from shared.adapters.dynamodb import items
from shared.adapters.dynamodb.items import Item
from shared.adapters.dynamodb.tables import PARTITION, SORT, Index
from shared.adapters.errors import Busy, translated

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import (
        DeleteItemInputTypeDef,
        PutItemInputTypeDef,
        PutTypeDef,
        QueryInputTypeDef,
        TransactWriteItemTypeDef,
        UniversalAttributeValueTypeDef,
    )

T = TypeVar("T")

BUSY_TRIES = 6
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.3
TOKEN_CHARS = 36


class Key(NamedTuple):
    """The key of an item."""

    pk: str
    sk: str

    def encode(self) -> "dict[str, UniversalAttributeValueTypeDef]":
        """Write it as DynamoDB's attributes."""
        return items.encode({PARTITION: self.pk, SORT: self.sk})


class Sorted(NamedTuple):
    """Which sort keys a query wants: those that begin with a text, lie behind or before one, or between it and `last`."""

    how: str
    text: str
    last: str | None = None

    @property
    def condition(self) -> str:
        """The condition on the sort key `#sk` and the texts `:sk` and `:last`."""
        if self.how == "between":
            return "#sk BETWEEN :sk AND :last"
        return "begins_with(#sk, :sk)" if self.how == "begins" else f"#sk {self.how} :sk"

    @property
    def values(self) -> "dict[str, UniversalAttributeValueTypeDef]":
        """The texts."""
        return items.encode({":sk": self.text} | ({} if self.last is None else {":last": self.last}))


class Dynamo:
    """The client.

    Args:
        client: boto3's.
        sleep: Sleeps for seconds.
        random: Gives a number from 0 to 1.

    """

    def __init__(
        self, client: "DynamoDBClient", *, sleep: Callable[[float], None], random: Callable[[], float]
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._random = random

    def get(self, table: str, key: Key) -> Item | None:
        """Give the item as last written, or None."""
        answer = self._call(lambda: self._client.get_item(TableName=table, Key=key.encode(), ConsistentRead=True))
        return items.decode(answer["Item"]) if "Item" in answer else None

    def query(
        self,
        table: str,
        partition: str,
        sort: Sorted | None = None,
        *,
        index: Index | None = None,
        forward: bool = True,
        limit: int | None = None,
    ) -> Iterator[Item]:
        """Give the items of a partition by sort key, as last written; of an index, they may lag."""
        request: QueryInputTypeDef = {
            "TableName": table,
            "KeyConditionExpression": "#pk = :pk" if sort is None else f"#pk = :pk AND {sort.condition}",
            "ExpressionAttributeNames": {"#pk": index.partition if index else PARTITION},
            "ExpressionAttributeValues": {":pk": {"S": partition}},
            "ScanIndexForward": forward,
            "ConsistentRead": index is None,
        }
        if index is not None:
            request["IndexName"] = index.name
        if sort is not None:
            names = {"#pk": index.partition, "#sk": index.sort} if index else {"#pk": PARTITION, "#sk": SORT}
            request["ExpressionAttributeNames"] = names
            request["ExpressionAttributeValues"] = {":pk": {"S": partition}, **sort.values}
        return self._pages(request, limit)

    def _pages(self, request: "QueryInputTypeDef", limit: int | None) -> Iterator[Item]:
        left = limit
        while left is None or left > 0:
            if left is not None:
                request["Limit"] = left
            answer = self._call(lambda: self._client.query(**request))
            yield from map(items.decode, answer["Items"])
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
            left = None if left is None else left - len(answer["Items"])

    def put(self, request: "PutItemInputTypeDef | PutTypeDef") -> None:
        """Put an item; Conflict when the request's condition does not hold."""
        self._call(lambda: self._client.put_item(**request))

    def delete(self, request: "DeleteItemInputTypeDef") -> None:
        """Delete an item; Conflict when the request's condition does not hold."""
        self._call(lambda: self._client.delete_item(**request))

    def transact(self, writes: "Sequence[TransactWriteItemTypeDef]") -> None:
        """Write all or nothing; Conflict when one of the conditions does not hold."""
        token = sha256(msgspec.json.encode(writes)).hexdigest()[:TOKEN_CHARS]
        self._call(lambda: self._client.transact_write_items(TransactItems=writes, ClientRequestToken=token))

    def pause(self, attempt: int) -> None:
        """Sleep a random while, the longer the more attempts went before (from 0)."""
        self._sleep(self._random() * min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt))

    def _call(self, call: Callable[[], T]) -> T:
        for attempt in range(BUSY_TRIES - 1):
            try:
                with translated():
                    return call()
            except Busy:
                self.pause(attempt)
        with translated():
            return call()
