"""The models that a deployment serves: read from one JSON file, which every entry point ships.

The file is a list of objects, each one `Model`. A model's `id` is the public name that callers put into `body.model`;
its `revision` names one exact set of weights and engine flags: a worker serves one revision, and shards queue per revision.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from shared.core.records import Prices

EMBEDDINGS = "/v1/embeddings"

ADAPTER = "ft:"
"""What the public name of every adapter begins with, and of no other model."""


class AdapterLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A base has been proved to serve this many adapters of at most this rank at once."""

    rank: int
    count: int


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One servable model, or an adapter of one.

    Attributes:
        id: The public name.
        revision: `<id>@<weights commit or version>`: what workers serve and shards queue for.
        source: Where the weights are: a hub repository, a folder, or the base URL of a running server (engine `openai`). Of an adapter: a folder
            of the worker's machine, or a prefix of the bucket that begins with `models/`.
        engine: Which engine serves it.
        endpoints: The request urls it answers, e.g. `/v1/chat/completions`.
        context: The longest prompt and answer together, in tokens.
        max_output: The most tokens one answer may have, whatever its request asks for.
        max_in_flight: How many requests a worker keeps in the engine at once.
        engine_args: Flags for the engine's command line.
        created: Unix seconds, for the model object of the API.
        owned_by: The publisher, for the model object of the API.
        prices: What its tokens cost in batches.
        org: The organization whose own model it is, for nobody else to see; None: it is in the catalog.
        active: Whether it is served now.
        base: The model that it is an adapter of; it is served by the workers of that one, and at its prices.
        rank: An adapter's rank.
        adapter_bytes: The size of an adapter's files.
        adapter_limits: What a base has been proved to serve beside itself, one of which must hold; none: the contract's number alone counts.
        adapters_bytes: The most that the adapters of one batch may have together; None: no limit.

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
    prices: Prices = Prices()
    org: str | None = None
    active: bool = True
    base: str | None = None
    rank: int = 0
    adapter_bytes: int = 0
    adapter_limits: tuple[AdapterLimit, ...] = ()
    adapters_bytes: int | None = None

    @property
    def generates(self) -> bool:
        """Whether it writes answers, rather than only embeds."""
        return self.endpoints != (EMBEDDINGS,)

    @property
    def private(self) -> bool:
        """Whether it is an organization's own, and paid for by GPU time."""
        return self.org is not None


class Registry(Mapping[str, Model]):
    """The models of a deployment by public name, in the file's order."""

    def __init__(self, models: tuple[Model, ...]) -> None:
        self._by_id = {model.id: model for model in models}
        self._by_revision = {model.revision: model for model in models}
        if len(self._by_id) != len(models) or len(self._by_revision) != len(models):
            raise ValueError("the models file names an id or a revision twice")
        for model in models:
            if model.base is not None and (model.base not in self._by_id or self._by_id[model.base].base is not None):
                raise ValueError(f"the base of the adapter {model.id} is not in the models file")
            if (model.base is not None) != model.id.startswith(ADAPTER):
                raise ValueError(f"{model.id}: the ids of adapters, and of nothing else, begin with {ADAPTER}")

    @classmethod
    def from_json(cls, text: bytes) -> "Registry":
        """Read the models file; msgspec.ValidationError says what is wrong with it and where."""
        return cls(msgspec.json.decode(text, type=tuple[Model, ...]))

    def revision(self, revision: str) -> Model:
        """Give the model with that revision, or KeyError."""
        return self._by_revision[revision]

    def seen_by(self, org: str) -> dict[str, Model]:
        """Give the models that an organization may name: those of the catalog and its own, as far as they are active."""
        return {name: model for name, model in self._by_id.items() if model.active and model.org in {None, org}}

    def adapters(self, base: Model) -> dict[str, Model]:
        """Give the adapters of a model that are served, by public name."""
        return {name: model for name, model in self._by_id.items() if model.base == base.id and model.active}

    def base(self, model: Model) -> Model:
        """Give the model whose workers serve it: itself, or what it is an adapter of."""
        return model if model.base is None else self._by_id[model.base]

    def __getitem__(self, name: str) -> Model:
        return self._by_id[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)
