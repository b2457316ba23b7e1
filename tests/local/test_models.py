"""Which of the models file's models a machine can serve."""

import json
from pathlib import Path

import pytest

from local import models
from local.models import NoModels, served, wanting
from local.options import Options

BASE = {"id": "m", "revision": "m@1", "source": "m", "engine": "vllm", "endpoints": [], "context": 1, "max_output": 1}
TUNED = BASE | {"id": "ft:m:a", "revision": "a@1", "source": "a", "base": "m"}
ECHO = BASE | {"id": "echo", "revision": "echo@1", "source": "echo", "engine": "echo"}


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """A machine with an engine, and a models file with a base, its adapter and an echo."""
    (tmp_path / "python").touch()
    monkeypatch.setattr(models, "ENGINE_PYTHON", tmp_path / "python")
    (tmp_path / "models.json").write_text(json.dumps([BASE, TUNED, ECHO]))
    (tmp_path / "models").mkdir()
    return Options(state=str(tmp_path), models=str(tmp_path / "models.json"))


@pytest.mark.parametrize(
    ("folders", "here"),
    [([], ["echo"]), (["m"], ["m", "echo"]), (["a"], ["echo"]), (["a", "m"], ["m", "ft:m:a", "echo"])],
)
def test_a_model_is_served_where_its_weights_are(options: Options, folders: list[str], here: list[str]) -> None:
    """An adapter needs those of its base as well; an echo needs none."""
    for name in folders:
        (options.folder / "models" / name).mkdir()
    found, missing = served(options)
    assert here == [model.id for model in found]
    assert {"m", "ft:m:a", "echo"} == {model.id for model in [*found, *missing]}
    assert all(
        model.source == str(options.folder / "models" / model.revision.removesuffix("@1").split(":")[-1])
        for model in found
        if model.engine == "vllm"
    )


def test_weights_may_be_anywhere(options: Options, tmp_path: Path) -> None:
    """A source that is a whole path is taken as it is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path(options.models).write_text(json.dumps([BASE | {"source": str(elsewhere)}]))
    (model,), _ = served(options)
    assert str(elsewhere) == model.source


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read the models file"),
        ("[", "is no models file"),
        ('{"models": []}', "is no models file"),
        (json.dumps([ECHO, ECHO]), "twice"),
        (json.dumps([TUNED]), "the base of the adapter ft:m:a"),
        (json.dumps([BASE | {"weights": "m"}]), "weights"),
        ("[]", "no model"),
        (json.dumps([BASE]), "m is not here: it needs vLLM"),
    ],
)
def test_a_models_file_that_gives_nothing_to_serve_is_told(options: Options, text: str | None, said: str) -> None:
    """By its name, with what is wrong with it."""
    file = Path(options.models)
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(NoModels, match=said) as told:
        served(options)
    assert str(file) in str(told.value)


def test_who_keeps_the_stack_elsewhere_learns_where_weights_belong(options: Options) -> None:
    """`make setup` puts its own into the folder of the project alone."""
    _, missing = served(options)
    assert str(options.folder / "models" / "m") in wanting(options, missing[0])
