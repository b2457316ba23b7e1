"""Pages are full whenever more remain, and few reads fill them."""

import msgspec
import pytest

from shared.core.records import File
from shared.services.page import fill

FILES = [
    File(
        id=f"file-{number:04d}", org="o", contract="openai", bytes=0, filename="", purpose="odd" if number % 7 else "seventh", created_at=0
    )
    for number in range(1000)
]  # fmt: skip


class Reader:
    """Reads pages of `FILES`, oldest first, and counts."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self, after: str | None, limit: int) -> list[File]:
        """Give the next records."""
        self.reads += 1
        return [file for file in FILES if after is None or file.id > after][:limit]


@pytest.mark.parametrize("limit", [1, 7, 100, 142, 143, 144, 1000])
def test_every_wanted_record_is_on_one_page(limit: int) -> None:
    """In pages of any length, `has_more` being exact."""
    wanted = [file.id for file in FILES if file.purpose == "seventh"]
    found: list[str] = []
    after, more = None, True
    while more:
        page = fill(Reader(), after, limit, lambda file: file.purpose == "seventh")
        assert len(page.items) == limit or not page.has_more
        found += [file.id for file in page.items]
        after, more = found[-1], page.has_more

    assert wanted == found


def test_an_unfiltered_page_is_one_read() -> None:
    """Of one record more than the page has."""
    reader = Reader()

    page = fill(reader, None, 20, lambda _: True)

    assert (20, True, 1) == (len(page.items), page.has_more, reader.reads)


def test_a_rare_record_is_not_looked_for_one_by_one() -> None:
    """Blocks of a hundred."""
    reader = Reader()

    page = fill(reader, None, 1, lambda file: file.id == "file-0900")

    assert ["file-0900"] == [file.id for file in page.items]
    assert reader.reads <= 12


def test_a_list_without_wanted_records_is_empty() -> None:
    """And has no more."""
    assert ([], False) == fill(Reader(), None, 5, lambda file: msgspec.structs.astuple(file) == ())
