"""The scan of an input file, against a bare msgspec decode of the same bytes.

    python -m bench.scan [--lines 50000] [--bytes 207000000] [--rounds 7] [--copies 10] [--tools]

The lines are made up in memory from a fixed seed: chats of English text, a fifth of them with escapes and other scripts. Both run over it in turn, round
after round, and the seconds are the processor's, so that a busy machine is busy for both; the table shows medians. The decode gets its lines cut already:
finding them is the scan's work. The peak of memory is measured in a run of its own, since tracing slows Python down; it counts all that the scan allocates.

Then as many copies of the lines, each with ids of its own, are written to a file, and a fresh process scans that from the disk: what a scan of gigabytes
takes, and the most memory that the whole process had.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from bench.measure import print_goals, process_peak
from shared.core.request_line import Limits
from shared.core.scan import Scanner

PIECE = 1 << 20  # as an upload comes in
TIME_GOAL = 3.0  # times the decode
MEMORY_GOAL = 150 << 20

_ENGLISH = (
    "the of and to in a is that for it as was with be by on not he this are or his from at which but have an had they you were their one all we can "
    "summarize contract invoice customer quarterly report shipment tolerance laboratory harbour current estuary battery reactor patient trial cohort"
)
_OTHER_SHARE = 0.2
_OTHER = "été größer naïve данные 東京都 😀"


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m bench.scan", description="The scan against a bare decode.")
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--bytes", type=int, default=207_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--tools", action="store_true", help="lines that are no plain chats")
    parser.add_argument("--file", type=Path, help="only scan this file; print seconds and peak memory as JSON")
    args = parser.parse_args()
    if args.file:
        print(json.dumps(scan_file(args.file)))
        return
    content = b"".join(request_lines(args.lines, args.bytes, tools=args.tools))
    lines = content.split(b"\n")[:-1]
    pieces = [content[start : start + PIECE] for start in range(0, len(content), PIECE)]
    decodes, scans = interleaved(args.rounds, lambda: decode(lines), lambda: scan(pieces))
    print_table(args.lines, len(content), decodes, scans, peak(lambda: scan(pieces)))
    if args.copies:
        print_large(args.lines * args.copies, *large(lines, args.copies))


def large(lines: list[bytes], copies: int) -> tuple[int, float, int]:
    """Scan a file of that many copies in a fresh process; give its bytes, seconds and peak of memory."""
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as folder:
        path = Path(folder) / "requests.jsonl"
        with path.open("wb") as file:
            for copy in range(copies):
                mark = b'{"custom_id": "copy-%d-' % copy
                file.writelines(line.replace(b'{"custom_id": "', mark, 1) + b"\n" for line in lines)
        command = [sys.executable, "-m", "bench.scan", f"--file={path}"]
        told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return path.stat().st_size, told["seconds"], told["peak"]


def scan_file(path: Path) -> dict[str, float]:
    """Scan a file from the disk; give the processor's seconds, and the most bytes that this process had."""
    with path.open("rb") as file:
        start = time.process_time()
        scan(iter(lambda: file.read(PIECE), b""))
        seconds = time.process_time() - start
    return {"seconds": seconds, "peak": process_peak()}


def request_lines(lines: int, total: int, *, tools: bool = False) -> Iterator[bytes]:
    """Make request lines of about `total` bytes together, the same ones each time; with `tools` none is a plain chat."""
    rng = random.Random(7)  # noqa: S311 - a benchmark's text, nothing secret
    for index in range(lines):
        size = max(0, int(total / lines * rng.uniform(0.5, 1.5)) - 260)
        turns = rng.randint(1, 5)
        messages = [{"role": "system", "content": "You are a careful assistant."}]
        for turn in range(turns):
            role = "assistant" if turn % 2 else "user"
            messages.append({"role": role, "content": _text(rng, size // turns)})
        body = {"model": "some-model", "messages": messages, "max_tokens": 256, "temperature": 0.7}
        body |= {"tools": []} if tools else {}
        line = {"custom_id": f"request-{index}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        yield json.dumps(line, ensure_ascii=False).encode() + b"\n"


def _text(rng: random.Random, size: int) -> str:
    words = _ENGLISH.split()
    if rng.random() < _OTHER_SHARE:
        words += _OTHER.split()
    text = " ".join(rng.choices([*words, *words, "\n", '"so"'], k=size // 5))
    return text.encode()[:size].decode(errors="ignore")


def decode(lines: list[bytes]) -> None:
    """Do what no scan can do without."""
    for line in lines:
        msgspec.json.decode(line)


def scan(pieces: Iterable[bytes]) -> None:
    """Scan the bytes as they would come in."""
    scanner = Scanner(Limits())
    for piece in pieces:
        for _ in scanner.feed(piece):
            pass
    for _ in scanner.finish():
        pass


def interleaved(rounds: int, *runs: Callable[[], None]) -> list[list[float]]:
    """Time each run in turn, `rounds` times; give the processor seconds of each."""
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for run, times in zip(runs, seconds, strict=True):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
    return seconds


def peak(run: Callable[[], None]) -> int:
    """Give the most bytes that the run had allocated at a time."""
    tracemalloc.start()
    run()
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


def print_table(lines: int, size: int, decodes: list[float], scans: list[float], memory: int) -> None:
    """Print medians, their ratio and the peak of memory, beside the goals."""
    base, ours = statistics.median(decodes), statistics.median(scans)
    rows = [
        ("msgspec decode", f"{base:.3f} s", ""),
        ("scan", f"{ours:.3f} s", ""),
        ("ratio", f"{ours / base:.2f}", f"≤ {TIME_GOAL:.1f}"),
        ("speed", f"{size / 1e6 / ours:.0f} MB/s", ""),
        ("peak memory", f"{memory / 2**20:.1f} MiB", f"≤ {MEMORY_GOAL >> 20} MiB"),
    ]
    print_goals(f"{lines:,} lines, {size / 1e6:.0f} MB", rows)


def print_large(lines: int, size: int, seconds: float, memory: int) -> None:
    """Print what the scan of a large file took."""
    ids = 16 * lines  # what the goal allows on top
    rows = [
        ("scan", f"{seconds:.2f} s", ""),
        ("speed", f"{size / 1e6 / seconds:.0f} MB/s", ""),
        ("peak of the process", f"{memory / 2**20:.0f} MiB", f"≤ {(MEMORY_GOAL + ids) >> 20} MiB"),
    ]
    print_goals(f"{lines:,} lines, {size / 1e9:.1f} GB, from the disk", rows)


if __name__ == "__main__":
    main()
