"""S3: objects whose bytes lie in files, and the conditions of writes and copies.

What moto 5.2.5 does otherwise, and what stands here instead:

- every GET, ranged or not, and every copy reads the whole object into memory, and CompleteMultipartUpload joins the
  parts there: an object is a `Rope` of pieces of files, read as it is sent, and a copied or joined one shares them;
- `If-None-Match: *` is looked at and then written without a lock: operations run one at a time (bodies are received
  before and answers sent after);
- `x-amz-copy-source-if-match` is ignored: it is checked;
- a part for an unknown upload is a KeyError: it is NoSuchUpload.

Signatures, expiry of presigned URLs and checksums are not verified, as in moto.
"""

# ruff: noqa: ANN401 - moto's own values pass through untouched

import codecs
import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit
from uuid import uuid4
from weakref import finalize

from moto.s3.exceptions import EntityTooSmall, InvalidPart, MalformedXML, MissingKey, NoSuchUpload, PreconditionFailed
from moto.s3.models import FakeKey, FakeMultipart
from moto.s3.responses import S3Response
from moto.settings import S3_UPLOAD_PART_MIN_SIZE

from local.shim.patches import replace

_IN_MEMORY_BYTES = 1 << 16
_READ_BYTES = 1 << 20


class _File:
    """Bytes in a file of their own, that is gone when nothing refers to them any more."""

    def __init__(self, content: bytes, directory: Path) -> None:
        self._path = directory / str(uuid4())
        self._path.write_bytes(content)
        finalize(self, _remove, self._path)

    def read(self, start: int, end: int) -> Iterator[bytes]:
        with self._path.open("rb", buffering=0) as file:
            for offset in range(start, end, _READ_BYTES):
                yield os.pread(file.fileno(), min(_READ_BYTES, end - offset), offset)


class _Memory:
    """Bytes few enough to stay in memory."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, start: int, end: int) -> Iterator[bytes]:
        yield self._content[start:end]


class _Piece(NamedTuple):
    store: _File | _Memory
    start: int
    end: int


class Rope:
    """Immutable bytes as pieces of stores: has a length, slices to ropes, and yields its bytes in parts of ≤ 1 MiB.

    That is all that moto asks of the value of a key, which is `bytes` there.
    """

    def __init__(self, pieces: tuple[_Piece, ...]) -> None:
        self.pieces = pieces
        self._length = sum(piece.end - piece.start for piece in pieces)

    @classmethod
    def of(cls, content: bytes, directory: Path) -> "Rope":
        """Store `content`, in a file below `directory` unless it is small."""
        store = _Memory(content) if len(content) <= _IN_MEMORY_BYTES else _File(content, directory)
        return cls((_Piece(store, 0, len(content)),))

    @classmethod
    def joined(cls, ropes: list["Rope"]) -> "Rope":
        """Return the ropes one after the other; nothing is copied."""
        return cls(tuple(piece for rope in ropes for piece in rope.pieces))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, span: slice) -> "Rope":
        start, end, _ = span.indices(self._length)
        pieces, offset = [], 0
        for piece in self.pieces:
            low, high = piece.start + max(0, start - offset), min(piece.end, piece.start + end - offset)
            if low < high:
                pieces.append(_Piece(piece.store, low, high))
            offset += piece.end - piece.start
        return Rope(tuple(pieces))

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            yield from piece.store.read(piece.start, piece.end)

    def __deepcopy__(self, _: object) -> "Rope":
        return self

    def md5(self) -> str:
        """Return the digest, which is the ETag of an object written in one part."""
        digest = hashlib.md5(usedforsecurity=False)
        for part in self:
            digest.update(part)
        return digest.hexdigest()


def install(undo: ExitStack, directory: Path) -> None:
    """Make moto's S3 keep its bytes in `directory`, and write and copy on condition."""
    _keep_in_files(undo, directory)
    _join_parts(undo)
    _one_at_a_time(undo)
    _check_copy_source(undo)


