"""The worker against `vllm run_batch`: the same file, model and engine flags, from the first request sent to the last row durable.

    python -m bench.worker [--runs 3] [--only mixed,prefixes,tiny,embeddings] [--file-order]

Both engines are started once for each case and kept; what is measured runs in turn, and each run begins with an empty prefix cache. Ours is the real worker
over stores in memory, except that every chunk is also written to the disk, and synced, before it counts; its lines come from a plan that the services
made. `run_batch` reads its file and writes one file at the end. With `--file-order` the plan leaves the lines as they stand, to see what its order is worth.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from gpu_job import vllm_engine
from gpu_job.chunks import Committer
from gpu_job.engine import EngineProcess, RemoteEngine
from gpu_job.leasing import Leasing
from gpu_job.row import SERVED_NAME
from gpu_job.upstream import Upstream
from gpu_job.worker import Worker
from local.models import ENGINE_PYTHON
from local.options import ROOT, Options
from shared.adapters.memory import Memory, MemoryBlobs
from shared.core.contracts import CONTRACTS
from shared.core.ids import Space
from shared.core.models import Model, Registry
from shared.core.plan import ShardSize
from shared.core.window import Timing
from shared.services import pipeline as pipeline_service
from shared.services.fleet import FleetService
from shared.services.pipeline import Pipeline
from shared.services.roster import Roster
from shared.services.validation import Validation
from shared.services.wake import Wake
from shared.settings import WorkerSettings
from tests.dispatching import dispatcher
from tests.services.world import World

URL = "/v1/chat/completions"
GOALS = {"mixed": 1.0, "prefixes": 0.75, "tiny": 1.0, "embeddings": 1.0}
WORDS = (
    "the",
    "tide",
    "turns",
    "slowly",
    "while",
    "ships",
    "wait",
    "for",
    "water",
    "over",
    "bars",
    "and",
    "pilots",
    "read",
    "tables",
)


@dataclass(frozen=True)
class Case:
    """What is run: bodies, flags for both engines, and of what model."""

    bodies: list[dict[str, Any]]
    flags: tuple[str, ...]
    url: str = URL
    source: str = "smollm2-135m"
    context: int = 2048


def _text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def _chat(*texts: str, max_tokens: int) -> dict[str, Any]:
    roles = ("system", "user") if len(texts) > 1 else ("user",)
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
    # Every answer has its full length, so that both sides do the same work.
    return {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}


def cases() -> dict[str, Case]:
    """Make the cases, the same ones each time."""
    rng = random.Random(11)  # noqa: S311 - a benchmark's text, nothing secret
    common = ("--dtype", "float32", "--block-size", "32")
    mixed = [
        _chat(_text(rng, rng.choice((10, 30, 100, 300))), max_tokens=rng.choice((4, 16, 64, 128))) for _ in range(192)
    ]
    prefixes = [_text(rng, 1024) for _ in range(8)]
    shared = [_chat(prefixes[index % 8], _text(rng, 8), max_tokens=8) for index in range(96)]
    tiny = [_chat(_text(rng, 2), max_tokens=1) for _ in range(2000)]
    texts = [{"input": _text(rng, rng.choice((5, 20, 60, 150)))} for _ in range(1000)]
    return {
        # As of any batch of some size, the engine holds a part of it at a time.
        "mixed": Case(mixed, (*common, "--max-num-seqs", "32")),
        # 96 blocks of 32 tokens: two of the prefixes and the rows at work; file order needs all eight.
        "prefixes": Case(shared, (*common, "--num-gpu-blocks-override", "96")),
        "tiny": Case(tiny, common),
        "embeddings": Case(
            texts, ("--runner", "pooling", "--dtype", "float32"), "/v1/embeddings", "all-minilm-l6-v2", 256
        ),
    }


class SyncedBlobs(MemoryBlobs):
    """A bucket whose chunks are on the disk before they count."""

    def __init__(self, folder: Path) -> None:
        super().__init__(RLock())
        self._folder = folder

    def put(self, key: str, data: bytes, *, only_if_absent: bool = False) -> str:
        """As `Blobs.put`."""
        with (self._folder / key.replace("/", "_")).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return super().put(key, data, only_if_absent=only_if_absent)


class RealTime(World):
    """Services in the time that leases are kept in."""

    def clock(self) -> float:
        """Tell the time."""
        return time.time()


class Watch(Upstream):
    """The way into the engine, which knows when the first request was sent."""

    first: float | None = None

    async def post(self, url_path: str, body: bytes, *, timeout: float) -> Any:  # noqa: ANN401, ASYNC109 - as the one above
        """As `Upstream.post`."""
        if self.first is None:
            self.first = time.perf_counter()
        return await super().post(url_path, body, timeout=timeout)


@contextlib.contextmanager
def baseline(model: Model) -> Iterator[subprocess.Popen[str]]:
    """Start the batch runner and give it when it is ready."""
    env = {**os.environ, **vllm_engine.environment(cpu=True, state=Options().folder)}
    args = [f"--served-model-name={SERVED_NAME}", *vllm_engine.engine_args(model, cpu=True)]
    command = [str(ENGINE_PYTHON), "-I", str(ROOT / "bench" / "run_batch_runner.py"), *args]
    with (
        (Options().folder / "bench.run_batch.log").open("w") as log,
        subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        ) as runner,
    ):
        try:
            _told(runner, "ready")
            yield runner
        finally:
            os.killpg(runner.pid, signal.SIGKILL)  # its engine core is a process of its own


def _told(runner: subprocess.Popen[str], name: str) -> Any:  # noqa: ANN401 - JSON
    assert runner.stdout is not None
    for line in runner.stdout:  # vLLM prints there as well
        with contextlib.suppress(json.JSONDecodeError):
            told = json.loads(line)
            if isinstance(told, dict) and name in told:
                return told[name]
    raise SystemExit(f"the batch runner ended; see {Options().folder / 'bench.run_batch.log'}")


def run_batch(runner: subprocess.Popen[str], case: Case, folder: Path) -> float:
    """Give the seconds of one run of the baseline."""
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    source.write_bytes(_lines(case, SERVED_NAME))
    assert runner.stdin is not None
    runner.stdin.write(f"{source}\t{target}\n")
    runner.stdin.flush()
    seconds = float(_told(runner, "seconds"))
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    bad = [row for row in rows if row["response"]["status_code"] != 200]  # noqa: PLR2004
    assert not bad, bad[0]
    assert len(case.bodies) == len(rows)
    return seconds


def _lines(case: Case, model: str) -> bytes:
    lines = (
        {"custom_id": f"r{index}", "method": "POST", "url": case.url, "body": {"model": model, **body}}
        for index, body in enumerate(case.bodies)
    )
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


@contextlib.asynccontextmanager
async def served(model: Model) -> AsyncIterator[str]:
    """Start the engine as a worker does, and give its base URL."""
    engine = EngineProcess(
        lambda port: vllm_engine.command(str(ENGINE_PYTHON), model, SERVED_NAME, port, cpu=True),
        env={**os.environ, **vllm_engine.environment(cpu=True, state=Options().folder)},
        log_path=Options().folder / "bench.engine.log",
        start_timeout=600,
    )
    try:
        await engine.start()
        yield engine.base_url
    finally:
        await engine.stop()


async def work(base_url: str, model: Model, case: Case, folder: Path, run: int) -> float:
    """Give the seconds of one run of the worker. Each is another organization's, whose prefixes no other run has left in the cache."""
    memory = Memory()
    memory.blobs = SyncedBlobs(folder)
    world = RealTime(memory, registry=Registry((model,)))
    space = Space(f"org-{run}", "openai")
    intake = world.files.begin(space, CONTRACTS["openai"])
    intake.write(_lines(case, model.id))
    request: dict[str, object] = {
        "input_file_id": intake.finish(purpose="batch").id,
        "endpoint": case.url,
        "completion_window": "24h",
    }
    batch = world.batches.create(space, CONTRACTS["openai"], request, key=None)
    roster = Roster(workers=memory.workers, clock=time.time)
    fleet = FleetService(
        queue=memory.shards,
        shards=memory.shards,
        roster=roster,
        fleet=memory.fleet,
        max_workers=1,
        clock=time.time,
        new_id=world.new_id,
    )
    Validation(
        batches=memory.batches,
        blobs=memory.blobs,
        multipart=memory.blobs,
        scans=world.scans,
        contracts=CONTRACTS,
        registry=world.registry,
        clock=time.time,
    ).validate(batch.ref, until=time.time() + 60)
    pipeline = Pipeline(
        batches=memory.batches,
        shards=memory.shards,
        blobs=memory.blobs,
        workflow=memory.workflow,
        fleet=fleet,
        registry=world.registry,
        clock=time.time,
        timing=Timing(),
        shard_size=ShardSize(),
    )
    pipeline.admit(batch.ref)
    pipeline.plan(batch.ref)
    engine = RemoteEngine(base_url)
    async with Watch(engine, max_in_flight=model.max_in_flight) as upstream:
        settings = _settings(model)
        worker = Worker(
            settings,
            model,
            dispatcher=dispatcher(engine, upstream, row_seconds=600, max_in_flight=model.max_in_flight),
            committer=Committer(blobs=memory.blobs, log=memory.chunks, new_id=world.new_id),
            leasing=Leasing(
                settings,
                queue=memory.shards,
                shards=memory.shards,
                batches=memory.batches,
                clock=time.time,
                timer=time.monotonic,
            ),
            queue=memory.shards,
            log=memory.chunks,
            blobs=memory.blobs,
            roster=roster,
            wake=Wake(batches=memory.batches, shards=memory.shards, workflow=memory.workflow),
            clock=time.time,
        )
        working = asyncio.create_task(worker.run())
        while any(shard.answered < shard.lines for shard in memory.shards.of(batch.ref)):
            await asyncio.sleep(0.01)
            if working.done():
                working.result()
                raise RuntimeError("the worker left before its work was done")
        end = time.perf_counter()
        assert upstream.first is not None
        assert len(case.bodies) == sum(shard.completed for shard in memory.shards.of(batch.ref))
        await worker.stop()
        await working
        return end - upstream.first


