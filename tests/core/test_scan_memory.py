"""The memory of a scan: flat, however large the file, the line or the mistake."""

import tracemalloc
from collections.abc import Callable, Iterable, Iterator

from shared.core.request_line import Limits
from shared.core.scan import Scanner
from tests.core.lines import request, written

MIB = 1 << 20
LINES = 30_000
LINE_BYTES = 10_000
PIECE_LINES = 100
BUCKETS_BYTES = MIB  # of the ids that were seen


def pieces(lines: int) -> Iterator[bytes]:
    """Make a large file of different lines, piece by piece."""
    head, tail = written(request("@", messages=[{"role": "user", "content": "word " * (LINE_BYTES // 5)}])).split(b"@")
    for start in range(0, lines, PIECE_LINES):
        yield b"".join(b"%b%d%b\n" % (head, line, tail) for line in range(start, start + PIECE_LINES))


def scan(content: Iterable[bytes], after_each: Callable[[int], None] = lambda _: None) -> tuple[Scanner, int]:
    """Scan, drop the index, and give the scanner and how long the longest frame was."""
    scanner, longest = Scanner(Limits()), 0
    for number, piece in enumerate(content, start=1):
        for frame in scanner.feed(piece):
            longest = max(longest, len(frame))
        after_each(number)
    for frame in scanner.finish():
        longest = max(longest, len(frame))
    return scanner, longest


def test_300_megabytes_are_scanned_in_a_few() -> None:
    """From the tenth part of the file on, memory grows by no more than 16 bytes a line and the buckets they go to."""
    early = LINES // PIECE_LINES // 10
    peaks: dict[int, int] = {}

    def measure(number: int) -> None:
        if number == early:
            peaks[number] = tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    scanner, _ = scan(pieces(LINES), measure)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert LINES == scanner.summary.requests
    assert scanner.summary.bytes >= 300 * 10**6
    assert peak - peaks[early] <= 16 * LINES + BUCKETS_BYTES
    assert peak <= 16 * MIB


def test_a_line_of_100_megabytes_costs_no_more_than_the_longest_line_allowed() -> None:
    """What is beyond the limit is counted and not kept."""
    piece = b"x" * MIB
    tracemalloc.start()
    scanner, _ = scan(piece for _ in range(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (100 * MIB, 1) == (scanner.summary.bytes, scanner.summary.errors)
    assert peak <= 3 * Limits().line_bytes


def test_a_file_of_large_mistakes_has_a_small_index() -> None:
    """Names of fields, of models and of lines may be endless; what is kept of them is not."""
    large = "x" * (MIB // 4)
    bad = [written(request(large)), written(request() | {"body": {large: 1}}), written(request("b", model=large))]
    scanner, longest = scan(line + b"\n" for line in bad * 40)

    assert 120 == scanner.summary.errors
    assert longest <= 120 * 1000
