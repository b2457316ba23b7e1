"""The stack, synthesized once a session as `make synth` does it: by the command, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.infra.template import Template

ROOT = Path(__file__).parents[2]
NO_PROGRAMS = "/nonexistent"
"""A PATH on which there is no Node, nor anything else."""


class Synthesis(NamedTuple):
    """What the command left and said."""

    folder: Path
    code: int
    said: str

    def template(self, name: str) -> Template:
        """Give the template of the stack with this name."""
        return Template(self.folder / f"{name}.template.json")


def synthesize(folder: Path, **context: object) -> Synthesis:
    """Run the command with this context (under `slackwater:`), as CDK's own command would pass it on."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("JSII_", "CDK_", "AWS_"))},
        "PATH": NO_PROGRAMS,
        "CDK_OUTDIR": str(folder),
        "CDK_CONTEXT_JSON": json.dumps({f"slackwater:{name}": value for name, value in context.items()}),
    }
    command = [sys.executable, "-W", "error", "-m", "infra.app"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return Synthesis(folder, done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="session")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    """Give the stack as it is without any context."""
    return synthesize(tmp_path_factory.mktemp("cdk") / "out")


@pytest.fixture(scope="session")
def template(synthesis: Synthesis) -> Template:
    """Give its template."""
    assert 0 == synthesis.code, synthesis.said
    return synthesis.template("slackwater")


@pytest.fixture(scope="session")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Give the template of a stack for which everything was chosen otherwise."""
    folder = tmp_path_factory.mktemp("cdk-chosen") / "out"
    synthesis = synthesize(
        folder,
        name="staging",
        egress="nat",
        on_demand="true",
        max_workers="3",
        mounts="gridline=/g/openai/v1,openai=/v1",
        windows="12h,48h",
        account_bytes="1000",
        account_batches="7",
    )
    assert 0 == synthesis.code, synthesis.said
    return synthesis.template("staging")
