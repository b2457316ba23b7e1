"""The benchmarks of worker, Finalize and fleet keep up with what they measure: they run, with an engine that takes no time, and few lines."""

from pathlib import Path

from bench import finalize, worker
from bench.fleet import chart
from bench.fleet.__main__ import works
from bench.fleet.harbour import Harbour
from bench.fleet.tally import ideal, verified
from bench.fleet.throughput import ENGINE
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


def test_the_benchmark_of_finalize_runs() -> None:
    """On either store; both files have their rows."""
    for store in (finalize.moto, finalize.disk):
        assert finalize.measure(2000, store=store, left=100)["bytes"] > 0


def test_the_fleet_s_simulation_runs() -> None:
    """Every line has its one row, though workers are lost all the time; the chart is drawn."""
    harbour = Harbour(seed=1, workers=8, kill_every=20, fault_rate=0.2)
    harbour.run(works(12_000))

    totals = verified(harbour)

    assert 12_000 == totals["lines"]
    assert {"ended", "retried", "silent"} == {how for _, how in harbour.log.lost}
    assert chart.draw(harbour, ideal(harbour, ENGINE)).startswith("<svg")
