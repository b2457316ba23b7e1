"""The worker as the program that it is: what it says when it was given the wrong settings."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from infra.bundle import MODELS
from shared.settings import WorkerSettings


def run(env: dict[str, str]) -> tuple[int, str]:
    """Run a worker in this environment; give its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gpu_job"],
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def settings(models_file: Path) -> WorkerSettings:
    """Give settings that are complete, with a revision that no models file has."""
    return WorkerSettings(
        bucket="bucket",
        table_prefix="slackwater",
        models_file=str(models_file),
        region="eu-west-1",
        revision="gone@1",
        worker="worker_1",
        job="job-1",
        state_machine_arn="arn",
        state_dir="/nowhere",
    )


def test_a_missing_setting_is_named() -> None:
    """In one line, not in a traceback."""
    code, said = run({})
    assert (2, 1) == (code, said.count("\n"))
    assert "SLACKWATER_" in said


def test_a_revision_that_the_models_file_does_not_have_is_told() -> None:
    """Functions of another release have asked for it."""
    expected = (
        f"error: {MODELS} has no revision 'gone@1': deploy the functions and the worker's image with the same models\n"
    )
    assert (2, expected) == run(settings(MODELS).to_env())


def test_a_models_file_that_is_not_there_or_is_none_is_told(tmp_path: Path) -> None:
    """By its name, or by what is wrong in it."""
    code, said = run(settings(tmp_path / "models.json").to_env())
    assert (2, 1) == (code, said.count("\n"))
    assert str(tmp_path / "models.json") in said
    (tmp_path / "models.json").write_bytes(msgspec.json.encode([{"id": "x"}]))
    code, said = run(settings(tmp_path / "models.json").to_env())
    assert (2, 1) == (code, said.count("\n"))
    assert "missing required field" in said
