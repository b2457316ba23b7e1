"""The API keys, in the table of accounts."""

from shared.adapters.dynamodb import tables
from shared.adapters.dynamodb.dynamo import Dynamo, Key
from shared.adapters.dynamodb.record_table import Kind, RecordTable
from shared.core.records import ApiKey


def _key(secret_hash: str) -> Key:
    return Key(f"key#{secret_hash}", "key")


class DynamoKeys:
    """`shared.ports.Keys`. Args: the client, and what the names of the deployment's tables begin with."""

    def __init__(self, dynamo: Dynamo, prefix: str) -> None:
        self._dynamo = dynamo
        self._keys = RecordTable(dynamo, tables.ACCOUNTS.named(prefix), Kind(ApiKey, lambda key: _key(key.hash)))

    def find(self, secret_hash: str) -> ApiKey:
        """Give the key; NotFound."""
        return self._keys.get(_key(secret_hash))

    def put(self, key: ApiKey) -> None:
        """Keep a key; one put is like another, so the last one stays."""
        self._dynamo.put(self._keys.keeping(key))
