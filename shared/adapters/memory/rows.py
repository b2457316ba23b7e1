"""Records by key, kept as bytes: what a caller does to a value it gave or got is never seen by anybody else."""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

import msgspec

from shared.core.errors import NotFound

K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=msgspec.Struct)


class Rows(Generic[K, R]):
    """The records of one type. Not locked: its owner holds the lock."""

    def __init__(self, type_: type[R]) -> None:
        self._decoder = msgspec.msgpack.Decoder(type_)
        self._rows: dict[K, bytes] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def __setitem__(self, key: K, record: R) -> None:
        self._rows[key] = msgspec.msgpack.encode(record)

    def __delitem__(self, key: K) -> None:
        del self._rows[key]

    def find(self, key: K) -> R | None:
        """Give a copy of the record, or None."""
        data = self._rows.get(key)
        return None if data is None else self._decoder.decode(data)

    def get(self, key: K) -> R:
        """Give a copy of the record; NotFound."""
        record = self.find(key)
        if record is None:
            raise NotFound(f"there is no {key}")
        return record

    def where(self, wanted: Callable[[K], bool]) -> Iterator[R]:
        """Give copies of the records whose keys are wanted, in the order in which they came."""
        return (self._decoder.decode(data) for key, data in list(self._rows.items()) if wanted(key))
