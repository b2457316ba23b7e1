"""The API keys in memory."""

from threading import RLock

from shared.adapters.memory.rows import Rows
from shared.core.records import ApiKey


class MemoryKeys:
    """`shared.ports.Keys`."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._keys: Rows[str, ApiKey] = Rows(ApiKey)

    def find(self, secret_hash: str) -> ApiKey:
        """Give the key; NotFound."""
        with self._lock:
            return self._keys.get(secret_hash)

    def put(self, key: ApiKey) -> None:
        """Keep a key; the last one stays."""
        with self._lock:
            self._keys[key.hash] = key