def _keep_in_files(undo: ExitStack, directory: Path) -> None:
    def get_value(key: FakeKey) -> Rope:
        rope: Rope = key.__dict__["rope"]
        return rope

    def set_value(key: FakeKey, value: bytes | Rope) -> None:
        rope = value if isinstance(value, Rope) else Rope.of(value, directory)
        key._value_buffer.close()  # noqa: SLF001 - the spooled file that moto makes for each key
        key.__dict__["rope"] = rope
        key.contentsize = len(rope)
        key._etag = key._etag or rope.md5()  # noqa: SLF001 - the field that moto's `etag` answers from

    replace(undo, FakeKey, "value", property(get_value, set_value))
    # Files go when the last reader does, so a key has nothing to dispose of (and nothing to warn about).
    replace(undo, FakeKey, "dispose", lambda key, garbage=False: None)  # noqa: ARG005 - moto's signature


def _join_parts(undo: ExitStack) -> None:
    def complete(upload: FakeMultipart, body: Iterator[tuple[int, str]]) -> tuple[Rope, str, None]:
        digests = bytearray()
        parts: list[Rope] = []
        for number, etag in body:
            part = upload.parts.get(number)
            if part is None or part.etag.strip('"') != etag.strip('"'):
                raise InvalidPart
            if parts and len(parts[-1]) < S3_UPLOAD_PART_MIN_SIZE:
                raise EntityTooSmall
            digests += codecs.decode(part.etag.strip('"'), "hex")
            parts.append(cast("Rope", part.value))
        if not parts:
            raise MalformedXML
        digest = hashlib.md5(digests, usedforsecurity=False).hexdigest()
        return Rope.joined(parts), f"{digest}-{len(parts)}", None

    replace(undo, FakeMultipart, "complete", complete)


def _one_at_a_time(undo: ExitStack) -> None:
    lock = RLock()

    def key_response(response: S3Response, request: Any, full_url: str) -> Any:
        with lock:
            _require_upload(response)
            return key_response_in_moto(response, request, full_url)

    def bucket_response(response: S3Response, request: Any, full_url: str) -> Any:
        with lock:
            return bucket_response_in_moto(response, request, full_url)

    key_response_in_moto = replace(undo, S3Response, "_key_response", key_response)
    bucket_response_in_moto = replace(undo, S3Response, "_bucket_response", bucket_response)


def _require_upload(response: S3Response) -> None:
    """Raise `NoSuchUpload` for an upload that is neither open nor the one that made the object that is there."""
    upload = response._get_param("uploadId")  # noqa: SLF001 - moto's own way to read the query
    if not upload or upload in response.backend.get_bucket(response.bucket_name).multiparts:
        return
    existing = response.backend.get_object(response.bucket_name, response.parse_key_name())
    completed_again = response.method == "POST" and existing and existing.multipart and existing.multipart.id == upload
    if not completed_again:
        raise NoSuchUpload(upload_id=upload)


def _check_copy_source(undo: ExitStack) -> None:
    def checked(copy_in_moto: Any) -> Any:
        def copy(response: S3Response) -> Any:
            _require_source(response)
            return copy_in_moto(response)

        return copy

    for name in ("upload_part_copy", "copy_object"):
        replace(undo, S3Response, name, checked(vars(S3Response)[name]))


def _require_source(response: S3Response) -> None:
    source = urlsplit(response.headers["x-amz-copy-source"])
    bucket, key = unquote(source.path).lstrip("/").split("/", 1)
    found = response.backend.get_object(bucket, key)
    if found is None:
        raise MissingKey(key=key)
    wanted = response.headers.get("x-amz-copy-source-if-match")
    if wanted and wanted.strip('"') != found.etag.strip('"'):
        raise PreconditionFailed("x-amz-copy-source-If-Match")


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
