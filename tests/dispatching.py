"""The dispatcher as a worker has it, for tests that care for some of its parts only."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from threading import RLock

from gpu_job.adapters import AdapterFiles, Adapters
from gpu_job.dispatch import Dispatcher
from gpu_job.engine import Engine
from gpu_job.fetch import Fetcher
from gpu_job.media import Media
from gpu_job.structured import StructuredOutputs
from gpu_job.upstream import Way
from shared.adapters.memory import MemoryBlobs
from shared.adapters.resolver import resolve
from shared.core.models import Model
from shared.ports import Blobs


def dispatcher(
    engine: Engine,
    upstream: Way,
    *,
    row_seconds: float,
    max_in_flight: int = 64,
    stall_seconds: float = 300.0,
    adapters: Mapping[str, Model] | None = None,
    blobs: Blobs | None = None,
    folder: Path = Path("/nowhere"),
    structured: StructuredOutputs | None = None,
    fetcher: Fetcher | None = None,
    fetch_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Dispatcher:
    """Give a dispatcher; without `adapters` there are none, and `fetch_sleep` waits for those that cannot be fetched."""
    files = AdapterFiles(blobs or MemoryBlobs(RLock()), folder)
    return Dispatcher(
        engine,
        upstream,
        media=Media(fetcher or Fetcher(resolve)),
        adapters=Adapters(adapters or {}, files=files, upstream=upstream, sleep=fetch_sleep),
        structured=structured or StructuredOutputs(),
        max_in_flight=max_in_flight,
        row_seconds=row_seconds,
        stall_seconds=stall_seconds,
    )
