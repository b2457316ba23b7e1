"""docs/invariants.md names what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "invariants.md").read_text()


def test_every_test_that_the_page_names_is_there() -> None:
    """By its file and its name."""
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", TEXT)
    missing = {f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / "tests" / file).read_text()}
    assert named
    assert set() == missing


def test_every_file_that_the_page_names_is_there() -> None:
    """Where a protection stands."""
    named = re.findall(r"\| `([\w/.]+)` \|", TEXT)
    assert named
    assert [] == [file for file in named if not (ROOT / file).is_file()]
