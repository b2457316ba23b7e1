"""The models file."""

import json

import msgspec
import pytest

from shared.core.models import Registry

ECHO = {
    "id": "echo",
    "revision": "echo@1",
    "source": "echo",
    "engine": "echo",
    "endpoints": ["/v1/chat/completions"],
    "context": 4096,
    "max_output": 1024,
}
OTHER = ECHO | {"id": "other", "revision": "other@1"}
TUNED = ECHO | {"id": "ft:echo:mine", "revision": "ft:echo:mine@1", "base": "echo", "org": "acme"}


def registry(*models: dict[str, object]) -> Registry:
    """Read a models file of these models."""
    return Registry.from_json(json.dumps(models).encode())


def test_models_are_found_by_name_and_by_revision_in_the_order_of_the_file() -> None:
    """The registry is a mapping of public names, and knows what a worker serves."""
    models = registry(OTHER, ECHO)

    assert ["other", "echo"] == list(models)
    assert 2 == len(models)
    assert models["echo"] is models.revision("echo@1")


def test_a_model_that_is_not_there_is_a_key_error() -> None:
    """Neither a name nor a revision is made up."""
    with pytest.raises(KeyError):
        registry(ECHO)["echo@1"]
    with pytest.raises(KeyError):
        registry(ECHO).revision("echo")


@pytest.mark.parametrize("twice", [ECHO, ECHO | {"id": "again"}, ECHO | {"revision": "echo@2"}])
def test_no_name_and_no_revision_stands_twice(twice: dict[str, object]) -> None:
    """A file that names one twice is refused whole."""
    with pytest.raises(ValueError, match="twice"):
        registry(ECHO, twice)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"engine": "magic"}, r"Invalid enum value 'magic' - at `\$\[0\].engine`"),
        ({"context": "long"}, r"Expected `int`, got `str` - at `\$\[0\].context`"),
        ({"colour": "blue"}, "unknown field `colour`"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(broken: dict[str, object], said: str) -> None:
    """Wrong values, wrong types and unknown fields are told apart."""
    with pytest.raises(msgspec.ValidationError, match=said):
        registry(ECHO | broken)


def test_a_missing_field_is_named() -> None:
    """A model without a source is none."""
    without = {name: value for name, value in ECHO.items() if name != "source"}

    with pytest.raises(msgspec.ValidationError, match="missing required field `source`"):
        registry(without)


def test_an_adapter_is_served_by_its_base() -> None:
    """The base of an adapter is in the file, and of a plain model it is itself."""
    models = registry(ECHO, TUNED)

    assert models["echo"] is models.base(models["ft:echo:mine"])
    assert models["echo"] is models.base(models["echo"])


@pytest.mark.parametrize(
    "models", [(TUNED,), (ECHO, TUNED, TUNED | {"id": "ft:b", "revision": "b", "base": "ft:echo:mine"})]
)
def test_an_adapter_needs_a_base_that_is_none_itself(models: tuple[dict[str, object], ...]) -> None:
    """There are no adapters of nothing, and no adapters of adapters."""
    with pytest.raises(ValueError, match="base of the adapter"):
        registry(*models)


@pytest.mark.parametrize("model", [TUNED | {"id": "mine"}, OTHER | {"id": "ft:other"}])
def test_adapters_and_nothing_else_are_called_ft(model: dict[str, object]) -> None:
    """A caller sees by the name what is an adapter."""
    with pytest.raises(ValueError, match="begin with ft:"):
        registry(ECHO, model)


def test_an_organization_sees_the_catalog_and_its_own() -> None:
    """What belongs to another, or is no longer active, is not there for it."""
    models = registry(ECHO, TUNED, OTHER | {"active": False})

    assert ["echo", "ft:echo:mine"] == list(models.seen_by("acme"))
    assert ["echo"] == list(models.seen_by("globex"))


def test_a_base_knows_the_adapters_that_are_served_beside_it() -> None:
    """Those of all organizations, since a worker serves them all; not those that are no longer active, nor another base's."""
    idle, foreign = TUNED | {"id": "ft:idle", "revision": "i", "active": False}, TUNED | {"id": "ft:f", "revision": "f"}
    models = registry(ECHO, TUNED, OTHER, idle, foreign | {"base": OTHER["id"]})

    assert ["ft:echo:mine"] == list(models.adapters(models["echo"]))
    assert [] == list(models.adapters(models["ft:echo:mine"]))
