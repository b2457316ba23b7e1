"""The models that this machine can serve: those of the models file whose engine and weights are here.

An engine that is not installed is not an error of the stack: its models are left out, and who names one in a batch is told that it is not served. An
adapter without its base is left out as well.
"""

from pathlib import Path

import msgspec

from local.options import ROOT, Options
from shared.core.models import Model

ENGINE_PYTHON = ROOT / ".venv-engine" / "bin" / "python"


def folder(options: Options, model: Model) -> Path:
    """Give the folder of a model's prepared weights."""
    return options.folder / "models" / model.source


def served(options: Options) -> tuple[list[Model], list[Model]]:
    """Give the models that can be served, with their weights' folders as sources, and those that cannot."""
    models = msgspec.json.decode(Path(options.models).read_bytes(), type=list[Model])
    here = {model.id for model in models if _is_here(options, model)}
    here -= {model.id for model in models if model.base is not None and model.base not in here}
    there = [msgspec.structs.replace(model, source=_source(options, model)) for model in models if model.id in here]
    return there, [model for model in models if model.id not in here]


def _is_here(options: Options, model: Model) -> bool:
    return model.engine != "vllm" or (ENGINE_PYTHON.exists() and folder(options, model).exists())


def _source(options: Options, model: Model) -> str:
    weighs = model.engine == "vllm" or model.base is not None
    return str(folder(options, model)) if weighs else model.source
