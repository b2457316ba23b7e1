"""Which custom_ids a file has used."""

import random
import sys

from shared.core.seen import SeenIds

BUCKETS_BYTES = 2 << 20


def test_it_is_a_dict_that_keeps_the_first_line() -> None:
    """100,000 ids, a third of them again and again: always the line that came first."""
    rng = random.Random(1)
    seen, model = SeenIds(), dict[str, int]()

    for line in range(1, 100_001):
        custom_id = f"request-{rng.randrange(70_000)}"
        assert model.setdefault(custom_id, line) == seen.first_line(custom_id, line)


def test_a_line_beyond_four_bytes_is_remembered() -> None:
    """A file of 5 GB can have more lines than an unsigned 32-bit number."""
    seen = SeenIds()

    assert 4_999_999_998 == seen.first_line("a", 4_999_999_998)
    assert 4_999_999_998 == seen.first_line("a", 4_999_999_999)


def test_ids_that_look_alike_are_told_apart() -> None:
    """Empty, short, long, with NULs and in other scripts."""
    ids = ["", "0", "00", "\0", "\0\0", "a\0", "é", "e\u0301", "😀", "x" * 512, "x" * 511]
    seen = SeenIds()

    assert [*range(len(ids))] == [seen.first_line(custom_id, line) for line, custom_id in enumerate(ids)]
    assert [*range(len(ids))] == [seen.first_line(custom_id, 99) for custom_id in ids]


def test_bytes_of_two_neighbours_are_no_hash() -> None:
    """A record is found only where a record begins: here the hash stands one byte off in the record before it, too."""
    seen = SeenIds()
    seen.first_line("a", 3)
    bucket = next(bucket for bucket in seen._buckets if bucket)
    bucket[:0] = b"\0" + bucket[:7] + bytes(4)

    assert 3 == seen.first_line("a", 9)


def test_an_id_costs_16_bytes() -> None:
    """Beyond them there are only the buckets themselves, a constant; and none of them is large enough to be doubled at a cost."""
    seen, ids = SeenIds(), 300_000
    for line in range(ids):
        seen.first_line(str(line), line)
    sizes = [sys.getsizeof(bucket) for bucket in seen._buckets if bucket is not None]

    assert sys.getsizeof(seen._buckets) + sum(sizes) <= 16 * ids + BUCKETS_BYTES
    assert max(sizes) < 1000
