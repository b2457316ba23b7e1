"""Nothing happens at import: with an empty environment and no network, every module can be imported and makes no client.

The modules are found on the disk, so that one that is written tomorrow is held to it, too.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ELSEWHERE = {"local.convert_gguf"}  # runs in the engine's environment, which has the libraries that it imports
PACKAGES = ["functions", "gpu_job", "infra", "shared", "local", "cli"]

# Runs in a process of its own. What a module must not do raises here; what it raised is told, a module a line.
IMPORTER = """
import importlib, socket, subprocess, sys


def forbidden(what):
    def call(*_, **__):
        raise AssertionError(f"{what} at import")

    return call


class NoSocket(socket.socket):
    __init__ = forbidden("a socket")


socket.socket = NoSocket
socket.getaddrinfo = forbidden("a name look-up")

import botocore.session

botocore.session.Session.create_client = forbidden("an AWS client")
if sys.argv[1] != "infra":  # aws_cdk is JavaScript: importing it starts its Node process
    subprocess.Popen.__init__ = forbidden("a process")

for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print(f"{name}: {type(error).__name__}: {error}")
"""


def modules(package: str) -> list[str]:
    """Give the names of a package and of all modules below it."""
    paths = sorted((ROOT / package).rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return [name for name in names if name not in ELSEWHERE]


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_happens_at_import(package: str, tmp_path: Path) -> None:
    """No variable but PATH, no socket, no look-up, no AWS client, no process: and no module of the package misses them."""
    names = modules(package)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}

    done = subprocess.run(
        [sys.executable, "-c", IMPORTER, package, *names],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "" == done.stdout
    assert 0 == done.returncode, done.stderr
    assert [] == list(tmp_path.iterdir())


def test_the_packages_are_all_there_are() -> None:
    """A new folder with code is named here, or it is one of those that are not deployed."""
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    assert folders <= {*PACKAGES, "tests", "bench"}
    assert all(len(modules(package)) > 1 for package in PACKAGES)
