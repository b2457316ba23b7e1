"""What is counted when all is over: that every line has its one row, and what the same engines could have done at best."""

from collections import Counter
from collections.abc import Sequence

from bench.fleet.harbour import Harbour
from bench.fleet.records import Voyage


def verified(harbour: Harbour) -> Counter[str]:
    """Read every committed chunk and assert that each line has its one row, and each token is counted once. Give what was counted."""
    totals: Counter[str] = Counter()
    for ref, voyage in harbour.voyages.items():
        seen = bytearray(voyage.work.lines)
        used = 0
        for chunk in harbour.memory.chunks.of(ref):
            rows = harbour.memory.blobs.get(chunk.key, etag=chunk.etag).splitlines()
            assert len(rows) == chunk.completed
            for row in rows:
                seen[int(row[1:])] += 1
            used += chunk.usage.output_tokens
            totals["chunks"] += 1
            totals["gpu_ms"] += chunk.gpu_ms
        shards = harbour.memory.shards.of(ref)
        assert seen == b"\x01" * voyage.work.lines, f"{ref}: not every line has its one row"
        assert used == sum(voyage.tokens) == sum(shard.usage.output_tokens for shard in shards)
        totals["shards' gpu_ms"] += sum(shard.gpu_ms for shard in shards)
        totals["lines"] += voyage.work.lines
        totals["shards"] += len(shards)
    assert totals["gpu_ms"] == totals["shards' gpu_ms"]
    return totals


def by_org(harbour: Harbour) -> dict[str, list[Voyage]]:
    """Give the batches of each organization."""
    grouped: dict[str, list[Voyage]] = {}
    for voyage in harbour.voyages.values():
        grouped.setdefault(voyage.work.org, []).append(voyage)
    return grouped


def steps(changes: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """Give the heights of a staircase of changes, by second."""
    heights, height = [], 0
    for moment, change in sorted(changes):
        height += change
        heights.append((moment, height))
    return heights


def ideal(harbour: Harbour, tokens_a_second: float) -> float:
    """Give when all tokens would be written if every engine wrote at its best, and each token once, for as long as it ran."""
    work = float(sum(sum(voyage.tokens) for voyage in harbour.voyages.values()))
    before, serving = 0.0, 0
    for moment, height in [*steps(harbour.log.serving), (float("inf"), 0)]:
        speed = serving * tokens_a_second
        if speed and work <= (moment - before) * speed:
            return before + work / speed
        work -= (moment - before) * speed if speed else 0.0
        before, serving = moment, height
    raise AssertionError("the engines did not run for long enough")
