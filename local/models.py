"""The models that this machine can serve: those of models.json whose engine and weights are here.

An engine that is not installed is not an error of the stack: its models are left out, and who names one in a batch is told that it is not served.
"""

import msgspec

from local.options import ROOT, Options
from shared.core.models import Model

MODELS = ROOT / "local" / "models.json"
ENGINE_PYTHON = ROOT / ".venv-engine" / "bin" / "python"


def folder(options: Options, model: Model) -> str:
    """Give the folder of a model's prepared weights."""
    return str(options.folder / "models" / model.source)


def served(options: Options) -> tuple[list[Model], list[Model]]:
    """Give the models that can be served, with their weights' folders as sources, and those that cannot."""
    here, missing = [], []
    for model in msgspec.json.decode(MODELS.read_bytes(), type=list[Model]):
        if model.engine != "vllm":
            here.append(model)
        elif ENGINE_PYTHON.exists() and (options.folder / "models" / model.source).exists():
            here.append(msgspec.structs.replace(model, source=folder(options, model)))
        else:
            missing.append(model)
    return here, missing
