"""The models that this machine can serve: those of the models file whose engine and weights are here.

An engine that is not installed is not an error of the stack: its models are left out, and who names one in a batch is told that it is not served. An
adapter without its base is left out as well.
"""

from pathlib import Path

import msgspec

from local.options import ROOT, Options
from shared.core.models import Model, Registry

ENGINE_PYTHON = ROOT / ".venv-engine" / "bin" / "python"


class NoModels(Exception):  # noqa: N818 - it is named for what happened
    """There is nothing to serve; the message says why and what to do."""


def folder(options: Options, model: Model) -> Path:
    """Give the folder of a model's prepared weights."""
    return options.folder / "models" / model.source


def served(options: Options) -> tuple[list[Model], list[Model]]:
    """Give the models that can be served, with their weights' folders as sources, and those that cannot.

    NoModels where the file cannot be read, is not one of models, or has none that can be served.
    """
    models = _read(Path(options.models))
    here = {model.id for model in models if _is_here(options, model)}
    here -= {model.id for model in models if model.base is not None and model.base not in here}
    there = [msgspec.structs.replace(model, source=_source(options, model)) for model in models if model.id in here]
    missing = [model for model in models if model.id not in here]
    if not there:
        raise NoModels(
            "\n".join([f"no model of {options.models} can be served", *(wanting(options, m) for m in missing)])
        )
    return there, missing


def wanting(options: Options, model: Model) -> str:
    """Say what a model that is not here needs."""
    if options.folder == Options().folder and options.models == Options().models:
        return f"{model.id} is not here: `make setup` installs its engine and weights"
    return f"{model.id} is not here: it needs vLLM, which `make setup` installs, and its weights in {folder(options, model)}"


def _read(file: Path) -> list[Model]:
    try:
        return list(Registry.from_json(file.read_bytes()).values())
    except OSError as error:
        raise NoModels(f"cannot read the models file {file}: {error.strerror}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise NoModels(f"{file} is no models file as local/models.json is one: {error}") from error


def _is_here(options: Options, model: Model) -> bool:
    return model.engine != "vllm" or (ENGINE_PYTHON.exists() and folder(options, model).exists())


def _source(options: Options, model: Model) -> str:
    weighs = model.engine == "vllm" or model.base is not None
    return str(folder(options, model)) if weighs else model.source
