"""The records of batches in memory, with their idempotency keys."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from threading import RLock

import msgspec

from shared.adapters.memory.files import MemoryFiles
from shared.adapters.memory.rows import Rows
from shared.core.errors import OPEN_BATCHES, Conflict, Full, Limit
from shared.core.ids import BatchRef, Space
from shared.core.lifecycle import is_terminal
from shared.core.records import Batch, File
from shared.ports import NO_TERMS, IdempotencyKey, Terms


class MemoryBatches:
    """`shared.ports.BatchStore` and `OpenBatches`."""

    def __init__(self, lock: RLock, files: MemoryFiles) -> None:
        self._lock = lock
        self._files = files
        self._batches: Rows[BatchRef, Batch] = Rows(Batch)
        self._bound: dict[tuple[str, str], tuple[str, BatchRef]] = {}

    def create(self, batch: Batch, key: IdempotencyKey | None, terms: Terms = NO_TERMS) -> Batch:
        """Keep a new batch, hold its files and bind the key; a bound key gives its batch, or Conflict; NotFound without a file; Full."""
        with self._lock:
            bound = None if key is None else self._bound.get((batch.org, key.key))
            if bound is not None and key is not None:
                if bound[0] != key.request_hash:
                    raise Conflict("the idempotency key was used for another request: use a new key")
                return self._batches.get(bound[1])
            made = self._batches.find(batch.ref)
            if made is not None:
                return made
            for file_id in batch.needs:
                self._files.get(batch.space, file_id)
            self._check_slots(batch, terms)
            for file_id in batch.needs:
                until = terms.input_until if file_id == batch.input_file_id else None
                self._files.hold(batch.space, file_id, batch.id, until)
            self._batches[batch.ref] = batch
            if key is not None:
                self._bound[batch.org, key.key] = (key.request_hash, batch.ref)
            return self._batches.get(batch.ref)

    def _check_slots(self, batch: Batch, terms: Terms) -> None:
        unfinished = [ref.space for ref in self.open() if ref.org == batch.org]
        slots = ((terms.account_most, len(unfinished)), (terms.space_most, unfinished.count(batch.space)))
        for most, used in slots:
            if most is not None and used >= most:
                raise Full(f"{batch.org} has {used} unfinished batches", Limit(OPEN_BATCHES, most, used))

    def get(self, ref: BatchRef) -> Batch:
        """Give the record; NotFound."""
        with self._lock:
            return self._batches.get(ref)

    def update(self, ref: BatchRef, change: Callable[[Batch], Batch]) -> Batch:
        """Apply a pure change; NotFound; what `change` raises."""
        with self._lock:
            old = self._batches.get(ref)
            new = change(old)
            if new == old:
                return new
            self._batches[ref] = msgspec.structs.replace(new, version=old.version + 1)
            return self._batches.get(ref)

    def finish(
        self, ref: BatchRef, change: Callable[[Batch], Batch], files: Sequence[File], *, input_until: int | None = None
    ) -> Batch:
        """Apply the change that ends the batch, keep its result files and let go of those that it needed."""
        with self._lock:
            before = self._batches.get(ref)
            after = self.update(ref, change)
            if after.version != before.version:
                for file_id in after.needs:
                    until = input_until if file_id == after.input_file_id else None
                    self._files.let_go(after.space, file_id, after.id, until)
                for file in files:
                    self._files.keep(file)
            return after

    def page(self, space: Space, *, after: str | None, limit: int) -> list[Batch]:
        """Give the next `limit` batches, newest first."""
        with self._lock:
            batches = list(self._batches.where(lambda ref: ref.space == space))
        batches.sort(key=lambda batch: batch.id, reverse=True)
        return list(islice((batch for batch in batches if after is None or batch.id < after), limit))

    def open(self) -> Iterator[BatchRef]:
        """Give each batch that has not ended."""
        with self._lock:
            return iter([batch.ref for batch in self._batches.where(lambda _: True) if not is_terminal(batch)])
