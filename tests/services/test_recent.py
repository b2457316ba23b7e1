"""What was looked up a moment ago."""

import pytest

from shared.services import recent
from shared.services.recent import Recent


class Clock:
    """A clock that a test turns."""

    now = 0.0

    def __call__(self) -> float:
        """Give the time."""
        return self.now


def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    """Then it is looked up anew."""
    clock, answers = Clock(), iter("abc")
    kept = Recent[str, str](clock, 2.0)

    assert "a" == kept.get("key", lambda: next(answers))
    clock.now = 1.9
    assert "a" == kept.get("key", lambda: next(answers))
    assert "b" == kept.get("other", lambda: next(answers))
    clock.now = 2.0
    assert "c" == kept.get("key", lambda: next(answers))


def test_what_could_not_be_looked_up_is_not_kept() -> None:
    """The next one tries again."""
    kept = Recent[str, str](Clock(), 2.0)

    with pytest.raises(StopIteration):
        kept.get("key", lambda: next(iter("")))

    assert "a" == kept.get("key", lambda: "a")


def test_it_does_not_grow_without_end() -> None:
    """Nobody fills the memory by asking for much."""
    kept = Recent[int, int](Clock(), 2.0)

    for key in range(recent.CAPACITY * 2 + 5):
        kept.get(key, lambda key=key: key)  # type: ignore[misc]

    assert len(kept._kept) <= recent.CAPACITY
