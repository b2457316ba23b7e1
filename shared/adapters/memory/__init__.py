"""Every port in memory: for tests, and to try services without AWS. One lock makes each call atomic; values are copied in and out.

`Memory` is one world: its stores know each other where one call writes to several of them.
"""

from threading import RLock

from shared.adapters.memory.batches import MemoryBatches
from shared.adapters.memory.blobs import MemoryBlobs
from shared.adapters.memory.files import MemoryFiles
from shared.adapters.memory.keys import MemoryKeys
from shared.adapters.memory.outside import MemoryFleet, MemoryWorkflow
from shared.adapters.memory.shards import MemoryChunkLog, MemoryShards
from shared.adapters.memory.workers import MemoryWorkers

__all__ = [
    "Memory",
    "MemoryBatches",
    "MemoryBlobs",
    "MemoryChunkLog",
    "MemoryFiles",
    "MemoryFleet",
    "MemoryKeys",
    "MemoryShards",
    "MemoryWorkers",
    "MemoryWorkflow",
]


class Memory:
    """All adapters over one state.

    Attributes:
        keys: `Keys`.
        files: `FileStore`.
        batches: `BatchStore` and `OpenBatches`.
        shards: `Shards` and `ShardQueue`.
        chunks: `ChunkLog`.
        workers: `WorkerTable`.
        blobs: `Blobs` and `Multipart`.
        workflow: `Workflow`.
        fleet: `Fleet`.

    """

    def __init__(self) -> None:
        lock = RLock()
        self.keys = MemoryKeys(lock)
        self.files = MemoryFiles(lock)
        self.batches = MemoryBatches(lock, self.files)
        self.shards = MemoryShards(lock)
        self.chunks = MemoryChunkLog(lock, self.shards)
        self.workers = MemoryWorkers(lock)
        self.blobs = MemoryBlobs(lock)
        self.workflow = MemoryWorkflow(lock)
        self.fleet = MemoryFleet(lock)
