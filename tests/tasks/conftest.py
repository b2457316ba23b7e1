"""Each event meets a service of its own."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws
from moto.moto_api._internal.models import moto_api_backend

from functions.tasks import wiring
from tests.tasks.deployment import SETTINGS, Aws, Deployment, connected


@pytest.fixture(scope="session")
def aws() -> Iterator[Aws]:
    """Moto for the whole session, and the environment of a Lambda."""
    config: Any = {
        "batch": {"use_docker": False},
        "lambda": {"use_docker": False},
        "stepfunctions": {"execute_state_machine": False},
    }
    with mock_aws(config=config), pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in SETTINGS.to_env().items():
            monkeypatch.setenv(name, value)
        wiring._services.cache_clear()
        yield connected()
    wiring._services.cache_clear()


@pytest.fixture
def deployed(aws: Aws) -> Deployment:
    """Give the service, as new."""
    moto_api_backend.reset()
    return Deployment(aws)
