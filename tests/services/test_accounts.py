"""Who calls, and what the key allows."""

from hashlib import sha256

import pytest

from shared.adapters.memory import Memory
from shared.core.errors import Refused, Unavailable
from tests.fakes import Hostile, fail
from tests.services.world import ACME, OPENAI, World


def test_a_key_names_its_organization() -> None:
    """The secret is found by its SHA-256; the space is that of the mount."""
    world = World()
    world.add_key("sk-1", "acme", "batch:read")

    caller = world.accounts.authenticate("sk-1")

    assert ("acme", frozenset({"batch:read"})) == (caller.org, caller.scopes)
    assert ACME == caller.space(OPENAI)


def test_a_known_key_is_looked_up_once_a_minute() -> None:
    """A revoked one may be taken that much longer."""
    memory = Memory()
    keys = Hostile(memory.keys, {})
    world = World(memory, keys=keys.port)
    world.add_key("sk-1", "acme")

    for seconds in (0, 59, 1, 59):
        world.time += seconds
        world.accounts.authenticate("sk-1")

    assert ["find", "find"] == keys.calls


def test_an_unknown_key_is_known_as_soon_as_it_is_there() -> None:
    """That there was none is not remembered."""
    world = World()

    with pytest.raises(Refused, match="not known here"):
        world.accounts.authenticate("sk-1")
    world.add_key("sk-1", "acme")

    assert "acme" == world.accounts.authenticate("sk-1").org


def test_a_store_that_does_not_answer_is_not_an_unknown_key() -> None:
    """401 would send the caller looking for another key."""
    memory = Memory()
    world = World(memory, keys=Hostile(memory.keys, {"find": [fail]}).port)

    with pytest.raises(Unavailable):
        world.accounts.authenticate("sk-1")


def test_the_hash_of_a_secret_is_no_secret() -> None:
    """What the store holds does not open the door."""
    world = World()
    world.add_key("sk-1", "acme")

    with pytest.raises(Refused):
        world.accounts.authenticate(sha256(b"sk-1").hexdigest())


@pytest.mark.parametrize(
    ("scopes", "reads", "writes"),
    [
        ((), False, False),
        (("batch:read",), True, False),
        (("batch:write",), True, True),
        (("batch:read", "batch:write"), True, True),
        (("inference:write",), False, False),
    ],
)
def test_scopes_allow_what_the_contract_says(scopes: tuple[str, ...], reads: bool, writes: bool) -> None:  # noqa: FBT001
    """Writing includes reading."""
    world = World()
    world.add_key("sk-1", "acme", *scopes)
    caller = world.accounts.authenticate("sk-1")

    for allowed, must in ((reads, caller.must_read), (writes, caller.must_write)):
        if allowed:
            must(OPENAI)
        else:
            with pytest.raises(Refused, match="needs the scope"):
                must(OPENAI)
