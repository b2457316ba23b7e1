"""The models that a deployment serves: read from one JSON file, which every entry point ships.

The file is a list of objects, each one `Model`. A model's `id` is the public name that callers put into `body.model`;
its `revision` names one exact set of weights and engine flags: a worker serves one revision, and shards queue per revision.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One servable model.

    Attributes:
        id: The public name.
        revision: `<id>@<weights commit or version>`: what workers serve and shards queue for.
        source: Where the weights are: a hub repository, a folder, or the base URL of a running server (engine `openai`).
        engine: Which engine serves it.
        endpoints: The request urls it answers, e.g. `/v1/chat/completions`.
        context: The longest prompt and answer together, in tokens.
        max_output: The most tokens one answer may have; it caps a request that names no limit.
        max_in_flight: How many requests a worker keeps in the engine at once.
        engine_args: Flags for the engine's command line.
        created: Unix seconds, for the model object of the API.
        owned_by: The publisher, for the model object of the API.

    """

    id: str
    revision: str
    source: str
    engine: Literal["vllm", "echo", "openai"]
    endpoints: tuple[str, ...]
    context: int
    max_output: int
    max_in_flight: int = 64
    engine_args: tuple[str, ...] = ()
    created: int = 0
    owned_by: str = "slackwater"


class Registry(Mapping[str, Model]):
    """The models of a deployment by public name, in the file's order."""

    def __init__(self, models: tuple[Model, ...]) -> None:
        self._by_id = {model.id: model for model in models}
        self._by_revision = {model.revision: model for model in models}
        if len(self._by_id) != len(models) or len(self._by_revision) != len(models):
            raise ValueError("the models file names an id or a revision twice")

    @classmethod
    def from_json(cls, text: bytes) -> "Registry":
        """Read the models file; msgspec.ValidationError says what is wrong with it and where."""
        return cls(msgspec.json.decode(text, type=tuple[Model, ...]))

    def revision(self, revision: str) -> Model:
        """Give the model with that revision, or KeyError."""
        return self._by_revision[revision]

    def __getitem__(self, name: str) -> Model:
        return self._by_id[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)
