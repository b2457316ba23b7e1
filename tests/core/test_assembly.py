"""Parts of an object that is put together: what S3 takes, in the order of the pieces, whatever their sizes."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from shared.core import assembly
from shared.core.assembly import LEAST_PART, MOST_COPY, PARTS, Made, Part, Piece

MIB = 1 << 20

SIZES = st.lists(st.one_of(st.integers(1, 20 * MIB), st.integers(1, 3000)), min_size=1, max_size=60)


def pieces(*sizes: int) -> list[Piece]:
    """Give pieces of these sizes."""
    return [Piece(f"part-{number}", "e", 0, size) for number, size in enumerate(sizes)]


def parts(made: Sequence[Piece | Made]) -> list[Part]:
    """Give the parts that they make."""
    return list(assembly.parts(made, sum(piece.size for piece in made)))


def shape(made: Sequence[Piece | Made]) -> list[tuple[int, bool]]:
    """Give how large their parts are, and which of them are copied."""
    return [(part.size, part.copied is not None) for part in parts(made)]


def test_large_pieces_are_copied_as_they_are() -> None:
    """A part each; nothing of them is read."""
    made = pieces(64 * MIB, 64 * MIB, 3)

    assert [(piece,) for piece in made] == [part.ranges for part in parts(made)]
    assert [made[0], made[1], None] == [part.copied for part in parts(made)]


def test_small_pieces_are_gathered() -> None:
    """Two of 4 MiB make a part."""
    made = pieces(*[4 * MIB] * 5)

    assert [tuple(made[:2]), tuple(made[2:4]), (made[4],)] == [part.ranges for part in parts(made)]


def test_a_part_ends_where_a_large_piece_begins() -> None:
    """So that this one can be copied whole."""
    assert [(6 * MIB, False), (9 * MIB, True), (1, False)] == shape(pieces(3 * MIB, 3 * MIB, 9 * MIB, 1))


def test_of_a_large_piece_behind_a_small_one_as_little_is_read_as_can_be() -> None:
    """What the part in front of it lacks; the rest is copied."""
    assert [(5 * MIB, False), (9 * MIB, True)] == shape(pieces(MIB, 13 * MIB))


def test_a_piece_of_exactly_the_least_is_read() -> None:
    """S3 copies ranges only of objects that are larger."""
    assert [(5 * MIB + 1, False)] == shape(pieces(5 * MIB, 1))
    assert [(5 * MIB + 1, True), (1, False)] == shape(pieces(5 * MIB + 1, 1))
    assert [(5 * MIB, False), (9 * MIB, True)] == shape(pieces(5 * MIB, 9 * MIB))


def test_bytes_that_no_object_has_are_never_copied() -> None:
    """They are cut where a part is full."""
    made = [Made(b"x" * (9 * MIB)), *pieces(6 * MIB)]

    assert [(8 * MIB, False), (5 * MIB, False), (2 * MIB, False)] == shape(made)


def test_a_piece_over_the_most_that_is_copied_at_once_is_several_parts() -> None:
    """Of a gibibyte each."""
    assert [(MOST_COPY, True), (MOST_COPY, True), (7, False)] == shape(pieces(2 * MOST_COPY + 7))


@given(SIZES)
def test_the_parts_are_the_pieces_in_order_and_s3_takes_them(sizes: list[int]) -> None:
    """No byte twice, none missing; every part but the last has at least 5 MiB."""
    made = pieces(*sizes)

    found = parts(made)

    spans: list[tuple[str, int]] = []
    for part in found:
        for piece in part.ranges:
            assert isinstance(piece, Piece)
            if spans and spans[-1][0] == piece.source:
                assert spans[-1][1] == piece.start
                spans[-1] = (piece.source, piece.end)
            else:
                assert 0 == piece.start
                spans.append((piece.source, piece.end))
    assert [(piece.source, piece.size) for piece in made] == spans
    assert all(part.size >= LEAST_PART for part in found[:-1])


@given(SIZES)
def test_whoever_goes_on_behind_any_part_gives_the_same_ones(sizes: list[int]) -> None:
    """The place is all that he has to know."""
    made, total = pieces(*sizes), sum(sizes)

    found = parts(made)

    for number, part in enumerate(found, 1):
        behind = list(assembly.parts(made[part.behind.piece :], total, part.behind))
        assert found[number:] == behind


def test_many_pieces_stay_within_the_number_of_parts() -> None:
    """80 GB of small ones in parts of 8 MiB would be too many, and so would 100 GB of such that are just large enough to be copied."""
    for made in (pieces(*[MIB] * 80_000), pieces(*[5 * MIB + 1] * 20_000), pieces(*[MIB, 7 * MIB] * 20_000)):
        assert len(parts(made)) <= PARTS + 1


def test_a_list_of_pieces_comes_back() -> None:
    """As it was written."""
    made = pieces(1, 2, 3)

    assert made == assembly.decode(assembly.encode(made))
