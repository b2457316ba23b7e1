"""Fitting results into files of limited size: an answer that the output file has no room for becomes an error that is not charged.

Rows are taken in the order of the merge, so that the same chunks always give the same bytes. Room in the error file is kept for a short row of every line, so
that every line has its row whatever the sizes are; a long error that does not fit beside those becomes a short one.
"""

from collections.abc import Iterable
from typing import NamedTuple

from shared.core import result_line
from shared.core.merge import ROW_BYTES
from shared.core.records import Usage


class Rows(NamedTuple):
    """The rows of one chunk, with their newlines: those of the output file, and those of the error file."""

    output: bytes
    error: bytes


class Fitted(NamedTuple):
    """Both files, how many answers became errors, and what those had used."""

    output: bytes
    error: bytes
    too_large: int
    unbilled: Usage


def fit(chunks: Iterable[Rows], unanswered: Iterable[bytes], *, limit: int, lines: int) -> Fitted:
    """Fit the rows of a batch of `lines` lines into files of at most `limit` bytes each, in the memory of the files and one chunk."""
    output, error, displaced = bytearray(), bytearray(), bytearray()
    too_large, unbilled = 0, Usage()
    room = limit - lines * ROW_BYTES
    for chunk in chunks:
        for row in chunk.output.splitlines(keepends=True):
            if len(output) + len(row) <= limit:
                output += row
                continue
            short, usage = result_line.too_large(row)
            displaced += short
            too_large, unbilled = too_large + 1, unbilled + usage
        for row in chunk.error.splitlines(keepends=True):
            fits = len(error) + len(row) <= room
            error += row if fits else result_line.too_large(row)[0]
    error += displaced
    for rows in unanswered:
        error += rows
    return Fitted(bytes(output), bytes(error), too_large, unbilled)
