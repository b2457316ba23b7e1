"""Which custom_ids a file has used, in less than 16 bytes a line: a hash table whose buckets are flat records.

A record is the id's hash and the line that used it first, 12 bytes. The buckets are many and fixed, and each grows by itself, so that memory follows the
lines smoothly: no table is ever doubled. Of the 64 bits of the hash the bucket tells 14, the record keeps 50. Python's own string hash is keyed with a
secret of the process, so nobody can craft two ids that collide; by chance, a million ids collide once in forty million files.
"""

_BUCKET_BITS = 14
_HASH_MASK = (1 << 64) - 1
_BUCKET_MASK = (1 << _BUCKET_BITS) - 1
_HASH_BYTES = 7
_LINE_BYTES = 5  # a file of 5 GB may have more lines than four bytes can count
_RECORD = _HASH_BYTES + _LINE_BYTES


class SeenIds:
    """An insert-only map from custom_id to its first line."""

    def __init__(self) -> None:
        self._buckets: list[bytearray | None] = [None] * (1 << _BUCKET_BITS)

    def first_line(self, custom_id: str, line: int) -> int:
        """Give the line that used `custom_id` first: `line` itself when the id is new, which it then is no longer."""
        key = hash(custom_id) & _HASH_MASK
        tail = (key >> _BUCKET_BITS).to_bytes(_HASH_BYTES, "big")
        index = key & _BUCKET_MASK
        bucket = self._buckets[index]
        if bucket is None:
            bucket = self._buckets[index] = bytearray()
        at = bucket.find(tail)
        while at > 0 and at % _RECORD:  # bytes of two neighbours can look like a hash
            at = bucket.find(tail, at + 1)
        if at >= 0:
            return int.from_bytes(bucket[at + _HASH_BYTES : at + _RECORD], "big")
        bucket += tail + line.to_bytes(_LINE_BYTES, "big")
        return line
