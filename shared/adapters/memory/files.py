"""The records of files in memory."""

from collections.abc import Callable
from itertools import islice
from threading import RLock

import msgspec

from shared.adapters.memory.rows import Rows
from shared.core import expiry
from shared.core import room as storage
from shared.core.errors import Conflict, Full
from shared.core.ids import Space
from shared.core.records import File, Stored
from shared.core.room import ENDLESS, Room


class MemoryFiles:
    """`shared.ports.FileStore`."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._files: Rows[tuple[Space, str], File] = Rows(File)
        self._stored: Rows[Space, Stored] = Rows(Stored)

    def put(self, file: File, room: Room = ENDLESS) -> None:
        """Keep a new record if there is room; the very same one again changes nothing, another one of that id is a Conflict; Full."""
        with self._lock:
            found = self._files.find((file.space, file.id))
            if found is not None and found != file:
                raise Conflict(f"the id {file.id} is taken")
            if found is None and not room.takes(self.stored(file.space), file):
                raise Full(f"{file.space} has no room for {file.id}")
            self.keep(file)

    def get(self, space: Space, file_id: str) -> File:
        """Give the record; NotFound."""
        with self._lock:
            return self._files.get((space, file_id))

    def update(self, space: Space, file_id: str, change: Callable[[File], File]) -> File:
        """Apply a pure change; NotFound; what `change` raises."""
        with self._lock:
            old = self.get(space, file_id)
            new = change(old)
            if new == old:
                return new
            self._files[space, file_id] = msgspec.structs.replace(new, version=old.version + 1)
            return self.get(space, file_id)

    def delete(self, space: Space, file_id: str) -> None:
        """Remove the record; Conflict while a live batch holds it; NotFound."""
        with self._lock:
            file = self.get(space, file_id)
            if file.held_by:
                raise Conflict(f"a live batch holds {file_id}")
            del self._files[space, file_id]
            self._stored[space] = storage.change(self.stored(space), file, -1)

    def page(self, space: Space, *, after: str | None, limit: int, newest_first: bool) -> list[File]:
        """Give the next `limit` records, by id."""
        with self._lock:
            files = sorted(self._files.where(lambda key: key[0] == space), key=lambda file: file.id)
        if newest_first:
            files.reverse()
        behind = (file for file in files if after is None or (file.id < after if newest_first else file.id > after))
        return list(islice(behind, limit))

    def hold(self, space: Space, file_id: str, batch: str, until: int | None) -> None:
        """Let a batch hold the file, which expires at `until` if that is said; NotFound."""
        self.update(space, file_id, lambda file: _held(file, {*file.held_by, batch}, until))

    def let_go(self, space: Space, file_id: str, batch: str, until: int | None) -> None:
        """Let a batch hold the file no longer, if it is there."""
        with self._lock:
            if (space, file_id) in self._files:
                self.update(space, file_id, lambda file: _held(file, {*file.held_by} - {batch}, until))

    def keep(self, file: File) -> None:
        """Keep a record, whatever is there."""
        with self._lock:
            if (file.space, file.id) not in self._files:
                self._stored[file.space] = storage.change(self.stored(file.space), file, 1)
            self._files[file.space, file.id] = file

    def stored(self, space: Space) -> Stored:
        """Give what the space stores."""
        with self._lock:
            return self._stored.find(space) or Stored()

    def due(self) -> list[tuple[int, File]]:
        """Give the files that are due some time, and when."""
        with self._lock:
            found = ((expiry.file_due(file), file) for file in self._files.where(lambda _: True))
            return [(at, file) for at, file in found if at is not None]


def _held(file: File, batches: set[str], until: int | None) -> File:
    expires_at = file.expires_at if until is None else until
    return msgspec.structs.replace(file, held_by=tuple(sorted(batches)), expires_at=expires_at)
