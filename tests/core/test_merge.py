"""The merge: which pieces make the two files, and that every line is in exactly one of them."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.core import assembly, merge, result_line
from shared.core.assembly import Made, Piece
from shared.core.merge import ROW_BYTES, Totals, Unanswered
from shared.core.plan import PlanLine, ShardPlan
from shared.core.records import Batch, Chunk, Counts, Cursor, Ending, Shard, Usage
from tests.core.records import BATCH, chunk, shard

S3_PARTS = 10_000


@given(
    st.integers(0, 70).flatmap(
        lambda lines: st.tuples(st.just(lines), st.sets(st.integers(0, max(0, lines - 1)), max_size=lines))
    )
)
def test_positions_survive_the_bitmap(drawn: tuple[int, set[int]]) -> None:
    """What is set is read back in order; the bitmap has a bit a line and nothing more."""
    lines, answered = drawn
    bits = merge.bitmap(answered, lines)

    assert (lines + 7) // 8 == len(bits)
    assert sorted(answered) == list(merge.positions(bits))


@given(st.lists(st.integers(0, 3), max_size=40))
def test_what_no_chunk_answers_is_missing(chunk_of: list[int]) -> None:
    """Positions and missing are each other's complement, however the answers are spread over chunks."""
    lines = len(chunk_of)
    answers = [[position for position in range(lines) if chunk_of[position] == number] for number in (1, 2, 3)]
    chunks = [chunk(0, number, answered, lines=lines) for number, answered in enumerate(answers)]

    assert tuple(position for position in range(lines) if not chunk_of[position]) == merge.missing(lines, chunks)


def test_a_position_that_is_answered_twice_is_an_alarm() -> None:
    """Better no result than a custom_id that stands in it twice."""
    with pytest.raises(AssertionError, match="chunk-0-1-1 answers positions that are answered already"):
        merge.missing(10, [chunk(0, 0, [0, 1, 2]), chunk(0, 1, [2, 3])])


def test_a_chunk_that_counts_other_rows_than_it_answers_is_an_alarm() -> None:
    """Counters and bitmap say the same."""
    with pytest.raises(AssertionError, match="counts other rows"):
        merge.missing(10, [replace(chunk(0, 0, [0, 1, 2]), completed=2)])


def test_a_chunk_that_answers_what_the_shard_has_not_is_an_alarm() -> None:
    """A row of a line that does not exist would be in the file and in no count."""
    with pytest.raises(AssertionError, match="chunk-0-1-0 answers positions that the shard does not have"):
        merge.missing(8, [chunk(0, 0, [7, 8], lines=16)])


SHARDS = [shard(0, 10, 4, 2), shard(1, 10, 8, 2)]
CHUNKS = [
    chunk(0, 0, [3, 4, 5], failed=1),
    chunk(0, 1, [0], failed=1, epoch=2),
    chunk(0, 0, [8, 9], epoch=2),
    chunk(1, 0, range(8)),
    chunk(1, 1, [8, 9], failed=2),
]


def test_the_output_is_the_chunks_in_the_order_of_shard_epoch_and_number() -> None:
    """Only their output, and no empty piece."""
    expected = [
        Piece("chunk-0-1-0", "etag-0-1-0", 0, 200),
        Piece("chunk-0-2-0", "etag-0-2-0", 0, 200),
        Piece("chunk-1-1-0", "etag-1-1-0", 0, 800),
    ]

    assert expected == list(merge.pieces(SHARDS, CHUNKS, "output"))


def test_the_errors_are_the_failed_rows_and_then_the_unanswered_lines() -> None:
    """Failed rows lie behind the output in their chunk; a shard that is all answered has no rows to write."""
    expected = [
        Piece("chunk-0-1-0", "etag-0-1-0", 200, 300),
        Piece("chunk-0-2-1", "etag-0-2-1", 0, 100),
        Piece("chunk-1-1-1", "etag-1-1-1", 0, 200),
        Unanswered(0, (1, 2, 6, 7)),
    ]

    assert expected == list(merge.pieces(SHARDS, CHUNKS, "error"))


@pytest.mark.parametrize("phase", ["output", "error"])
def test_pieces_follow_from_the_records_in_whatever_order_a_store_gives_them(phase: str) -> None:
    """A merge that was stopped anywhere goes on with the same bytes."""
    expected = list(merge.pieces(SHARDS, CHUNKS, phase))
    for seed in range(20):
        rng = random.Random(seed)

        shuffled = merge.pieces(rng.sample(SHARDS, 2), rng.sample(CHUNKS, len(CHUNKS)), phase)

        assert expected == list(shuffled)


def test_a_batch_without_a_chunk_has_no_output_and_every_line_unanswered() -> None:
    """Cancelled before it began: the error file names all its lines."""
    assert [] == list(merge.pieces(SHARDS, [], "output"))
    assert [Unanswered(0, tuple(range(10))), Unanswered(1, tuple(range(10)))] == list(merge.pieces(SHARDS, [], "error"))


