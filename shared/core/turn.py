"""Whose turn it is: which shard a free worker leases next, from what the queue shows now. Nothing is remembered but a worker's own last choices.

1. What must end within a day comes before what has longer: a batch of the 24h window before one of the 72h window, until that has a day left too.
2. Among those, organizations share the workers. The one that has the least at work comes first, counted in tokens that are leased and not answered,
   times the time that its most urgent shard has left: so one that has nothing at work is always next, however much the others
   have queued, and what is nearer its deadline gets the larger share. Among equals the one that this worker served longest ago.
3. Within an organization: by deadline, then by batch, then in file order (`Shard.rank`).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from shared.core.records import Shard


def order(ready: Sequence[Shard], leased: Iterable[Shard], served: Mapping[str, int], now: float) -> list[Shard]:
    """Give the ready shards, those of each organization by rank, in the order in which they are to be leased.

    Each counts what stands before it of its organization: who does not get the first one, because another worker was faster, goes on to
    whoever is next now. `served` numbers this worker's last choice of each organization.
    """
    at_work: defaultdict[str, float] = defaultdict(float)
    for shard in leased:
        at_work[shard.org] += unanswered(shard)
    turns = []
    for shard in ready:
        left = max(1.0, shard.deadline - now)
        share = at_work[shard.org] * left
        turns.append((now < shard.urgent_at, share, served.get(shard.org, 0), shard.deadline, shard.rank, shard))
        at_work[shard.org] += unanswered(shard)
    return [turn[-1] for turn in sorted(turns, key=lambda turn: turn[:-1])]


def unanswered(shard: Shard) -> float:
    """Estimate the tokens of its lines that have no row yet."""
    return shard.tokens * (1 - shard.answered / shard.lines)
