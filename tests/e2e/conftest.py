"""One stack for all tests that need no other: real processes, real HTTP, short leases."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from functions.api.wiring import build
from local.options import Options
from tests.e2e import adapters
from tests.e2e.stack import LocalStack, running
from tests.serving import serving

OPTIONS = (
    "--lease-seconds=8",
    "--heartbeat-seconds=1",
    "--chunk-seconds=1",
    "--row-seconds=4",
    "--max-workers=2",
    "--shard-lines=200",
)
STALL_SECONDS = 45
"""Of vLLM on a CPU that other programs use as well: no step of it takes so long."""


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack at the real speed of time."""
    with running(tmp_path_factory.mktemp("stack"), *OPTIONS) as stack:
        yield stack


@pytest.fixture(scope="session")
def narrow(stack: LocalStack) -> Iterator[int]:
    """The port of one more API of the stack, which sends contents as a Lambda does: all but the smallest by redirect."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "local")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "local")
        with serving(build(stack.api_settings(), connections=10, inline_bytes=1000)) as port:
            yield port


@pytest.fixture(scope="session")
def fast_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack whose 24 hours pass in 20 seconds."""
    with running(tmp_path_factory.mktemp("fast"), *OPTIONS, "--time-scale=4320") as stack:
        yield stack


@pytest.fixture(scope="session")
def vllm_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack with the real model, as `slackwater up` starts it, and adapters of it: one vLLM server a model, for all tests."""
    state = tmp_path_factory.mktemp("vllm")
    for kept in ("models", "vllm"):  # the weights, and what vLLM finds out about them in twenty seconds
        folder = Options().folder / kept
        folder.mkdir(parents=True, exist_ok=True)
        (state / kept).symlink_to(folder)
    with running(state, f"--models={_models_with_adapters(state)}", f"--stall-seconds={STALL_SECONDS}") as stack:
        yield stack


def _models_with_adapters(state: Path) -> Path:
    models = json.loads(Path(Options().models).read_bytes())
    base = next(model for model in models if model["id"] == "smollm2-135m")
    for seed, name in enumerate(("one", "two", "damaged")):
        folder = adapters.write(state / "adapters-of-tests" / name, seed)
        if name == "damaged":
            (folder / "adapter_model.safetensors").write_bytes(b"half of it")
        models.append(adapters.described(base, name, folder))
    path = state / "models-of-tests.json"
    path.write_text(json.dumps(models))
    return path


@pytest.fixture
def client(stack: LocalStack) -> Iterator[OpenAI]:
    """The SDK at the stack."""
    with stack.client() as client:
        yield client
