"""Whose turn it is."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.core import turn
from shared.core.contract import DAY, HOUR
from shared.core.records import Shard, ShardState

NOW = 1_800_000_000


def ready(org: str, number: int, hours: float = 24, tokens: int = 1000) -> list[Shard]:
    """Give the ready shards of an organization's batch with so many hours left."""
    deadline = NOW + int(hours * HOUR)
    return [
        Shard(
            org=org, contract="openai", batch=f"batch_{deadline}", index=index, revision="echo@1", lines=10,
            rank=f"{org}/{deadline:012d}/{index:06d}", tokens=tokens, deadline=deadline, urgent_at=deadline - DAY,
        )
        for index in range(number)
    ]  # fmt: skip


def leased(shards: list[Shard]) -> list[Shard]:
    """Give them as somebody's."""
    return [replace(shard, state=ShardState.LEASED, owner="w") for shard in shards]


def orgs(shards: list[Shard]) -> str:
    """Give the organizations in order."""
    return "".join(shard.org for shard in shards)


def test_an_organization_goes_on_in_the_order_of_its_ranks() -> None:
    """Deadline first."""
    shards = [*ready("a", 2, hours=3), *ready("a", 2, hours=5)]
    assert shards == turn.order(shards, [], {}, NOW)


def test_who_has_nothing_at_work_is_next_however_much_others_have_queued() -> None:
    """And whatever their deadlines."""
    shards = [*ready("a", 50, hours=1), *ready("b", 1, hours=23)]
    assert "b" == turn.order(shards, leased(ready("a", 1)), {}, NOW)[0].org


def test_who_has_less_at_work_is_next() -> None:
    """In tokens that are not answered yet; others who take part at the same time find the same order."""
    shards = [*ready("a", 3), *ready("b", 3)]
    assert "bbbaaa" == orgs(turn.order(shards, leased(ready("a", 3)), {}, NOW))
    assert "bbabaa" == orgs(turn.order(shards, leased([*ready("a", 2), *ready("b", 1)]), {"a": 1}, NOW))
    nearly_done = [replace(shard, completed=9) for shard in ready("b", 9)]
    assert "ba" == orgs(turn.order(shards, leased([*ready("a", 1), *nearly_done]), {}, NOW))[:2]


def test_a_large_shard_counts_for_many_small_ones() -> None:
    """What is shared is the engines, not the number of leases."""
    shards = [*ready("a", 3), *ready("b", 12, tokens=250)]
    assert "bbbb" == orgs(turn.order(shards, leased(ready("a", 1)), {}, NOW))[:4]


def test_what_is_nearer_its_deadline_gets_the_larger_share() -> None:
    """Twice the share for half of the time."""
    shards = [*ready("a", 60, hours=6), *ready("b", 60, hours=12)]
    assert {"a": 40, "b": 20} == Counter(orgs(turn.order(shards, [], {}, NOW))[:60])


def test_a_batch_with_more_than_a_day_waits_for_all_that_has_less() -> None:
    """Whoever they belong to, until it has a day left itself."""
    shards = [*ready("a", 2, hours=72), *ready("b", 2, hours=24)]
    assert "bbaa" == orgs(turn.order(shards, leased(ready("b", 5)), {}, NOW))
    assert "a" == turn.order(shards, leased(ready("b", 5)), {}, NOW + 2 * DAY)[0].org


def test_among_equals_the_one_served_longest_ago_is_next() -> None:
    """So that one worker alone serves them in turn."""
    shards = [*ready("a", 1), *ready("b", 1), *ready("c", 1)]
    assert "cab" == orgs(turn.order(shards, [], {"a": 4, "b": 5, "c": 3}, NOW))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 60), st.integers(1, 9)), max_size=6))
def test_every_shard_has_its_turn_and_keeps_its_place_in_its_organization(batches: list[tuple[str, int, int]]) -> None:
    """Whatever is queued."""
    made = [shard for org, hours, number in batches for shard in ready(org, number, hours)]
    shards = sorted({shard.rank: shard for shard in made}.values(), key=lambda shard: shard.rank)
    order = turn.order(shards, [], {}, NOW)
    assert shards == sorted(order, key=lambda shard: shard.rank)
    for org in "abcd":
        mine = [shard for shard in order if shard.org == org]
        assert mine == sorted(mine, key=lambda shard: shard.rank)
