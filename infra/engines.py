"""The engines that workers of the stack can run: each has an image and a job definition. A model of another engine would wait for a worker for ever."""

from shared.core.models import Registry

ENGINES = ("vllm",)


def check_engines(models: Registry) -> None:
    """Raise ValueError for a model that no worker of the stack could serve."""
    for model in models.values():
        if model.engine not in ENGINES:
            known = " or ".join(ENGINES)
            raise ValueError(
                f"{model.id}: no worker of the stack runs the engine {model.engine!r}; deploy models of {known}"
            )
