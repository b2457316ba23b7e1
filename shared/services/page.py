"""A page of a list: full whenever more remain, and it knows whether they do."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from shared.core.records import Batch, File

BLOCK = 100

T = TypeVar("T", Batch, File)

Read = Callable[[str | None, int], list[T]]
"""Up to so many records after this id."""


class Page(NamedTuple, Generic[T]):
    """Some records of a list, and whether there are more behind them."""

    items: Sequence[T]
    has_more: bool


def fill(read: Read[T], after: str | None, limit: int, wanted: Callable[[T], bool]) -> Page[T]:
    """Read on until `limit` wanted records are there, and one more to know that they are not the last."""
    found: list[T] = []
    asked = limit + 1
    while len(found) <= limit:
        records = read(after, asked)
        found += [record for record in records if wanted(record)]
        if len(records) < asked:
            break
        after = records[-1].id
        asked = max(limit + 1 - len(found), BLOCK)  # where few records are wanted, not one by one
    return Page(found[:limit], len(found) > limit)
