from pathlib import Path

import msgspec
import pytest

from gpu_job.vllm_engine import command, engine_args, environment
from shared.core.models import AdapterLimit, Model

CHAT = ("/v1/chat/completions",)


def model(*extra: str, endpoints: tuple[str, ...] = CHAT) -> Model:
    """Give a model at /models/m."""
    return Model(
        id="m",
        revision="m@1",
        source="/models/m",
        engine="vllm",
        endpoints=endpoints,
        context=2048,
        max_output=512,
        engine_args=extra,
    )


def of(*extra: str, cpu: bool = True) -> list[str]:
    """Give the command line for a model at /models/m that is served as `engine` on port 8123."""
    return command("/engine/python", model(*extra), "engine", 8123, cpu=cpu)


@pytest.mark.parametrize("cpu", [True, False])
def test_the_server_listens_on_loopback_alone(cpu: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Whatever the build, nobody reaches the engine but this machine."""
    assert ["--host=127.0.0.1"] == [argument for argument in of(cpu=cpu) if argument.startswith("--host")]
    assert "--port=8123" in of(cpu=cpu)


def test_the_engine_has_a_name_of_its_own() -> None:
    """Requests name the engine's one model, wherever its weights are."""
    assert "--served-model-name=engine" in of()
    assert "--model=/models/m" in of()


@pytest.mark.parametrize("cpu", [True, False])
def test_what_requests_hold_is_not_logged(cpu: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """No requests, answers, paths or stacks are logged, even where the worker's environment asks vLLM for it."""
    quiet = {
        "--disable-uvicorn-access-log",
        "--no-enable-log-requests",
        "--no-enable-log-outputs",
        "--no-log-error-stack",
    }
    assert quiet == quiet & set(of(cpu=cpu))
    said = environment(cpu=cpu, state=Path("/state"))
    assert ("INFO", "false") == (said["VLLM_LOGGING_LEVEL"], said["VLLM_DEBUG_LOG_API_SERVER_RESPONSE"])


@pytest.mark.parametrize("cpu", [True, False])
def test_nobody_is_told_what_is_run(cpu: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """The usage statistics of vLLM are off."""
    said = environment(cpu=cpu, state=Path("/state"))
    assert ("1", "1") == (said["VLLM_NO_USAGE_STATS"], said["DO_NOT_TRACK"])


def test_packages_of_ours_are_out_of_the_engine_s_sight() -> None:
    """The folder that the engine is started in is not searched for modules: it holds ours."""
    assert ["/engine/python", "-P", "-m"] == of()[:3]


def test_a_model_s_own_flags_come_last() -> None:
    """The last of two equal flags is the one that vLLM takes, so that a model can overrule what is set for all."""
    assert ["--distributed-executor-backend", "mp"] == of("--distributed-executor-backend", "mp")[-2:]


def test_a_batch_runner_gets_the_same_engine() -> None:
    """What makes the engine, as against the server around it, can be handed to vLLM's own batch runner."""
    engine = engine_args(model("--dtype", "float32"), cpu=True)
    assert [
        "--model=/models/m",
        "--max-model-len=2048",
        '--override-generation-config={"max_new_tokens": 512}',
        "--distributed-executor-backend=uni",
        "--enforce-eager",
        "--dtype",
        "float32",
    ] == engine
    assert engine == of("--dtype", "float32")[-len(engine) :]


def test_a_model_that_writes_nothing_has_no_longest_answer() -> None:
    """Embeddings have no tokens to count."""
    found = engine_args(model("--runner", "pooling", endpoints=("/v1/embeddings",)), cpu=False)
    assert ["--model=/models/m", "--max-model-len=2048", "--runner", "pooling"] == found


LIMITS = (AdapterLimit(rank=64, count=4), AdapterLimit(rank=32, count=8))


@pytest.mark.parametrize(
    ("ranks", "limits", "rank", "at_once", "in_memory"),
    [
        ((8,), (), 8, 1, 1),
        ((8, 12), (), 16, 2, 2),
        ((8,) * 20, (), 8, 8, 20),
        ((8,) * 99, (), 8, 8, 32),
        ((32,) * 9, LIMITS, 32, 8, 9),
        ((8,) * 5 + (33,), LIMITS, 64, 4, 6),
        ((8, 65), LIMITS, 8, 1, 1),
    ],
)
def test_adapters_are_given_room(
    ranks: tuple[int, ...], limits: tuple[AdapterLimit, ...], rank: int, at_once: int, in_memory: int
) -> None:
    """For the highest rank that may be in a batch, and for as many at once as the base has been proved to serve at that rank."""
    base = msgspec.structs.replace(model("--dtype", "half"), adapter_limits=limits)
    adapters = [msgspec.structs.replace(base, id=f"ft:{n}", base="m", rank=rank) for n, rank in enumerate(ranks)]
    found = engine_args(base, cpu=False, adapters=adapters)
    wanted = ["--enable-lora", f"--max-lora-rank={rank}", f"--max-loras={at_once}", f"--max-cpu-loras={in_memory}"]
    assert [*wanted, "--dtype", "half"] == found[-6:]
    assert wanted == [
        flag for flag in command("python", base, "engine", 1, cpu=True, adapters=adapters) if "lora" in flag
    ]


def test_without_adapters_there_is_no_room_for_any() -> None:
    """Neither flags nor a way to load one; an adapter that no batch may name makes none either."""
    base = msgspec.structs.replace(model(), adapter_limits=LIMITS)
    for adapters in ([], [msgspec.structs.replace(base, id="ft:1", base="m", rank=128)]):
        assert not [flag for flag in engine_args(base, cpu=False, adapters=adapters) if "lora" in flag]
    name = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
    assert name not in environment(cpu=False, state=Path("/state"))
    assert "1" == environment(cpu=False, state=Path("/state"), adapters=True)[name]


def test_the_engine_fetches_no_media() -> None:
    """What the worker has not put into a request for it stays where it is."""
    assert "--allowed-media-domains=media.invalid" in of(cpu=False)


def test_a_gpu_s_engine_gets_nothing_that_is_for_cpus() -> None:
    """Eager mode, one process and offline weights are choices for a machine without a GPU."""
    assert not {"--distributed-executor-backend=uni", "--enforce-eager"} & set(engine_args(model(), cpu=False))
    only_for_cpus = environment(cpu=True, state=Path("/state")).keys() - environment(cpu=False, state=Path("/state"))
    assert {
        "HF_HUB_OFFLINE",
        "OMP_WAIT_POLICY",
        "TORCHDYNAMO_DISABLE",
        "VLLM_CPU_KVCACHE_SPACE",
        "VLLM_ENABLE_V1_MULTIPROCESSING",
    } == only_for_cpus


def test_what_vllm_finds_out_outlives_it() -> None:
    """Its cache is below the state folder: the next start is faster."""
    assert "/state/vllm" == environment(cpu=True, state=Path("/state"))["VLLM_CACHE_ROOT"]
