"""A million lines through a fleet of 64 workers that loses one every 30 seconds, on a virtual clock.

`bench.fleet.harbour` says what is real and what is played.

    python -m bench.fleet [--lines 1000000] [--chart docs/fleet-simulation.svg]

The ideal is what the very same engines could do: for as long as each of them ran, at its best speed, every token written once. Beside it stands what
64 engines that are there from the first second, and never lost, would need.
"""

import argparse
import statistics
import time
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.fleet import chart
from bench.fleet.harbour import Harbour
from bench.fleet.records import Work
from bench.fleet.tally import by_org, ideal, steps, verified
from bench.fleet.throughput import ENGINE, STREAM
from shared.core.contract import HOUR

WORKERS = 64
KILL_EVERY = 30.0
FAULT_RATE = 0.05
GOAL = 1.15
SMALL = 100
BUOYS = 10


def works(lines: int) -> list[Work]:
    """Give the scenario: one organization with most of the lines in one batch, one with five batches, one that has three days, and one with little."""
    rest = lines - SMALL * BUOYS
    big, patient = int(0.64 * rest), int(0.11 * rest)
    medium = (rest - big - patient) // 5
    span = 0.7 * lines / 1e6 * 1500
    return [
        Work("tide", rest - patient - 5 * medium, 24 * HOUR),
        *(Work("harbour", medium, 24 * HOUR) for _ in range(5)),
        Work("ebb", patient, 72 * HOUR),
        *(Work("buoy", SMALL, 24 * HOUR, at=240 + span * number / BUOYS) for number in range(BUOYS)),
    ]


def main() -> None:
    """Run it and print what came of it."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--lines", type=int, default=1_000_000)
    arguments.add_argument("--seed", type=int, default=7)
    arguments.add_argument("--chart", type=Path)
    options = arguments.parse_args()

    began = time.process_time()
    harbour = Harbour(seed=options.seed, workers=WORKERS, kill_every=KILL_EVERY, fault_rate=FAULT_RATE)
    harbour.run(works(options.lines))
    totals = verified(harbour)
    seconds = time.process_time() - began

    console = Console()
    console.print(_speed(harbour, totals, seconds))
    console.print(_happened(harbour, totals))
    console.print(_waits(harbour))
    if options.chart:
        options.chart.write_text(chart.draw(harbour, ideal(harbour, ENGINE)))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title)
    for name in columns:
        table.add_column(name, justify="right" if name else "left")
    return table


def _end(harbour: Harbour) -> float:
    return max(voyage.ended or 0.0 for voyage in harbour.voyages.values())


def _speed(harbour: Harbour, totals: "dict[str, int]", seconds: float) -> Table:
    lines = sum(voyage.work.lines for voyage in harbour.voyages.values())
    tokens = sum(sum(voyage.tokens) for voyage in harbour.voyages.values())
    best, end = ideal(harbour, ENGINE), _end(harbour)
    table = _table(
        f"{lines:,} lines, {WORKERS} workers, one lost every {KILL_EVERY:.0f} s", "", "seconds", "ratio", "goal"
    )
    table.add_row("the last row is durable", f"{end:,.0f}", "", "")
    table.add_row("ideal: these engines, while they ran", f"{best:,.0f}", f"{end / best:.3f}", f"≤ {GOAL}")
    calm = tokens / (WORKERS * ENGINE)
    table.add_row("64 engines, there from the start and never lost", f"{calm:,.0f}", f"{end / calm:.3f}", "")
    served = sum(
        height * (after - moment)
        for (moment, height), (after, _) in pairwise([*steps(harbour.log.serving), (end, 0)])
        if after <= end
    )
    table.add_row("GPU time of workers, until then", f"{served:,.0f}", "", "")
    table.add_row(
        "… metered, by committed chunks",
        f"{totals['gpu_ms'] / 1000:,.0f}",
        f"{totals['gpu_ms'] / 1000 / served:.3f}",
        "≤ 1",
    )
    table.add_row("of the processor, to simulate it", f"{seconds:,.0f}", "", "")
    return table


def _happened(harbour: Harbour, totals: "dict[str, int]") -> Table:
    counts = harbour.log.counts
    table = _table("What happened", "", "number")
    table.add_row("lines with exactly one row, and its tokens counted once", f"{totals['lines']:,}")
    table.add_row("shards", f"{totals['shards']:,}")
    table.add_row("committed chunks", f"{totals['chunks']:,}")
    for how in ("ended", "retried", "silent"):
        table.add_row(f"workers lost: {how}", f"{sum(kind == how for _, kind in harbour.log.lost):,}")
    for fault in ("throttle", "crowded", "lose_answer"):
        table.add_row(f"faults: {fault.replace('_', ' ')}", f"{counts[fault]:,}")
    table.add_row("leases that their holders found lost", f"{counts['leases lost']:,}")
    table.add_row("rows that were written more than once", f"{counts['rows'] - totals['lines']:,}")
    return table


def _waits(harbour: Harbour) -> Table:
    table = _table(
        "From the create to the last row, in seconds", "organization", "window", "batches", "lines", "median", "longest"
    )
    for org, voyages in by_org(harbour).items():
        waits = [(voyage.ended or 0.0) - voyage.work.at for voyage in voyages]
        table.add_row(
            org,
            f"{voyages[0].work.window // HOUR} h",
            f"{len(voyages)}",
            f"{sum(voyage.work.lines for voyage in voyages):,}",
            f"{statistics.median(waits):,.0f}",
            f"{max(waits):,.0f}",
        )
    buoys = [max(voyage.tokens) / STREAM for voyage in by_org(harbour)["buoy"]]
    table.add_row("buoy, alone", "", "", "", f"{statistics.median(buoys):,.0f}", f"{max(buoys):,.0f}")
    table.caption = "alone: its longest row in an engine that has nothing else to do"
    return table


if __name__ == "__main__":
    main()
