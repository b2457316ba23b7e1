"""What the tests of the API share."""

import pytest

from tests.api.world import World


@pytest.fixture
def world() -> World:
    """Give a new world."""
    return World()
