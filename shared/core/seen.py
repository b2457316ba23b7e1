"""Which custom_ids a file has used, in 16 bytes a line: a hash table in two flat arrays.

It keeps 64 bits of each id's hash and the line that used it first. Python's own string hash is keyed with a secret of the process,
so nobody can craft two ids that collide; by chance, a million ids collide once in forty million files.
"""

from array import array

_EMPTY = 0
_MASK = (1 << 64) - 1


class SeenIds:
    """An insert-only map from custom_id to its first line."""

    def __init__(self) -> None:
        self._resize(1 << 10)
        self._used = 0

    def first_line(self, custom_id: str, line: int) -> int:
        """Give the line that used `custom_id` first: `line` itself when the id is new, which it then is no longer."""
        key = (hash(custom_id) & _MASK) or 1
        slot = self._slot(key)
        if self._keys[slot] == key:
            return self._lines[slot]
        self._keys[slot], self._lines[slot] = key, line
        self._used += 1
        if self._used * 4 > len(self._keys) * 3:
            self._grow()
        return line

    def _slot(self, key: int) -> int:
        keys, mask = self._keys, len(self._keys) - 1
        slot = key & mask
        while keys[slot] != _EMPTY and keys[slot] != key:
            slot = (slot + 1) & mask
        return slot

    def _resize(self, size: int) -> None:
        self._keys = array("Q", bytes(8 * size))
        self._lines = array("I", bytes(4 * size))

    def _grow(self) -> None:
        keys, lines = self._keys, self._lines
        self._resize(2 * len(keys))
        for key, line in zip(keys, lines, strict=True):
            if key != _EMPTY:
                slot = self._slot(key)
                self._keys[slot], self._lines[slot] = key, line
