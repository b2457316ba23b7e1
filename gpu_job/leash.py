"""The engine on a leash: whatever ends the worker, SIGKILL included, ends the engine and everything the engine started.

    python -m gpu_job.leash COMMAND [ARGUMENT ...]        started by `gpu_job.engine.EngineProcess`, with a pipe as stdin

The pipe is the leash. The worker holds its other end and writes nothing into it; the kernel closes that end with the
worker, however the worker dies, and then the engine's whole process group is killed. A parent-death signal alone would
not do: it follows the thread that forked, macOS has none, and it does not reach the processes that the engine itself
started (vLLM keeps the model in one of those, and it outlives a killed server). The engine carries that signal too,
where there is one, so that it cannot survive this process either.

    SIGTERM here          SIGTERM to the engine alone: it ends its own processes, and may finish requests first
    the leash let go      SIGKILL to the engine's process group
    the engine ended      SIGKILL to what is left of its group; exit with its code (128 + n after signal n)
    it cannot be started  a line on stderr; exit 127
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType

_PR_SET_PDEATHSIG = 1
_NOT_STARTED = 127
_BY_SIGNAL = 128


def run(command: Sequence[str]) -> int:
    """Run the command until it ends or the leash (stdin) is let go; the exit code to end with."""
    engine: subprocess.Popen[bytes] | None = None
    asked_to_stop = False

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True
        if engine is not None:
            engine.terminate()

    signal.signal(signal.SIGTERM, ask_to_stop)
    try:
        engine = subprocess.Popen(  # noqa: S603 - the command is the worker's own, no shell reads it
            command,
            stdin=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=_die_with_parent(),  # noqa: PLW1509 - the only thread that runs here is this one
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return _NOT_STARTED
    if asked_to_stop:  # the signal came while Popen was forking, when the handler had nobody to pass it on to
        engine.terminate()
    threading.Thread(target=_kill_when_let_go, args=(engine.pid,), daemon=True).start()
    code = engine.wait()
    _kill_group(engine.pid)
    return code if code >= 0 else _BY_SIGNAL - code


def _die_with_parent() -> Callable[[], None]:
    """Make what the engine's process does before it becomes the engine: tie its life to this one."""
    parent = os.getpid()
    library = ctypes.CDLL(None)  # loaded here: between fork and exec as little as possible happens

    def tie() -> None:
        if sys.platform == "linux":
            library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the tie held
            os._exit(_NOT_STARTED)

    return tie


def _kill_when_let_go(group: int) -> None:
    while os.read(0, 1):  # end of file: the worker let go, or died
        pass
    _kill_group(group)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
