import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import FakePrograms, Run

PARENT = "import sys; from cli.main import become; become(sys.argv[1:])"


def test_up_starts_the_local_stack_with_its_options(run: Run, programs: FakePrograms, tmp_path: Path) -> None:
    """The stack is a program of its own, of this Python, not of the directory that the command is run in."""
    models = tmp_path / "models.json"
    models.write_text("[]")
    run("up")
    run("up", "--port", "9000", "--time-scale", "1000000", "--state", "somewhere")
    run("up", "--time-scale", "0.5", "--models", str(models))

    program = [sys.executable, "-P", "-m", "local"]
    assert [
        [*program, "--port", "8000"],
        [*program, "--port", "9000", "--time-scale", "1000000", "--state", "somewhere"],
        [*program, "--port", "8000", "--time-scale", "0.5", "--models", str(models)],
    ] == programs.started


@pytest.mark.parametrize(
    "words", [("--port", "0"), ("--port", "65536"), ("--time-scale", "-1"), ("--models", "nowhere.json")]
)
def test_options_of_up_that_cannot_be_meant_are_wrong_usage(
    run: Run, programs: FakePrograms, words: tuple[str, str]
) -> None:
    """Nothing is started."""
    assert 2 == run("up", *words).exit_code
    assert [] == programs.started


def test_the_command_is_the_program_itself() -> None:
    """Its process, its exit code: a signal meets no go-between that could die and leave it behind."""
    script = "import os, sys; print(os.getpid()); sys.exit(7)"
    with subprocess.Popen([sys.executable, "-c", PARENT, sys.executable, "-c", script], stdout=subprocess.PIPE) as up:
        assert up.stdout is not None
        assert f"{up.pid}\n".encode() == up.stdout.read()
        assert 7 == up.wait()
