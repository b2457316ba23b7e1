"""Parts of an object that is put together: what S3 takes, in the order of the pieces, whatever their sizes."""

from hypothesis import given
from hypothesis import strategies as st

from shared.core import assembly
from shared.core.assembly import LEAST_COPY, MOST_COPY, PARTS, Piece

MIB = 1 << 20


def pieces(*sizes: int) -> list[Piece]:
    """Give pieces of these sizes."""
    return [Piece(f"part-{number}", "e", 0, size) for number, size in enumerate(sizes)]


def test_large_pieces_are_copied_as_they_are() -> None:
    """A part each; nothing of them is read."""
    made = pieces(64 * MIB, 64 * MIB, 3)

    assert [(piece,) for piece in made] == list(assembly.parts(made))


def test_small_pieces_are_gathered() -> None:
    """Two of 4 MiB make a part."""
    made = pieces(*[4 * MIB] * 5)

    assert [tuple(made[:2]), tuple(made[2:4]), (made[4],)] == list(assembly.parts(made))


def test_a_piece_over_the_most_that_is_copied_at_once_is_several_parts() -> None:
    """Of a gibibyte each."""
    assert [MOST_COPY, MOST_COPY, 7] == [part[0].size for part in assembly.parts(pieces(2 * MOST_COPY + 7))]


@given(st.lists(st.one_of(st.integers(1, 20 * MIB), st.integers(1, 3000)), min_size=1, max_size=60))
def test_the_parts_are_the_pieces_in_order_and_s3_takes_them(sizes: list[int]) -> None:
    """No byte twice, none missing; every part but the last has at least 5 MiB."""
    made = pieces(*sizes)

    parts = list(assembly.parts(made))

    position, spans = 0, []
    for part in parts:
        for piece in part:
            if spans and spans[-1][0] == piece.source:
                assert spans[-1][1] == piece.start
                spans[-1] = (piece.source, piece.end)
            else:
                assert 0 == piece.start
                spans.append((piece.source, piece.end))
            position += piece.size
    assert [(piece.source, piece.size) for piece in made] == spans
    assert all(sum(piece.size for piece in part) >= LEAST_COPY for part in parts[:-1])


def test_many_small_pieces_stay_within_the_number_of_parts() -> None:
    """80 GB in parts of 8 MiB would be too many."""
    assert len(list(assembly.parts(pieces(*[MIB] * 80_000)))) <= PARTS + 1


def test_a_list_of_pieces_comes_back() -> None:
    """As it was written."""
    made = pieces(1, 2, 3)

    assert made == assembly.decode(assembly.encode(made))
