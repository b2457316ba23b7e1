"""The bucket in memory. ETags are made as S3 makes them, quotes included."""

from collections.abc import Iterator
from hashlib import md5
from itertools import count
from threading import RLock
from urllib.parse import urlencode

from shared.core.errors import Conflict, NotFound
from shared.ports import BlobInfo

PIECE = 1 << 20
LEAST_PART = 5 << 20


class MemoryBlobs:
    """`shared.ports.Blobs`, `Multipart`, `Inventory` and `Presigner`."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._objects: dict[str, tuple[bytes, str]] = {}
        self._uploads: dict[tuple[str, str], dict[int, bytes]] = {}
        self._numbers = count(1)

    def put(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:
        """Write an object and give its ETag; with `only_if_absent` Conflict when there is one."""
        with self._lock:
            if only_if_absent and key in self._objects:
                raise Conflict(f"there is an object {key} already")
            etag = _etag(data)
            self._objects[key] = (bytes(data), etag)
            return etag

    def get(self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None) -> bytes:
        """Give the bytes of a range, as far as the object has them; NotFound; Conflict when it has another ETag."""
        data, now = self._object(key)
        if etag not in {None, now}:
            raise Conflict(f"the object {key} has changed")
        return data[start:end]

    def stream(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Give the same bytes in pieces of 1 MiB; NotFound comes with the first."""
        data = self.get(key, start, end)
        yield from (data[at : at + PIECE] for at in range(0, len(data), PIECE))

    def stat(self, key: str) -> BlobInfo:
        """Give size and ETag; NotFound."""
        data, etag = self._object(key)
        return BlobInfo(len(data), etag)

    def delete(self, prefix: str) -> None:
        """Remove every object whose key begins with `prefix`."""
        if not prefix:
            raise ValueError("an empty prefix would remove the whole bucket")
        with self._lock:
            for key in self.keys(prefix):
                del self._objects[key]

    def keys(self, prefix: str = "") -> list[str]:
        """Give the keys of all objects with this prefix, sorted. For tests."""
        with self._lock:
            return sorted(key for key in self._objects if key.startswith(prefix))

    def begin(self, key: str) -> str:
        """Begin an upload and give its id."""
        with self._lock:
            upload = f"upload-{next(self._numbers)}"
            self._uploads[key, upload] = {}
            return upload

    def part(self, key: str, upload: str, number: int, data: bytes | bytearray) -> None:
        """Write a part; NotFound when the upload is complete or aborted."""
        with self._lock:
            self._parts(key, upload)[number] = bytes(data)

    def copy(self, key: str, upload: str, number: int, *, source: str, start: int, end: int, etag: str) -> None:
        """Write a part from another object; Conflict when its ETag is another; NotFound when it or the upload is not there."""
        with self._lock:
            self._parts(key, upload)[number] = self.get(source, start, end, etag=etag)

    def complete(self, key: str, upload: str) -> BlobInfo:
        """Make the object of all parts; of a complete upload, give the object; NotFound."""
        with self._lock:
            parts = self._uploads.get((key, upload))
            if parts is None:
                return self.stat(key)
            ordered = [parts[number] for number in sorted(parts)]
            if not ordered or any(len(part) < LEAST_PART for part in ordered[:-1]):
                raise ValueError(f"the upload of {key} has no part, or one before the last that is smaller than 5 MiB")
            etags = b"".join(md5(part, usedforsecurity=False).digest() for part in ordered)
            etag = f'"{md5(etags, usedforsecurity=False).hexdigest()}-{len(ordered)}"'
            del self._uploads[key, upload]
            self._objects[key] = (b"".join(ordered), etag)
            return self.stat(key)

    def abort(self, key: str, upload: str) -> None:
        """Forget the upload and its parts, if they are still there."""
        with self._lock:
            self._uploads.pop((key, upload), None)

    def objects(self, prefix: str) -> Iterator[tuple[str, BlobInfo]]:
        """Give the objects with this prefix, by key."""
        with self._lock:
            return iter([(key, self.stat(key)) for key in self.keys(prefix)])

    def parts(self, key: str, upload: str) -> list[tuple[int, BlobInfo]]:
        """Give the parts of an upload by number; NotFound."""
        with self._lock:
            return [
                (number, BlobInfo(len(part), _etag(part))) for number, part in sorted(self._parts(key, upload).items())
            ]

    def get_url(self, key: str, *, seconds: int, content_type: str) -> str:
        """Give a URL that tells what it is for; nothing serves it."""
        return f"memory://{key}?{urlencode({'seconds': seconds, 'content-type': content_type})}"

    def part_url(self, key: str, upload: str, number: int, *, seconds: int) -> str:
        """Give a URL that tells what it is for; nothing serves it."""
        return f"memory://{key}?{urlencode({'upload': upload, 'part': number, 'seconds': seconds})}"

    def _object(self, key: str) -> tuple[bytes, str]:
        with self._lock:
            if key not in self._objects:
                raise NotFound(f"there is no object {key}")
            return self._objects[key]

    def _parts(self, key: str, upload: str) -> dict[int, bytes]:
        if (key, upload) not in self._uploads:
            raise NotFound(f"there is no upload {upload} of {key}")
        return self._uploads[key, upload]


class MemoryElsewhere:
    """`shared.ports.Elsewhere`: other buckets are there when they are asked for, except those that a test names `forbidden`."""

    FORBIDDEN = "s3://forbidden/"

    def __init__(self, blobs: MemoryBlobs) -> None:
        self._blobs = blobs

    def stat(self, uri: str) -> BlobInfo:
        """Give size and ETag; NotFound."""
        return self._blobs.stat(self._allowed(uri))

    def fetch(self, key: str, upload: str, number: int, *, uri: str, span: tuple[int, int] | None, etag: str) -> None:
        """Write a part from that object; Conflict; NotFound."""
        source = self._allowed(uri)
        start, end = span or (0, self._blobs.stat(source).size)
        self._blobs.copy(key, upload, number, source=source, start=start, end=end, etag=etag)

    def deliver(self, key: str, uri: str) -> None:
        """Copy an object of ours there; NotFound."""
        self._blobs.put(self._allowed(uri), self._blobs.get(key))

    def _allowed(self, uri: str) -> str:
        if uri.startswith(self.FORBIDDEN):
            raise NotFound(f"there is no {uri}, or we may not touch it")
        return uri


def _etag(data: bytes) -> str:
    return f'"{md5(data, usedforsecurity=False).hexdigest()}"'