def _settings(model: Model) -> WorkerSettings:
    return WorkerSettings(
        bucket="bench",
        table_prefix="bench",
        models_file="",
        region="",
        state_machine_arn="",
        revision=model.revision,
        worker="bench",
        job="bench",
        state_dir=str(Options().folder),
    )


def measured(model: Model, case: Case, runs: int) -> tuple[list[float], list[float]]:
    """Give the seconds of each run of the baseline, and of the worker."""
    theirs, ours = [], []

    async def go() -> None:
        with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as name, baseline(model) as runner:
            async with served(model) as base_url:
                for run in range(runs):
                    theirs.append(await asyncio.to_thread(run_batch, runner, case, Path(name)))
                    ours.append(await work(base_url, model, case, Path(name), run))

    asyncio.run(go())
    return theirs, ours


def _weights(case: Case) -> Path:
    return Options().folder / "models" / case.source


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench.worker", description="The worker against vllm run_batch.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="mixed,prefixes,tiny,embeddings")
    parser.add_argument("--file-order", action="store_true", help="the plan leaves the lines as they stand")
    args = parser.parse_args()
    if args.file_order:
        pipeline_service.grouped = iter
    if not ENGINE_PYTHON.exists():
        sys.exit("this benchmark needs the engine and its model: run `make setup`")
    chosen = {name: case for name, case in cases().items() if name in args.only.split(",")}
    if missing := {case.source for case in chosen.values() if not _weights(case).exists()}:
        sys.exit(f"this benchmark needs {', '.join(sorted(missing))}: run `make setup`")
    table = Table(title=f"First request sent to last row durable, medians of {args.runs}")
    for name in ("case", "vllm run_batch", "worker", "ratio", "goal"):
        table.add_column(name, justify="left" if name == "case" else "right")
    for name, case in chosen.items():
        model = Model(
            id="bench",
            revision="bench@1",
            source=str(_weights(case)),
            engine="vllm",
            endpoints=(case.url,),
            context=case.context,
            max_output=1024,
            max_in_flight=256,
            engine_args=case.flags,
        )
        theirs, ours = (statistics.median(seconds) for seconds in measured(model, case, args.runs))
        table.add_row(name, f"{theirs:.1f} s", f"{ours:.1f} s", f"{ours / theirs:.2f}", f"≤ {GOALS[name]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
