"""The records of uploads, beside those of files, and what of both is due."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shared.adapters.dynamodb import files, stored, tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key, Sorted
from shared.adapters.dynamodb.record_table import Kind, RecordTable
from shared.adapters.dynamodb.tables import PARTITION, SORT
from shared.core import expiry
from shared.core.errors import Conflict, Full
from shared.core.ids import Space
from shared.core.records import File, Upload, UploadStatus
from shared.core.room import Room
from shared.ports import Due

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import PutTypeDef

UPLOADS = "uploads"


def _key(space: Space, upload_id: str) -> Key:
    return Key(f"{space}/{UPLOADS}", upload_id)


_KIND = Kind(Upload, lambda upload: _key(upload.space, upload.id), lambda upload: tables.due(expiry.due(upload)))


class DynamoUploads:
    """`shared.ports.UploadStore` and `Expiries`. Args: the client, and what the names of the deployment's tables begin with."""

    def __init__(self, dynamo: Dynamo, prefix: str) -> None:
        self._dynamo = dynamo
        self._table = tables.FILES.named(prefix)
        self._uploads = RecordTable(dynamo, self._table, _KIND)
        self._files = RecordTable(dynamo, self._table, files.KIND)

    def put(self, upload: Upload) -> None:
        """Keep a new record; the very same one again changes nothing, another one of that id is a Conflict."""
        try:
            self._dynamo.put(self._uploads.insertion(upload))
        except Conflict:
            if self._uploads.find(_key(upload.space, upload.id)) != upload:
                raise

    def get(self, space: Space, upload_id: str) -> Upload:
        """Give the record as last written; NotFound."""
        return self._uploads.get(_key(space, upload_id))

    def update(self, space: Space, upload_id: str, change: Callable[[Upload], Upload]) -> Upload:
        """Apply a pure change, by compare-and-set; NotFound; what `change` raises."""
        return self._uploads.update(_key(space, upload_id), change)

    def complete(self, upload: Upload, file: File, room: Room) -> Upload:
        """Keep the file and mark the upload completed with it, in one transaction; Full."""

        def write(put: "PutTypeDef") -> None:
            try:
                self._dynamo.transact(
                    [
                        {"Put": put},
                        {"Put": self._files.insertion(file)},
                        stored.count_in(self._table, file, room),
                    ]
                )
            except Conflict:
                pending = self.get(upload.space, upload.id).status is UploadStatus.PENDING
                if pending and not room.takes(stored.read(self._dynamo, self._table, file.space), file):
                    raise Full(f"{file.space} has no room for {file.id}") from None
                raise

        return self._uploads.update(
            _key(upload.space, upload.id), lambda latest: expiry.completed(latest, file), write=write
        )

    def remove(self, upload: Upload) -> None:
        """Remove the record, if it is there."""
        self._dynamo.delete({"TableName": self._table, "Key": _key(upload.space, upload.id).encode()})

    def due(self, before: float) -> Iterator[Due]:
        """Give the files and uploads that are due before this time, the oldest first, from the index."""
        passed = Sorted("<", f"{int(before):012d}")
        for item in self._dynamo.query(self._table, "due", passed, index=tables.DUE):
            org, contract = item[PARTITION].split("/")[:2]
            yield Due(Space(org, contract), item[SORT])
