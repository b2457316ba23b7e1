"""Uploads are streamed: the memory that they take does not depend on their size."""

import tracemalloc
from collections.abc import Iterator
from threading import RLock

import pytest

from shared.adapters.memory import MemoryBlobs
from shared.ports import BlobInfo
from tests.api.asgi import call
from tests.api.world import World

LINE = b'{"custom_id": "%07d", "pad": "' + b"x" * 65_000 + b'"}\n'
"""A line whose scan is cheap: it is refused after a look at its keys."""

CEILING = 48 << 20


class Nowhere(MemoryBlobs):
    """A store of objects that only counts their bytes."""

    def __init__(self) -> None:
        super().__init__(RLock())
        self.bytes = 0

    def put(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:  # noqa: ARG002 - the port's
        """Count an object."""
        self.bytes += len(data)
        return ""

    def part(self, key: str, upload: str, number: int, data: bytes) -> None:  # noqa: ARG002 - the port's
        """Count a part."""
        self.bytes += len(data)

    def complete(self, key: str, upload: str) -> BlobInfo:  # noqa: ARG002 - the port's
        """End an upload."""
        return BlobInfo(self.bytes, "")


def body(megabytes: int) -> Iterator[bytes]:
    """Give the body of an upload of this size, in the pieces of a network."""
    yield b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    yield b'--XX\r\nContent-Disposition: form-data; name="file"; filename="big.jsonl"\r\n\r\n'
    for number in range(megabytes * 16):
        yield LINE % number
    yield b"\r\n--XX--\r\n"


@pytest.mark.timeout(120)
async def test_an_upload_of_200_mb_runs_in_the_memory_of_a_few_parts(world: World) -> None:
    """200 MB go through in less than 48 MiB."""
    nowhere = Nowhere()
    world.files._blobs = nowhere
    world.files._multipart = nowhere
    tracemalloc.start()
    try:
        answer = await call(world.app, body(200))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 200 == answer.status_code
    assert nowhere.bytes >= 200 * 16 * 65_000
    assert peak < CEILING
