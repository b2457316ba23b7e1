"""Engines for tests: the echo engine as a real process, and a stub that shows who of its family still lives."""

import asyncio
import fcntl
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from gpu_job.engine import EngineProcess

STUB = Path(__file__).with_name("stub_engine.py")


def echo(folder: Path, *flags: str) -> EngineProcess:
    """Make an echo engine whose output goes to `engine.log` in that folder."""
    return EngineProcess(
        lambda port: [sys.executable, "-m", "gpu_job.echo_engine", "--port", str(port), *flags],
        env=dict(os.environ),
        log_path=folder / "engine.log",
        start_timeout=60,
    )


def stub(
    folder: Path, *flags: str, start_timeout: float = 60, grace: float = 60, kill_timeout: float = 60
) -> EngineProcess:
    """Make a stub engine, which with its own child holds a lock on `lock` in that folder."""
    return EngineProcess(
        lambda port: [sys.executable, str(STUB), str(port), str(folder), *flags],
        env=dict(os.environ),
        log_path=folder / "engine.log",
        start_timeout=start_timeout,
        grace=grace,
        kill_timeout=kill_timeout,
    )


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until another process has come to something; pytest's own limit ends a test that waits in vain."""
    while not await condition():  # noqa: ASYNC110 - another process sets no event here
        await asyncio.sleep(0.01)


def family_lives(folder: Path) -> bool:
    """Whether the stub or its child lives: the kernel frees a lock with its last holder."""
    with (folder / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
