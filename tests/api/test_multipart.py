"""The reader of multipart bodies gives the same events however a body is cut."""

from functions.api.multipart import Event, FormReader, PartBegan, PartEnded
from tests.api.forms import form

PARTS = [
    ("purpose", None, b"batch"),
    ("file", 'filename="a.jsonl"', b"one\r\n--X\r\n--X-\r\n\r\n--\r-two\r\n"),  # nearly boundaries, all of them data
    ("empty", None, b""),
]
BODY = form(PARTS) + b"epilogue"


def joined(events: list[Event]) -> list[Event]:
    """Join the bytes of each part."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += event
        else:
            found.append(event)
    return found


def read(*pieces: bytes) -> list[Event]:
    """Read a body in these pieces."""
    reader = FormReader(b"XX")
    events = [event for piece in pieces for event in reader.feed(piece)]
    reader.finish()
    return joined(events)


WHOLE = [
    PartBegan("purpose", None),
    b"batch",
    PartEnded(),
    PartBegan("file", "a.jsonl"),
    b"one\r\n--X\r\n--X-\r\n\r\n--\r-two\r\n",
    PartEnded(),
    PartBegan("empty", None),
    PartEnded(),
]


def test_a_whole_body_gives_its_parts_in_order() -> None:
    """Names, file names and bytes come out as they stand in the body."""
    assert WHOLE == read(BODY)


def test_a_body_cut_at_every_byte_gives_the_same_parts() -> None:
    """A boundary that comes in two pieces is a boundary all the same."""
    for cut in range(len(BODY) + 1):
        assert WHOLE == read(BODY[:cut], BODY[cut:])


def test_a_body_of_single_bytes_gives_the_same_parts() -> None:
    """No piece is too small."""
    assert WHOLE == read(*(BODY[at : at + 1] for at in range(len(BODY))))
