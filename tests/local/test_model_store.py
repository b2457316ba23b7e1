import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from local.engine_env import NotInstalled
from local.model_store import CHECKPOINTS, CONVERTER, PACKAGES, prepare
from local.options import Options
from shared.core.models import Model

SOURCE = "smollm2-135m"
EMBEDDING = "all-minilm-l6-v2"


class Converter:
    """A converter that writes one file, or fails, or is interrupted half way."""

    def __init__(self, *, fails: bool = False, interrupted: bool = False) -> None:
        self.fails = fails
        self.interrupted = interrupted
        self.ran: list[list[str]] = []

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Write into the folder that is the command's last word."""
        self.ran.append(list(command))
        folder = Path(command[-1])
        (folder / "config.json").write_text("{}")
        if self.interrupted:
            raise KeyboardInterrupt
        (folder / "model.safetensors").write_bytes(b"weights")
        return subprocess.CompletedProcess(command, int(self.fails), "", "Traceback\nOSError: no space left\n")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An engine environment that has the package with the weights."""
    module, name = PACKAGES[SOURCE]
    package = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / module
    package.mkdir(parents=True)
    (package / name).touch()
    return tmp_path / "env"


def prepared(state: Path, environment: Path, converter: Converter) -> Path:
    """Prepare the chat model; what is said is not looked at."""
    return prepare(state, SOURCE, environment=environment, run=converter.run, say=lambda _: None)


def test_a_model_is_converted_into_the_state_folder(tmp_path: Path, environment: Path) -> None:
    """The engine environment's Python converts the package's file; the folder is the model's name."""
    converter = Converter()
    folder = prepared(tmp_path, environment, converter)
    assert tmp_path / "models" / SOURCE == folder
    assert b"weights" == (folder / "model.safetensors").read_bytes()
    (command,) = converter.ran
    assert [str(environment / "bin" / "python"), "-I", str(CONVERTER)] == command[:3]
    assert command[3].endswith(PACKAGES[SOURCE][1])


def test_a_model_that_is_there_is_not_converted_again(tmp_path: Path, environment: Path) -> None:
    """The second time, no program is run."""
    folder = prepared(tmp_path, environment, Converter())
    again = Converter()
    assert folder == prepared(tmp_path, environment, again)
    assert [] == again.ran


@pytest.mark.parametrize("broken", [Converter(interrupted=True), Converter(fails=True)], ids=["interrupted", "failed"])
def test_a_conversion_that_did_not_end_well_leaves_no_model(
    tmp_path: Path, environment: Path, broken: Converter
) -> None:
    """Half a model is never found under the model's name, and the next run starts from an empty folder."""
    with pytest.raises((KeyboardInterrupt, NotInstalled)):
        prepared(tmp_path, environment, broken)
    assert not (tmp_path / "models" / SOURCE).exists()
    folder = prepared(tmp_path, environment, Converter())
    assert ["config.json", "model.safetensors"] == sorted(path.name for path in folder.iterdir())
    assert [folder] == list((tmp_path / "models").iterdir())


def test_a_failed_conversion_says_what_the_converter_said(tmp_path: Path, environment: Path) -> None:
    """The last lines of its output are the reason."""
    with pytest.raises(NotInstalled, match="no space left"):
        prepared(tmp_path, environment, Converter(fails=True))


def test_a_missing_package_is_named(tmp_path: Path, environment: Path) -> None:
    """Without the package that has the weights, the message says so and what to run; nothing is written."""
    module, name = PACKAGES[SOURCE]
    next(environment.glob(f"lib/*/site-packages/{module}/{name}")).unlink()
    with pytest.raises(NotInstalled, match=f"no {module}: run `make setup`"):
        prepared(tmp_path, environment, Converter())
    assert not (tmp_path / "models").exists()


class Pip:
    """A pip that brings one package, or fails, or is interrupted half way."""

    def __init__(self, *, fails: bool = False, interrupted: bool = False) -> None:
        self.fails = fails
        self.interrupted = interrupted
        self.ran: list[list[str]] = []

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Install what the requirements ask for into the target."""
        self.ran.append(list(command))
        assert CHECKPOINTS[EMBEDDING][0] == Path(command[command.index("--requirement") + 1]).read_text()
        inside = Path(command[command.index("--target") + 1]) / CHECKPOINTS[EMBEDDING][1]
        inside.mkdir(parents=True)
        (inside / "config.json").write_text("{}")
        if self.interrupted:
            raise KeyboardInterrupt
        (inside / "model.safetensors").write_bytes(b"weights")
        return subprocess.CompletedProcess(command, int(self.fails), "", "ERROR: hashes do not match\n")


def fetched(state: Path, pip: Pip) -> Path:
    """Prepare the embedding model, where no engine is needed for that."""
    return prepare(state, EMBEDDING, environment=state / "none", run=pip.run, say=lambda _: None)


def test_the_embedding_model_is_its_package_s_checkpoint(tmp_path: Path) -> None:
    """It is fetched by the hash of its package, with nothing that the package itself asks for, and only once."""
    pip = Pip()
    folder = fetched(tmp_path, pip)
    assert tmp_path / "models" / EMBEDDING == folder
    assert b"weights" == (folder / "model.safetensors").read_bytes()
    assert [folder] == list((tmp_path / "models").iterdir())
    (command,) = pip.ran
    assert {"--no-deps", "--require-hashes"} <= set(command)
    assert folder == fetched(tmp_path, pip)
    assert [command] == pip.ran


@pytest.mark.parametrize("broken", [Pip(interrupted=True), Pip(fails=True)], ids=["interrupted", "failed"])
def test_a_fetch_that_did_not_end_well_leaves_no_model(tmp_path: Path, broken: Pip) -> None:
    """The next run begins anew."""
    with pytest.raises((KeyboardInterrupt, NotInstalled)):
        fetched(tmp_path, broken)
    assert not (tmp_path / "models" / EMBEDDING).exists()
    folder = fetched(tmp_path, Pip())
    assert ["config.json", "model.safetensors"] == sorted(path.name for path in folder.iterdir())
    assert [folder] == list((tmp_path / "models").iterdir())


def test_every_model_of_the_stack_that_vllm_serves_can_be_prepared() -> None:
    """What models.json names as a source is a name that the store knows."""
    models = msgspec.json.decode(Path(Options().models).read_bytes(), type=list[Model])
    assert {model.source for model in models if model.engine == "vllm"} == PACKAGES.keys() | CHECKPOINTS.keys()
