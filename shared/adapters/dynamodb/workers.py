"""The workers of each model revision."""

from collections.abc import Callable

from shared.adapters.dynamodb import tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key
from shared.adapters.dynamodb.record_table import Kind, RecordTable
from shared.core.records import Workers


def _key(revision: str) -> Key:
    return Key(revision, "workers")


class DynamoWorkers:
    """`shared.ports.WorkerTable`. Args: the client, and what the names of the deployment's tables begin with."""

    def __init__(self, dynamo: Dynamo, prefix: str) -> None:
        kind = Kind(Workers, lambda workers: _key(workers.revision))
        self._workers = RecordTable(dynamo, tables.MODELS.named(prefix), kind)

    def get(self, revision: str) -> Workers:
        """Give the record as last written, an empty one when there is none."""
        return self._workers.find(_key(revision)) or Workers(revision=revision)

    def update(self, revision: str, change: Callable[[Workers], Workers]) -> Workers:
        """Apply a pure change, by compare-and-set."""
        return self._workers.update(_key(revision), change, empty=Workers(revision=revision))
