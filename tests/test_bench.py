"""The benchmark of the worker keeps up with the worker: it runs, with an engine that takes no time."""

from pathlib import Path

from bench import worker
from gpu_job.row import SERVED_NAME
from shared.core.models import Model
from tests.gpu_job.engines import echo


async def test_the_worker_s_benchmark_runs(tmp_path: Path) -> None:
    """Every line of its case is answered; how fast is not looked at."""
    model = Model(
        id="echo",
        revision="echo@1",
        source="",
        engine="echo",
        endpoints=(worker.URL,),
        context=1024,
        max_output=64,
        max_in_flight=8,
    )
    bodies = [{"messages": [{"role": "user", "content": f"hello {n}"}], "max_tokens": 4} for n in range(20)]
    engine = echo(tmp_path, "--model", SERVED_NAME)
    await engine.start()
    try:
        assert await worker.work(engine.base_url, model, worker.Case(bodies, ()), tmp_path, run=1) > 0
    finally:
        await engine.stop()
