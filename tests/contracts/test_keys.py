"""What `shared.ports.Keys` promises."""

import pytest

from shared.core.errors import NotFound
from shared.core.records import ApiKey
from tests.contracts.conftest import Stores

KEY = ApiKey(org="acme", hash="5e", scopes=("batch:write", "batch:read"))


def test_a_key_is_found_by_the_hash_of_its_secret(stores: Stores) -> None:
    """What was kept comes back, scopes in their order."""
    stores.keys.put(KEY)
    assert KEY == stores.keys.find("5e")


def test_an_unknown_key_is_not_found(stores: Stores) -> None:
    """There is no key without a put."""
    with pytest.raises(NotFound):
        stores.keys.find("5e")


def test_the_same_key_again_changes_nothing(stores: Stores) -> None:
    """A put may be repeated."""
    stores.keys.put(KEY)
    stores.keys.put(KEY)
    assert KEY == stores.keys.find("5e")


def test_a_key_without_scopes_comes_back_without_scopes(stores: Stores) -> None:
    """Nothing is a value too."""
    stores.keys.put(ApiKey(org="acme", hash="6f"))
    assert ApiKey(org="acme", hash="6f") == stores.keys.find("6f")
