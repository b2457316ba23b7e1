"""Every port in memory: for tests, and to try services without AWS. One lock makes each call atomic; values are copied in and out.

`Memory` is one world: its stores know each other where one call writes to several of them.
"""

from threading import RLock

from shared.adapters.memory.batches import MemoryBatches
from shared.adapters.memory.blobs import MemoryBlobs, MemoryElsewhere
from shared.adapters.memory.files import MemoryFiles
from shared.adapters.memory.keys import MemoryKeys
from shared.adapters.memory.outside import MemoryFleet, MemoryScans, MemoryWorkflow
from shared.adapters.memory.shards import MemoryChunkLog, MemoryShards
from shared.adapters.memory.uploads import MemoryUploads
from shared.adapters.memory.workers import MemoryWorkers

__all__ = [
    "Memory",
    "MemoryBatches",
    "MemoryBlobs",
    "MemoryChunkLog",
    "MemoryElsewhere",
    "MemoryFiles",
    "MemoryFleet",
    "MemoryKeys",
    "MemoryScans",
    "MemoryShards",
    "MemoryUploads",
    "MemoryWorkers",
    "MemoryWorkflow",
]


class Memory:
    """All adapters over one state.

    Attributes:
        keys: `Keys`.
        files: `FileStore`.
        uploads: `UploadStore` and `Expiries`.
        batches: `BatchStore` and `OpenBatches`.
        shards: `Shards` and `ShardQueue`.
        chunks: `ChunkLog`.
        workers: `WorkerTable`.
        blobs: `Blobs`, `Multipart`, `Inventory` and `Presigner`.
        elsewhere: `Elsewhere`, kept in `blobs` under its URIs.
        workflow: `Workflow`.
        scans: `ScanStarter`.
        fleet: `Fleet`.

    """

    def __init__(self) -> None:
        lock = RLock()
        self.keys = MemoryKeys(lock)
        self.files = MemoryFiles(lock)
        self.uploads = MemoryUploads(lock, self.files)
        self.batches = MemoryBatches(lock, self.files)
        self.shards = MemoryShards(lock)
        self.chunks = MemoryChunkLog(lock, self.shards)
        self.workers = MemoryWorkers(lock)
        self.blobs = MemoryBlobs(lock)
        self.elsewhere = MemoryElsewhere(self.blobs)
        self.workflow = MemoryWorkflow(lock)
        self.scans = MemoryScans(lock)
        self.fleet = MemoryFleet(lock)
