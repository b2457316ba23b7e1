"""The process between the server and a job: it starts the job in a group of its own and ends that group.

Run as a script: `python -I -S guard.py LIFELINE ARGV…`, LIFELINE being the read end of a pipe that the server holds
open. A byte on it is a signal for the group: TERMINATE or KILL; its end means that the server is gone, and so is the
group then. When the job's own process ends, whatever is left of its group is killed, and the guard exits with its exit
code (128 + n if signal n ended it; 127 if it could not be started). A pipe and not a parent-death signal alone: that one
follows the thread that forked, and reaches one process and not its children. The job carries it too, where there is one, so
that it does not survive the guard either.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

TERMINATE = b"T"
KILL = b"K"
_NOT_FOUND = 127
_PR_SET_PDEATHSIG = 1


def main(lifeline: int, argv: list[str]) -> int:
    """Run `argv` to its end and return the exit code."""
    # The guard must outlive what it guards; the server speaks to it through the pipe only. A handler that does nothing,
    # since the job would inherit an ignored signal and not this.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    try:
        job = subprocess.Popen(  # noqa: S603 - what it is for
            argv,
            start_new_session=True,
            preexec_fn=_dying_with_parent(),  # noqa: PLW1509 - the only thread so far
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]}: {error.strerror}\n")
        return _NOT_FOUND
    Thread(target=_obey, args=(lifeline, job.pid), daemon=True).start()
    code = job.wait()
    _signal(job.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _dying_with_parent() -> Callable[[], None]:
    library = ctypes.CDLL(None)  # loaded here: between fork and exec as little as possible happens

    def tie() -> None:
        if sys.platform == "linux":
            library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return tie


def _obey(lifeline: int, group: int) -> None:
    while order := os.read(lifeline, 1):
        _signal(group, signal.SIGTERM if order == TERMINATE else signal.SIGKILL)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nobody left; macOS says so of a group of zombies
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
