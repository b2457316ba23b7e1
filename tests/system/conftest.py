"""Every test of the system runs in time that passes by itself."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.system.tide import Tide
from tests.system.world import World


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], Tide]]:
    """Run the tests of this folder on the tide."""
    return {"tide": Tide}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """The whole service, with nothing in it."""
    async with World() as world:
        yield world