def test_an_overlap_stops_the_merge() -> None:
    """It is found where the unanswered lines are looked for, before the batch can end."""
    with pytest.raises(AssertionError, match="answered already"):
        list(merge.pieces(SHARDS, [*CHUNKS, chunk(1, 2, [0])], "error"))


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=4))
def test_every_line_is_in_exactly_one_piece(fates: list[list[int]]) -> None:
    """Lines that chunks answer, and lines that get a row at the end: together every line once."""
    shards = [shard(index, len(fate)) for index, fate in enumerate(fates)]
    chunks = [
        chunk(index, seq, answered, lines=len(fate))
        for index, fate in enumerate(fates)
        for seq in (1, 2, 3, 4)
        if (answered := [position for position in range(len(fate)) if fate[position] == seq])
    ]
    in_chunks = [(one.shard, position) for one in chunks for position in merge.positions(one.bitmap)]
    stored = {piece.source for piece in merge.pieces(shards, chunks, "output") if isinstance(piece, Piece)}
    written = [
        (piece.shard, position)
        for piece in merge.pieces(shards, chunks, "error")
        if isinstance(piece, Unanswered)
        for position in piece.positions
    ]

    assert {one.key for one in chunks} == stored
    assert [(index, position) for index, fate in enumerate(fates) for position in range(len(fate))] == sorted(
        in_chunks + written
    )


CODES = {
    Ending.COMPLETED: "server_error",
    Ending.FAILED: "server_error",
    Ending.EXPIRED: "batch_expired",
    Ending.CANCELLED: "batch_cancelled",
}


@pytest.mark.parametrize("ending", Ending)
def test_a_line_without_an_answer_gets_the_row_of_its_batchs_ending(ending: Ending) -> None:
    """One JSON line each, in the order of the file, with the code that the ending has and without a response."""
    plan = ShardPlan(
        batch="batch_01",
        org="acme",
        contract="openai",
        input_key="k",
        endpoint="/v1/chat/completions",
        lines=[PlanLine(line, 0, 0, custom_id) for line, custom_id in enumerate(["a", '"\u2028\n', "c"], start=4)],
    )

    told = [json.loads(row) for row in merge.rows(plan, Unanswered(0, (1, 2)), ending).split(b"\n")[:-1]]

    assert [('"\u2028\n', "batch_req_01_5"), ("c", "batch_req_01_6")] == [(row["custom_id"], row["id"]) for row in told]
    assert [(None, CODES[ending])] * 2 == [(row["response"], row["error"]["code"]) for row in told]


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("character", ["\0", "😀", "\u2028", '"', "\x85", "\\"])
def test_no_row_without_an_answer_is_longer_than_planned(ending: Ending, character: str) -> None:
    """The longest id in the longest spelling, in the longest batch and line, fits into what `most_bytes` counts."""
    row = result_line.unanswered("batch_" + "z" * 64, 5 * 10**9, character * 512, ending)

    assert len(row) <= ROW_BYTES


@pytest.mark.parametrize("total", [8 << 20, 75 * 10**9, 200 * 10**9, 5 * 10**12])
def test_a_file_of_any_size_fits_into_the_parts_of_s3(total: int) -> None:
    """Also when half of it is rows that are still to be written, all of them shorter than they might have been."""
    chunks = [Piece("k", "e", 0, total // 2 // 999)] * 999
    rows = [Unanswered(0, (0,) * 1000)] * min(1000, total // 2 // ROW_BYTES // 1000)
    most = sum(map(merge.most_bytes, [*chunks, *rows]))
    made = Made(b"x" * 200_000)

    parts = list(assembly.parts([*chunks, *[made] * len(rows)], most))

    assert len(parts) <= S3_PARTS


def test_what_is_delivered_is_what_the_chunks_hold() -> None:
    """Rows that never ran are in the total only."""
    expected = Totals(Counts(total=20, completed=12, failed=4), Usage(output_tokens=12))

    assert expected == merge.totals(BATCH, SHARDS, CHUNKS)


def test_answers_that_were_too_large_are_errors_and_not_paid_for() -> None:
    """They move from the completed to the failed, and their tokens out of the usage."""
    batch = replace(BATCH, cursor=Cursor(too_large=2, unbilled=Usage(output_tokens=2)))

    expected = Totals(Counts(total=20, completed=10, failed=6), Usage(output_tokens=10))

    assert expected == merge.totals(batch, SHARDS, CHUNKS)


@pytest.mark.parametrize(
    ("batch", "shards", "chunks"),
    [
        (replace(BATCH, counts=Counts(total=21)), SHARDS, CHUNKS),
        (BATCH, SHARDS[:1], CHUNKS),
        (BATCH, SHARDS, CHUNKS[1:]),
        (BATCH, SHARDS, CHUNKS[:4]),
        (BATCH, [SHARDS[0], shard(1, 10, 8, 1)], CHUNKS),
        (BATCH, [SHARDS[0], shard(1, 10, 7, 2)], CHUNKS),
    ],
    ids=[
        "a line lost",
        "a shard lost",
        "a chunk lost",
        "an error chunk lost",
        "a failed row too many",
        "a row too many",
    ],
)
def test_what_does_not_add_up_is_an_alarm(batch: Batch, shards: list[Shard], chunks: list[Chunk]) -> None:
    """Better no result than a wrong one."""
    with pytest.raises(AssertionError, match="do not add up"):
        merge.totals(batch, shards, chunks)


def test_the_larger_file_is_known_before_it_is_written() -> None:
    """Stored bytes, and room for the rows that are still to be written."""
    assert 1200 == merge.largest([shard(0, 12, 12)], [chunk(0, 0, range(12), lines=12)])
    assert 400 + 4 * ROW_BYTES == merge.largest(SHARDS, CHUNKS)
