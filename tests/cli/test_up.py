import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import FakePrograms, Run

CHILD = """
import signal, sys
awaited = {signal.SIGINT, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
print("ready", flush=True)
heard = [signal.sigwait(awaited).name]
if again := signal.sigtimedwait(awaited, 0.5):
    heard.append(signal.Signals(again.si_signo).name)
print(*heard, flush=True)
sys.exit(7)
"""
PARENT = "import sys; from cli.stack import run_in_foreground; sys.exit(run_in_foreground(sys.argv[1:]))"


def test_up_starts_the_local_stack_with_its_options(run: Run, programs: FakePrograms) -> None:
    """The stack is a program of its own, of this Python, not of the directory that the command is run in."""
    run("up")
    run("up", "--port", "9000", "--time-scale", "1000000", "--state", "somewhere")
    run("up", "--time-scale", "0.5")

    program = [sys.executable, "-P", "-m", "local"]
    assert [
        [*program, "--port", "8000"],
        [*program, "--port", "9000", "--time-scale", "1000000", "--state", "somewhere"],
        [*program, "--port", "8000", "--time-scale", "0.5"],
    ] == programs.started


@pytest.mark.parametrize("exit_code", [0, 3, 130])
def test_up_ends_with_the_exit_code_of_the_stack(run: Run, programs: FakePrograms, exit_code: int) -> None:
    """What the stack says is what the command says."""
    programs.exit_code = exit_code

    assert exit_code == run("up").exit_code


@pytest.mark.parametrize("words", [("--port", "0"), ("--port", "65536"), ("--time-scale", "-1")])
def test_options_of_up_that_cannot_be_meant_are_wrong_usage(
    run: Run, programs: FakePrograms, words: tuple[str, str]
) -> None:
    """Nothing is started."""
    assert 2 == run("up", *words).exit_code
    assert [] == programs.started


@pytest.mark.parametrize(
    ("sent", "heard"),
    [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGTERM")],
)
def test_a_signal_reaches_the_program_once(tmp_path: Path, sent: signal.Signals, heard: str) -> None:
    """A signal to the whole foreground group, as a terminal's Ctrl-C is, comes through once; so does the exit code."""
    child = tmp_path / "child.py"
    child.write_text(CHILD)
    command = [sys.executable, "-c", PARENT, sys.executable, str(child)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0) as parent:
        assert parent.stdout is not None
        assert "ready\n" == parent.stdout.readline()
        os.killpg(parent.pid, sent)

        assert f"{heard}\n" == parent.stdout.read()
        assert 7 == parent.wait()


def test_a_program_killed_by_a_signal_gives_128_and_its_number() -> None:
    """As a shell does it."""
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    command = [sys.executable, "-c", PARENT, sys.executable, "-c", script]

    assert 128 + signal.SIGKILL == subprocess.run(command, check=False).returncode
