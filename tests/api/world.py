"""The API over stores in memory, and clients of it."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from openai import OpenAI

from functions.api.app import Services, build_app
from shared.core.models import Registry
from shared.core.window import Timing
from tests.services import world
from tests.services.world import ACME, OPENAI, REAL_TIME, START, lines

__all__ = ["ACME", "KEY", "OTHER_KEY", "POWERLESS_KEY", "READ_KEY", "START", "World", "lines"]

KEY = "sk-acme"
OTHER_KEY = "sk-other"
READ_KEY = "sk-acme-read"
POWERLESS_KEY = "sk-acme-none"

MODELS = (Path(__file__).parents[2] / "local" / "models.json").read_bytes()


class World(world.World):
    """Everything behind one application, and clients of it."""

    def __init__(self, *, timing: Timing = REAL_TIME) -> None:
        super().__init__(timing=timing)
        self.add_key(KEY, "acme", "batch:write")
        self.add_key(OTHER_KEY, "other", "batch:write")
        self.add_key(READ_KEY, "acme", "batch:read")
        self.add_key(POWERLESS_KEY, "acme")
        self.registry = Registry.from_json(MODELS)
        self.app = self.build()

    def build(self) -> FastAPI:
        """Build the application over the services."""
        services = Services(self.accounts, self.files, self.batches, self.registry)
        return build_app(services, {"/v1": OPENAI}, clock=self.clock, new_id=self.new_id)

    def http(self, secret: str | None = KEY) -> TestClient:
        """Give a plain HTTP client that sends this key."""
        headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
        return TestClient(self.app, base_url="http://testserver/v1", headers=headers)

    def openai(self, secret: str = KEY) -> OpenAI:
        """Give the official SDK with this key."""
        return OpenAI(http_client=TestClient(self.app), base_url="http://testserver/v1", api_key=secret, max_retries=0)

    def upload(self, content: bytes | None = None, secret: str = KEY) -> str:
        """Upload a file of two lines, or this one, and give its id."""
        file = self.openai(secret).files.create(file=("requests.jsonl", content or lines(2)), purpose="batch")
        return file.id

    def create(self, file_id: str | None = None, secret: str = KEY, **fields: Any) -> str:  # noqa: ANN401 - also wrong ones
        """Create a batch of this file, or a new one, and give its id."""
        batch = self.openai(secret).batches.create(
            **{
                "input_file_id": file_id or self.upload(secret=secret),
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
            }
            | fields
        )
        return batch.id
