"""Writing an object whose size is not known beforehand, in the memory of one part."""

from shared.ports import Blobs, Multipart

PART_BYTES = 8 << 20


class ObjectWriter:
    """Takes bytes as they come. A small object is one simple put; a larger one is uploaded in parts.

    Nothing is visible under the key before `close`; `abort` leaves nothing behind.
    """

    def __init__(self, blobs: Blobs, multipart: Multipart, key: str) -> None:
        self._blobs = blobs
        self._multipart = multipart
        self._key = key
        self._buffer = bytearray()
        self._upload: str | None = None
        self._part = 1
        self.size = 0

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._buffer += data
        self.size += len(data)
        while len(self._buffer) > PART_BYTES:  # the last part may have any size
            self._flush(PART_BYTES)

    def close(self) -> None:
        """Make the object appear."""
        if self._upload is None and len(self._buffer) <= PART_BYTES:
            self._blobs.put(self._key, bytes(self._buffer))
            return
        while self._buffer:
            self._flush(PART_BYTES)
        if self._upload is not None:
            self._multipart.complete(self._key, self._upload)

    def abort(self) -> None:
        """Forget everything that was written."""
        if self._upload is not None:
            self._multipart.abort(self._key, self._upload)

    def _flush(self, size: int) -> None:
        if self._upload is None:
            self._upload = self._multipart.begin(self._key)
        self._multipart.part(self._key, self._upload, self._part, bytes(self._buffer[:size]))
        del self._buffer[:size]
        self._part += 1
