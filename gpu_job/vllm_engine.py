"""How vLLM's OpenAI server is started: the command line and the environment, as pure functions.

`vllm` (the CUDA image) and `vllm-cpu` (one machine, tests) are the same server with other flags. Two laws bind both:

- It serves on loopback alone.
- What requests hold never reaches its log: no access log, no logging of requests or answers, and a log level at which
  it prints neither, whatever the worker's own environment says.

What the choices for a CPU rest on (vllm-cpu 0.32.0, SmolLM2-135M in float32, two cores):

    python -m …api_server         `vllm serve` asks for the metadata of a distribution named vllm, which is not there
    cache in the state folder     a model's class is looked at in a third process once, and remembered: 58 s to be
                                  ready the first time, 38 s later (two processes import vLLM, 13 s each)
    executor uni, in one process  no third process for the weights; V1_MULTIPROCESSING=0 is what lets uni pass on a CPU
    enforce-eager, no dynamo      compiling costs more than a minute, and 11 s more at the first request for logprobs
    OMP_WAIT_POLICY=PASSIVE       threads that wait for each other sleep: 40 tokens/s where spinning ones gave 8, with
                                  other programs on the same cores
    KV cache of 1 GiB             23,296 tokens; a size that is given is not checked against the machine's memory
    keep-alive of an hour         the worker closes idle connections, never the server under its hands
"""

import json
from collections.abc import Sequence
from pathlib import Path

from shared.core.models import AdapterLimit, Model

_KEEP_ALIVE_SECONDS = 3600
_CPU_KV_CACHE_GIB = 1

NOWHERE = "media.invalid"
"""The one place that the server may fetch media from, which cannot be: the worker has fetched them."""

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The ranks that vLLM makes room for."""
AT_ONCE = 8
"""How many adapters one step of the engine may mix, where nothing has been proved: as many as a batch may name."""
IN_MEMORY = 32
"""How many are kept in the host's memory; beyond those the one that rested longest is read from its folder again."""


def command(
    python: str, model: Model, served_name: str, port: int, *, cpu: bool, adapters: Sequence[Model] = ()
) -> list[str]:
    """Give the server's command line.

    Args:
        python: The interpreter of the environment that has vLLM.
        model: What is served.
        served_name: What requests call the model.
        port: The loopback port to serve on.
        cpu: Whether it is vLLM's CPU build.
        adapters: What may be loaded beside it.

    """
    return [
        python,
        "-P",  # the folder it is started in holds packages of ours
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--host=127.0.0.1",
        f"--port={port}",
        f"--served-model-name={served_name}",
        "--disable-uvicorn-access-log",
        "--enable-prompt-tokens-details",  # so that cached tokens are told
        "--no-enable-log-requests",
        "--no-enable-log-outputs",
        "--no-log-error-stack",
        f"--allowed-media-domains={NOWHERE}",
        *engine_args(model, cpu=cpu, adapters=adapters),
    ]


def engine_args(model: Model, *, cpu: bool, adapters: Sequence[Model] = ()) -> list[str]:
    """Give the engine's part of the command line: what vLLM's own batch runner must get too, to be compared. The model's own flags come last and win."""
    machine = ["--distributed-executor-backend=uni", "--enforce-eager"] if cpu else []
    # No answer gets longer, whatever its request asks for, and one that asks for nothing still fits into the context behind its prompt.
    longest = json.dumps({"max_new_tokens": model.max_output})
    cap = [f"--override-generation-config={longest}"] if model.generates else []
    return [
        f"--model={model.source}",
        f"--max-model-len={model.context}",
        *cap,
        *machine,
        *_lora(model, adapters),
        *model.engine_args,
    ]


def _lora(model: Model, adapters: Sequence[Model]) -> list[str]:
    """Give the flags that leave room for adapters: for as many at once as the base has been proved to serve at the highest rank that is there."""
    limits = model.adapter_limits or (AdapterLimit(rank=RANKS[-1], count=AT_ONCE),)
    ranks = [adapter.rank for adapter in adapters if any(adapter.rank <= limit.rank for limit in limits)]
    if not ranks:
        return []  # what is over every limit is in no batch
    rank = max(ranks)
    at_once = min(len(ranks), max(limit.count for limit in limits if rank <= limit.rank))
    in_memory = max(at_once, min(len(ranks), IN_MEMORY))
    step = next(step for step in RANKS if rank <= step)
    return ["--enable-lora", f"--max-lora-rank={step}", f"--max-loras={at_once}", f"--max-cpu-loras={in_memory}"]


def environment(*, cpu: bool, state: Path, adapters: bool = False) -> dict[str, str]:
    """Give what the server's environment has besides the worker's own.

    Args:
        cpu: Whether it is vLLM's CPU build. It serves prepared folders alone, and asks no hub.
        state: A folder that outlives the server: what vLLM finds out about a model is kept there.
        adapters: Whether adapters may be loaded while it runs.

    """
    always = {
        "DO_NOT_TRACK": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CACHE_ROOT": str(state / "vllm"),
        "VLLM_DEBUG_LOG_API_SERVER_RESPONSE": "false",
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": str(_KEEP_ALIVE_SECONDS),
        "VLLM_LOGGING_LEVEL": "INFO",
    }
    if adapters:
        always["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    if not cpu:
        return always
    return always | {
        "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": str(_CPU_KV_CACHE_GIB),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    }
