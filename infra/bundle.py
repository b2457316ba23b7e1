"""What a Lambda runs, as a folder: our packages, the models file, and the locked dependencies as wheels for its platform.

The wheels are fetched for the platform and never built, so that neither Docker nor the runtime's Python is needed here; a dependency that has no
wheel for it fails the bundling rather than the Lambda.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("functions", "shared")
MODELS = ROOT / "infra" / "models.json"
LOCK = ROOT / "requirements-lambda.txt"

PYTHON = "3.13"
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
"""Amazon Linux 2023 on Graviton (glibc 2.34); pip takes each of these names for itself alone."""


def copy_code(folder: Path) -> None:
    """Copy our packages and the models file into the folder."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(MODELS, folder / MODELS.name)


def install_dependencies(folder: Path) -> None:
    """Install the locked dependencies into the folder; subprocess.CalledProcessError when pip cannot, after pip said why."""
    platforms = [argument for platform in PLATFORMS for argument in ("--platform", platform)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    target = ["--target", str(folder), "--implementation", "cp", "--python-version", PYTHON, *platforms]
    wheels = ["--only-binary", ":all:", "--no-deps", "--require-hashes", "--requirement", str(LOCK)]
    subprocess.run([*pip, *target, *wheels], check=True)  # noqa: S603 - the command is made here, of constants
    # Scripts begin with the path of this machine's Python: useless there, and they would change the asset from machine to machine.
    shutil.rmtree(folder / "bin", ignore_errors=True)
