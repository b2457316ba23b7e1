"""The API over stores in memory, and clients of it."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from openai import OpenAI

from functions.api.app import Services, build_app
from shared.core.contracts import CONTRACTS
from shared.core.models import Registry
from shared.core.window import Timing
from shared.ports import BatchStore, FileStore
from shared.services.uploads import PROMPT_BYTES
from tests.api.told import Told
from tests.services import world
from tests.services.world import ACME, REAL_TIME, START, lines

__all__ = ["ACME", "KEY", "OTHER_KEY", "POWERLESS_KEY", "READ_KEY", "START", "World", "lines"]

KEY = "sk-acme"
OTHER_KEY = "sk-other"
READ_KEY = "sk-acme-read"
POWERLESS_KEY = "sk-acme-none"


PREFIXES = {
    "openai": "/v1",
    "boardwalk": "/boardwalk/v1",
    "gridline": "/gridline/openai/v1",
    "token360": "/token360/v1",
}


def base_url(contract: str) -> str:
    """Give the base URL of a contract's mount."""
    return f"http://testserver{PREFIXES[contract]}"


class World(world.World):
    """Everything behind one application, and clients of it."""

    def __init__(
        self,
        *,
        timing: Timing = REAL_TIME,
        prompt_bytes: int = PROMPT_BYTES,
        registry: Registry | None = None,
        account_batches: int = 100,
        contracts: Sequence[str] = ("openai",),
        file_store: FileStore | None = None,
        batch_store: BatchStore | None = None,
    ) -> None:
        super().__init__(
            timing=timing,
            prompt_bytes=prompt_bytes,
            registry=registry,
            account_batches=account_batches,
            file_store=file_store,
            batch_store=batch_store,
        )
        self.add_key(KEY, "acme", "batch:write", "inference:write", "routing:write", "read")
        self.add_key(OTHER_KEY, "other", "batch:write")
        self.add_key(READ_KEY, "acme", "batch:read")
        self.add_key(POWERLESS_KEY, "acme")
        self._mounts = {PREFIXES[name]: CONTRACTS[name] for name in contracts}
        self.app = self.build()

    def build(self, inline_bytes: int | None = None) -> FastAPI:
        """Build the application over the services."""
        self._redirects = inline_bytes is not None
        return build_app(self.services(), self._mounts, clock=self.clock, new_id=self.new_id, inline_bytes=inline_bytes)

    def told(self) -> Told:
        """Give the application, each answer of which is held against its document."""
        return Told(self.app, self._mounts, redirects=self._redirects)

    def services(self) -> Services:
        """Give what the application stands on."""
        return Services(
            accounts=self.accounts,
            files=self.files,
            uploads=self.uploads,
            completions=self.completions,
            s3_files=self.s3_files,
            batches=self.batches,
            dry_run=self.dry_run,
            results=self.results,
            registry=self.registry,
        )

    def http(self, secret: str | None = KEY, contract: str = "openai") -> TestClient:
        """Give a plain HTTP client of a contract's mount that sends this key."""
        headers = {} if secret is None else {"authorization": f"Bearer {secret}"}
        return TestClient(self.told(), base_url=base_url(contract), headers=headers)

    def openai(self, secret: str = KEY, contract: str = "openai") -> OpenAI:
        """Give the official SDK with this key, at a contract's mount."""
        return OpenAI(http_client=TestClient(self.told()), base_url=base_url(contract), api_key=secret, max_retries=0)

    def upload(self, content: bytes | None = None, secret: str = KEY) -> str:
        """Upload a file of two lines, or this one, and give its id."""
        file = self.openai(secret).files.create(file=("requests.jsonl", content or lines(2)), purpose="batch")
        return file.id

    def create(self, file_id: str | None = None, secret: str = KEY, **fields: Any) -> str:
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
