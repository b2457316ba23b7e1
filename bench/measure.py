"""What the benchmarks share: what is measured beside its goal, and the memory of a process."""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table


def print_goals(title: str, rows: Iterable[tuple[str, str, str]]) -> None:
    """Print a table: what, as measured, its goal ("" where it has none)."""
    table = Table(title=title)
    for name in ("", "measured", "goal"):
        table.add_column(name, justify="right" if name else "left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def process_peak() -> int:
    """Give the most bytes that this process ever had. Not `ru_maxrss`, into which what it was forked from counts."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
