"""Lines that begin alike go side by side, and long answers first, within a window of the file."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from shared.core.groups import WINDOW_BYTES, WINDOW_LINES, grouped
from shared.core.scan import Entry
from tests.core.lines import CHAT


def entry(
    line: int, prefixes: tuple[int, ...] = (0, 0), model: str = "m", offset: int | None = None, cap: int = 0
) -> Entry:
    """Give a line of 100 bytes."""
    return Entry(
        line=line,
        offset=100 * line if offset is None else offset,
        length=99,
        custom_id=f"r{line}",
        url=CHAT,
        model=model,
        cap=cap,
        n=1,
        prefixes=prefixes,
    )


def order(*entries: Entry) -> list[int]:
    """Give the lines' numbers in the order in which they are to run."""
    return [entry.line for entry in grouped(entries)]


def test_interleaved_beginnings_are_put_together() -> None:
    """Groups come in the order of their first lines, and the lines of a group in the file's."""
    assert [1, 3, 5, 2, 4] == order(*[entry(line, (line % 2, 0)) for line in range(1, 6)])


def test_longer_beginnings_are_groups_within_shorter_ones() -> None:
    """What two groups share is computed once as well."""
    assert [1, 4, 3, 2] == order(entry(1, (7, 1)), entry(2, (8, 1)), entry(3, (7, 2)), entry(4, (7, 1)))


def test_equal_beginnings_of_two_models_are_two_groups() -> None:
    """An adapter computes other values than its base."""
    assert [1, 3, 2] == order(entry(1), entry(2, model="ft:m:1"), entry(3))


def test_long_answers_come_first() -> None:
    """A line that names no limit may have the longest."""
    caps = enumerate([8, 512, 0, 64, 512])
    assert [2, 1, 4, 3, 0] == order(*[entry(line, (line, line), cap=cap) for line, cap in caps])


def test_a_group_comes_where_its_longest_answer_belongs_and_stays_together() -> None:
    """Its lines too begin with the longest."""
    lines = [(7, 8), (8, 64), (7, 512), (8, 64), (9, 100)]
    assert [2, 0, 4, 1, 3] == order(*[entry(line, (start, 0), cap=cap) for line, (start, cap) in enumerate(lines)])


def test_a_file_without_groups_keeps_its_order() -> None:
    """So do lines that all begin alike."""
    assert [1, 2, 3] == order(entry(1, (1, 1)), entry(2, (2, 2)), entry(3, (3, 3)))
    assert [1, 2, 3] == order(entry(1), entry(2), entry(3))


def test_no_line_leaves_its_window() -> None:
    """However far a window's lines are apart, one read of a bounded size holds them all."""
    far = WINDOW_BYTES + 100
    assert [1, 2, 3, 4] == order(
        entry(1, (1, 1), offset=0),
        entry(2, (2, 2), offset=100),
        entry(3, (1, 1), offset=far),
        entry(4, offset=far + 100),
    )


def test_a_window_has_no_more_lines_than_memory_is_for() -> None:
    """Of short lines a window of bytes would hold very many."""
    lines = [entry(line, (line % 2, 0), offset=line) for line in range(2 * WINDOW_LINES)]
    found = order(*lines)
    assert set(range(WINDOW_LINES)) == set(found[:WINDOW_LINES])


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from("ab"), st.sampled_from((0, 1, 9))), max_size=30
    )
)
def test_every_line_is_there_once_and_beside_its_like(drawn: list[tuple[int, int, str, int]]) -> None:
    """A group that was left does not come again."""
    lines = [entry(line, (first, second), model, cap=cap) for line, (first, second, model, cap) in enumerate(drawn)]
    found = list(grouped(lines))
    assert lines == sorted(found, key=lambda entry: entry.line)
    ways = [way for way, _ in groupby(found, key=lambda entry: (entry.model, entry.prefixes))]
    assert len(ways) == len(set(ways))
