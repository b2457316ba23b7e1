"""What callers meet of a world: files and batches."""

from collections.abc import Sequence
from threading import RLock
from typing import TYPE_CHECKING

import msgspec

from shared.adapters.memory import MemoryBlobs
from shared.core.contracts import CONTRACTS
from shared.core.ids import Space
from shared.core.records import Batch
from tests.services import world as services_world

if TYPE_CHECKING:
    from tests.system.world import World

URL = "/v1/chat/completions"


class WatchedBlobs(MemoryBlobs):
    """The bucket, which knows the keys that were read, and keeps of every chunk what was written."""

    def __init__(self, lock: RLock) -> None:
        super().__init__(lock)
        self.read: set[str] = set()
        self.chunks: dict[str, bytes] = {}

    def put(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:
        """As `Blobs.put`."""
        etag = super().put(key, data, only_if_absent=only_if_absent)
        if "/chunks/" in key:
            self.chunks[key] = bytes(data)
        return etag

    def get(self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None) -> bytes:
        """As `Blobs.get`."""
        self.read.add(key)
        return super().get(key, start, end, etag=etag)


class Api(services_world.World):
    """What callers meet, in the world's time and weather."""

    def __init__(self, world: "World") -> None:
        self._world = world
        super().__init__(
            world.memory,
            file_store=world.weather.over("files", world.memory.files),
            batch_store=world.batches,
            blobs=world.blobs,
            workflow=world.workflow,
            shards=world.shards,
            chunks=world.chunks,
            registry=world.registry,
        )

    def clock(self) -> float:
        """Give the world's time."""
        return self._world.clock()

    def new_id(self, prefix: str) -> str:
        """Give the world's next id."""
        return self._world.new_id(prefix)

    def create(self, prompts: Sequence[str], space: Space, model: str, window: str) -> Batch:
        """Create a batch of these prompts; prompt n has the custom_id `c<n>`."""
        lines = []
        for number, prompt in enumerate(prompts):
            body = {"model": model, "messages": [{"role": "user", "content": prompt}], "max_tokens": 8}
            lines.append({"custom_id": f"c{number}", "method": "POST", "url": URL, "body": body})
        return self.create_of(lines, space, window)

    def create_of(self, lines: Sequence[object], space: Space, window: str) -> Batch:
        """Create a batch of a file of these lines."""
        rules = CONTRACTS[space.contract]
        intake = self.files.begin(space, rules)
        for line in lines:
            intake.write(msgspec.json.encode(line) + b"\n")
        file = intake.finish(purpose="batch")
        request: dict[str, object] = {"input_file_id": file.id, "endpoint": URL, "completion_window": window}
        return self.batches.create(space, rules, request, key=f"for {file.id}")
