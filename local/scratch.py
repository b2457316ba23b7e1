"""A folder of one process, below a folder that several may share: two stacks of one state folder do not touch each other's data.

A process holds a lock as long as it lives, so that what a killed one left behind is told from what a living one uses, and is cleared away by the next.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

_PREFIX = "run-"
_LOCK = "lock"


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Give a new folder below `parent` (made if missing), removed at the end; folders whose processes are gone are removed first."""
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / _LOCK).open("w") as making:
        # Nobody clears away between another's making of a folder and its locking.
        fcntl.flock(making, fcntl.LOCK_EX)
        for left in parent.glob(f"{_PREFIX}*"):
            _clear(left)
        folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
        held = (folder / _LOCK).open("w")
        fcntl.flock(held, fcntl.LOCK_EX)
    with held:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _clear(left: Path) -> None:
    with suppress(OSError), (left / _LOCK).open("w") as lock:  # an OSError: its process lives, or it is gone by now
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(left, ignore_errors=True)
