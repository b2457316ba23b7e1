"""The scan against a plain, slow one, for as long as somebody has time: what `test_scan_reference` does for seconds.

    python -m tests.core.fuzz [--minutes 10] [--seed N]

Every input is a file that comes in pieces. One kind is drawn by hypothesis; the other is made of those by changing, moving and repeating bytes, which is
quick and knows no rules. It ends at the first difference or crash, which it shows, or says how many inputs it has tried.
"""

import argparse
import random
import sys
import time
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.core.test_scan_reference import ODD_LINES, cuts, fast, slow

DRAWN_AT_A_TIME = 1_000
CHANGED_AT_A_TIME = 20_000
CORPUS = 2_000
CASES = Path(__file__).parents[1] / "cases"
PIECES = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\r",
    b"\x00",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\\ud800",
    b"1e999",
    b"null",
    b"NaN",
)


class Fuzz:
    """One run: how much it has tried, and the files that it makes others of."""

    def __init__(self, number: int) -> None:
        self._rng = random.Random(number)
        self._corpus = [b"\n".join(ODD_LINES), *(path.read_bytes() for path in sorted(CASES.glob("*/input*")))]
        self.drawn = 0
        self.changed = 0

    def draw(self) -> None:
        """Try files that hypothesis draws, and keep some of them."""

        @seed(self._rng.getrandbits(64))
        @settings(
            max_examples=DRAWN_AT_A_TIME,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        @given(cuts())
        def agree(cut: tuple[bytes, list[bytes]]) -> None:
            content, pieces = cut
            self.drawn += 1
            compare(content, pieces)
            if content and self._rng.random() < 0.2:
                self._corpus.append(content)

        agree()
        self._corpus = self._corpus[-CORPUS:]

    def change(self) -> None:
        """Try files that are like those of the corpus."""
        for _ in range(CHANGED_AT_A_TIME):
            content = bytearray(self._rng.choice(self._corpus)[:4000])
            for _ in range(self._rng.choice((1, 1, 2, 5))):
                self._spoil(content)
            self.changed += 1
            compare(bytes(content), self._cut(bytes(content)))

    def _spoil(self, content: bytearray) -> None:
        rng = self._rng
        start = rng.randrange(len(content) + 1)
        end = min(len(content), start + rng.choice((0, 1, 1, 4, 40)))
        match rng.randrange(4):
            case 0:
                content[start:end] = rng.choice(PIECES)
            case 1:
                content[start:end] = rng.randbytes(end - start)
            case 2:
                content[start:start] = content[start:end] * rng.choice((1, 2, 50))
            case _:
                at = rng.randrange(len(content) + 1)
                content[at:at] = rng.choice(self._corpus)[:200]

    def _cut(self, content: bytes) -> list[bytes]:
        at = sorted(self._rng.randrange(len(content) + 1) for _ in range(self._rng.randrange(4)))
        return [content[start:end] for start, end in zip([0, *at], [*at, len(content)], strict=True)]


def compare(content: bytes, pieces: list[bytes]) -> None:
    """AssertionError, with the input, when the two do not agree; so too when one of them breaks."""
    try:
        found, wanted = fast(pieces)[1], slow(content)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} at {content!r} in {[len(piece) for piece in pieces]}") from error
    assert found == wanted, f"{content!r} in {[len(piece) for piece in pieces]}:\n{found}\n{wanted}"


def main() -> None:
    """Fuzz, and say how much."""
    parser = argparse.ArgumentParser(prog="python -m tests.core.fuzz", description="The scan against a slow one.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    args = parser.parse_args()
    fuzz, start = Fuzz(args.seed), time.monotonic()
    while time.monotonic() - start < 60 * args.minutes:
        fuzz.draw()
        fuzz.change()
    sys.stdout.write(
        f"no difference in {fuzz.drawn + fuzz.changed:,} files ({fuzz.drawn:,} drawn, {fuzz.changed:,} changed), "
        f"{time.monotonic() - start:.0f} s, seed {args.seed}\n"
    )


if __name__ == "__main__":
    main()
