"""The settings: whoever writes an environment and whoever reads it mean the same."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from shared.core.contracts import CONTRACTS, mounted
from shared.settings import PREFIX, ApiSettings, Settings, TaskSettings, WorkerSettings

CLASSES: list[type[Settings]] = [Settings, ApiSettings, TaskSettings, WorkerSettings]
SAMPLES: dict[Any, list[Any]] = {
    str: ["plain", "", "with = and, and \n", "ünïcode"],
    str | None: [None, "there"],
    int: [0, 8, 10**12],
    int | None: [None, 5 * 10**9],
    float: [0.25, 60.0, 1e16, 1e-7],
    bool: [True, False],
}


def samples(cls: type[Settings]) -> Iterator[Settings]:
    """Give settings in which each field has each of the sample values of its type."""
    types = {field.name: field.type for field in msgspec.structs.fields(cls)}
    for index in range(max(map(len, SAMPLES.values()))):
        yield cls(**{name: SAMPLES[kind][index % len(SAMPLES[kind])] for name, kind in types.items()})


def required(cls: type[Settings]) -> dict[str, str]:
    """Give an environment that has what the class cannot do without."""
    needed = [field.encode_name for field in msgspec.structs.fields(cls) if field.required]
    return dict.fromkeys(needed, "x")


@pytest.mark.parametrize("cls", CLASSES)
def test_settings_survive_the_way_through_an_environment(cls: type[Settings]) -> None:
    """Every field of every type comes back as it was, None and floats too."""
    for settings in samples(cls):
        assert settings == cls.from_env(settings.to_env())


@pytest.mark.parametrize("cls", CLASSES)
def test_every_variable_has_our_prefix_and_the_name_of_its_field(cls: type[Settings]) -> None:
    """A reader of the environment knows what is ours and what it is."""
    fields = {field.name for field in msgspec.structs.fields(cls)}

    written = set().union(*(settings.to_env() for settings in samples(cls)))

    assert {PREFIX + name.upper() for name in fields} == written


@pytest.mark.parametrize("cls", CLASSES)
def test_a_missing_variable_is_named_as_it_must_be_set(cls: type[Settings]) -> None:
    """Whoever reads the error can copy the name."""
    for variable in required(cls):
        env = {name: value for name, value in required(cls).items() if name != variable}

        with pytest.raises(msgspec.ValidationError, match=f"`{variable}`"):
            cls.from_env(env)


def test_a_malformed_variable_is_named_without_its_value() -> None:
    """The error says which variable it is and what it should hold."""
    env = required(TaskSettings) | {"SLACKWATER_MAX_WORKERS": "secret"}

    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`.*SLACKWATER_MAX_WORKERS") as caught:
        TaskSettings.from_env(env)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("cls", CLASSES)
def test_what_is_not_ours_in_the_environment_is_not_read(cls: type[Settings]) -> None:
    """A Lambda's environment is full of other things."""
    env = required(cls)

    assert cls.from_env(env) == cls.from_env(env | {"PATH": "/bin", "BUCKET": "other", "SLACKWATER_ELSE": "?"})


@pytest.mark.parametrize(("text", "value"), [("True", True), ("false", False), ("1", True), ("0", False)])
def test_switches_are_read_as_people_write_them(text: str, *, value: bool) -> None:
    """True and 1 are on, false and 0 are off."""
    assert value is WorkerSettings.from_env(required(WorkerSettings) | {"SLACKWATER_ENGINE_CPU": text}).engine_cpu


def test_the_mounts_tell_the_contract_at_each_prefix() -> None:
    """Names and prefixes stand in one variable, separated by commas; the order stays."""
    told = mounted("openai=/v1, gridline=/g/openai/v1")

    assert [("/v1", "openai"), ("/g/openai/v1", "gridline")] == [
        (prefix, contract.name) for prefix, contract in told.items()
    ]
    assert {"/v1": CONTRACTS["openai"]} == mounted(ApiSettings.from_env(required(ApiSettings)).mounts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "there is no contract ''"),
        ("openai=/v1,opneai=/v2", "there is no contract 'opneai' to mount; there are boardwalk"),
        ("openai", "openai cannot be mounted at ''"),
        ("openai=v1", "cannot be mounted at 'v1': a prefix looks like /v1 or /openai/v1"),
        ("openai=/v1/", "cannot be mounted at '/v1/'"),
        ("openai=/", "cannot be mounted at '/'"),
        ("openai=/v1,gridline=/v1", "'gridline=/v1' is mounted beside"),
        ("openai=/v1,openai=/v2", "'openai=/v2' is mounted beside"),
    ],
)
def test_mounts_that_cannot_be_are_told(text: str, said: str) -> None:
    """By what is wrong with which."""
    with pytest.raises(ValueError, match=re.escape(said)):
        mounted(text)


def test_windows_are_for_the_contracts_that_leave_them_to_the_deployment() -> None:
    """In the order in which they were listed; those of other contracts stay."""
    told = mounted("openai=/v1,gridline=/g/openai/v1", "72h, 6h")

    assert [("72h", 72 * 3600), ("6h", 6 * 3600)] == list(told["/v1"].windows.items())
    assert CONTRACTS["gridline"] == told["/g/openai/v1"]


@pytest.mark.parametrize("window", ["", "24", "0h", "06h", "1d", "145h", "24h,", "-1h", "24H"])
def test_windows_that_cannot_be_are_told(window: str) -> None:
    """Hours, up to six days."""
    with pytest.raises(ValueError, match="is no completion window: one looks like 24h, and has 144h at most"):
        mounted("openai=/v1", window)
