"""vLLM's own OpenAI server as an engine: its command line and its environment.

It listens on loopback only and logs no request. On a CPU, start-up is imports rather than the engine, so nothing is compiled. A KV block of 32 tokens is the smallest
that works there, and the one that lets short shared prefixes be reused; that flag, like the others that depend on the model, stands with the model.
"""

from collections.abc import Sequence
from pathlib import Path

KEEP_ALIVE_SECONDS = 600


def command(
    python: str, model_path: str, served_name: str, port: int, *, cpu: bool, extra_args: Sequence[str]
) -> list[str]:
    """Give the command line of the server. `python` is that of vLLM's environment; `extra_args` are the model's own flags."""
    argv = [
        *(python, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", model_path),
        *("--served-model-name", served_name),
        *("--host", "127.0.0.1"),
        *("--port", str(port)),
        "--disable-uvicorn-access-log",
    ]
    if cpu:
        argv += ["--distributed-executor-backend", "uni", "--enforce-eager"]
    return [*argv, *extra_args]


def environment(*, cpu: bool, state: Path) -> dict[str, str]:
    """Give what the server's environment needs besides the worker's own. `state` keeps what vLLM caches."""
    shared = {
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(KEEP_ALIVE_SECONDS),
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CACHE_ROOT": str(state / "vllm"),
    }
    if not cpu:
        return shared
    return shared | {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
        "HF_HUB_OFFLINE": "1",
        "TORCHDYNAMO_DISABLE": "1",
    }
