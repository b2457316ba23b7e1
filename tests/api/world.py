"""The API over stores in memory, with a clock that a test turns by hand."""

from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient
from openai import OpenAI

from functions.api.app import Services, build_app
from shared.adapters.ids import Sequence
from shared.adapters.memory import Memory
from shared.core.contracts import CONTRACTS
from shared.core.ids import Space
from shared.core.models import Registry
from shared.core.records import ApiKey
from shared.core.window import Timing
from shared.services.accounts import Accounts
from shared.services.batches import Batches
from shared.services.files import Files
from shared.services.progress import Progress

START = 1_800_000_000.0
KEY = "sk-acme"
OTHER_KEY = "sk-other"
READ_KEY = "sk-acme-read"
POWERLESS_KEY = "sk-acme-none"
ACME = Space("acme", "openai")

MODELS = (Path(__file__).parents[2] / "local" / "models.json").read_bytes()

LINE = (
    b'{"custom_id": "%s", "method": "POST", "url": "/v1/chat/completions",'
    b' "body": {"model": "echo", "messages": [{"role": "user", "content": "hi"}]}}\n'
)


def lines(count: int) -> bytes:
    """Give an input file of so many good lines."""
    return b"".join(LINE % str(number).encode() for number in range(count))


class World:
    """Everything behind one application, and clients of it."""

    def __init__(self, timing: Timing = Timing()) -> None:  # noqa: B008 - a frozen value
        self.time = START
        self._ids = Sequence()
        self.memory = Memory()
        for secret, org, scopes in (
            (KEY, "acme", ("batch:write",)),
            (OTHER_KEY, "other", ("batch:write",)),
            (READ_KEY, "acme", ("batch:read",)),
            (POWERLESS_KEY, "acme", ()),
        ):
            self.memory.keys.put(ApiKey(org=org, hash=sha256(secret.encode()).hexdigest(), scopes=scopes))
        self.registry = Registry.from_json(MODELS)
        self.files = Files(
            store=self.memory.files,
            blobs=self.memory.blobs,
            multipart=self.memory.blobs,
            timing=timing,
            clock=self.clock,
            new_id=self.new_id,
        )
        self.progress = Progress(shards=self.memory.shards, blobs=self.memory.blobs, clock=self.clock)
        self.batches = Batches(
            store=self.memory.batches,
            files=self.files,
            progress=self.progress,
            workflow=self.memory.workflow,
            timing=timing,
            clock=self.clock,
            new_id=self.new_id,
        )
        self.accounts = Accounts(self.memory.keys, clock=self.clock)
        self.app = self.build()

    def build(self) -> FastAPI:
        """Build the application anew, over the services as they are now."""
        services = Services(self.accounts, self.files, self.batches, self.registry)
        return build_app(services, {"/v1": CONTRACTS["openai"]}, clock=self.clock, new_id=self.new_id)

    def clock(self) -> float:
        """Give the time that the test has set."""
        return self.time

    def new_id(self, prefix: str) -> str:
        """Give the next id."""
        return self._ids.next(prefix, int(self.time * 1000))

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
