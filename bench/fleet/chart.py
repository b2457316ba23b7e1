"""The chart of the fleet's simulation, as SVG by hand: how far each organization is, and how many workers serve."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from bench.fleet.harbour import Harbour
from bench.fleet.tally import by_org, steps
from shared.core.contract import HOUR

WIDTH, LEFT, RIGHT = 880, 56, 170
COLOURS = {"tide": "#1f5f8b", "harbour": "#3a9d8f", "ebb": "#b07d2b", "buoy": "#c0392b"}
LABELS = {"tide": (35, "start"), "harbour": (75, "end"), "ebb": (15, "end")}
"""At which percentage a curve is named, and on which side."""
INK, PALE = "#333", "#ddd"
HEIGHT = 556
POINTS = 300
"""Of a curve, at the most."""


class Panel(NamedTuple):
    """A part of the picture: where its top is, how high it is, and what its edges mean."""

    top: float
    height: float
    seconds: float
    most: float

    def x(self, second: float) -> float:
        """Give the place of a second."""
        return LEFT + (WIDTH - LEFT - RIGHT) * second / self.seconds

    def y(self, value: float) -> float:
        """Give the place of a value."""
        return self.top + self.height * (1 - value / self.most)


def draw(harbour: Harbour, ideal: float) -> str:
    """Give the picture."""
    end = max(voyage.ended or 0.0 for voyage in harbour.voyages.values())
    seconds = 60.0 * (int(end / 60) + 1)
    done = Panel(44, 250, seconds, 100)
    workers = Panel(396, 110, seconds, 70)
    body = [
        _text(
            LEFT,
            24,
            "Lines that have their row, in % of each organization's; below, small batches from their create to their last row",
            size=14,
        ),
        *_axes(done, [0, 25, 50, 75, 100]),
        *_organizations(harbour, done),
        *_small(harbour, done),
        *_ideal(done, ideal, end),
        _text(LEFT, 380, "Workers that serve; each tick below is the loss of one", size=14),
        *_axes(workers, [0, 32, 64]),
        _line([(workers.x(s), workers.y(h)) for s, h in _corners(steps(harbour.log.serving), end)], INK),
        *(_tick(workers, second) for second, _ in harbour.log.lost if second < end),
        _text((LEFT + WIDTH - RIGHT) / 2, 546, "minutes", anchor="middle"),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" role="img">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def _organizations(harbour: Harbour, panel: Panel) -> Iterable[str]:
    voyages = by_org(harbour)
    for org, (level, anchor) in LABELS.items():
        total = sum(voyage.work.lines for voyage in voyages[org])
        heights = steps([(second, rows) for second, whose, rows in harbour.log.rows if whose == org])
        shown = [heights[0], *heights[:: max(1, len(heights) // POINTS)], heights[-1]]
        yield _line([(panel.x(second), panel.y(100 * rows / total)) for second, rows in shown], COLOURS[org])
        there = next(second for second, rows in heights if 100 * rows >= level * total)
        label = f"{org}: {total:,} lines, {voyages[org][0].work.window // HOUR} h"
        right = anchor == "start"  # and there below the curve, which rises to the right
        yield _text(
            panel.x(there) + (8 if right else -12),
            panel.y(level) + (16 if right else 4),
            label,
            COLOURS[org],
            anchor=anchor,
        )


def _small(harbour: Harbour, panel: Panel) -> Iterable[str]:
    """Each small batch is a bar from its create to its last row."""
    bars = by_org(harbour)["buoy"]
    for number, voyage in enumerate(bars):
        begin, end, y = panel.x(voyage.work.at), panel.x(voyage.ended or 0.0), 330 + 8 * (number % 2)
        yield f'<line x1="{begin:.1f}" y1="{y}" x2="{end:.1f}" y2="{y}" stroke="{COLOURS["buoy"]}" stroke-width="4"/>'
    label = f"buoy: {len(bars)} x {bars[0].work.lines} lines"
    yield _text(panel.x(panel.seconds) + 8, 338, label, COLOURS["buoy"])


def _ideal(panel: Panel, ideal: float, end: float) -> Iterable[str]:
    for second, name, height in ((ideal, "ideal", 92), (end, f"the end, {end / ideal:.2f} x", 80)):
        x = panel.x(second)
        yield f'<line x1="{x:.1f}" y1="{panel.top}" x2="{x:.1f}" y2="{panel.y(0)}" stroke="{INK}" stroke-dasharray="4 3"/>'
        yield _text(panel.x(end) + 8, panel.y(height), f"{name}: {second / 60:.1f} min")


def _axes(panel: Panel, values: Sequence[float]) -> Iterable[str]:
    right = panel.x(panel.seconds)
    for value in values:
        y = panel.y(value)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right:.1f}" y2="{y:.1f}" stroke="{PALE}"/>'
        yield _text(LEFT - 8, y + 4, f"{value:g}", anchor="end")
    for minute in range(0, int(panel.seconds / 60) + 1, 5):
        yield _text(panel.x(60 * minute), panel.y(0) + 18, f"{minute}", anchor="middle")


def _tick(panel: Panel, second: float) -> str:
    x = panel.x(second)
    return (
        f'<line x1="{x:.1f}" y1="{panel.y(0):.1f}" x2="{x:.1f}" y2="{panel.y(0) + 5:.1f}" stroke="{COLOURS["buoy"]}"/>'
    )


def _corners(heights: Sequence[tuple[float, int]], end: float) -> list[tuple[float, int]]:
    corners = [(0.0, 0)]
    for second, height in heights:
        if second < end:
            corners += [(second, corners[-1][1]), (second, height)]
    return [*corners, (end, corners[-1][1])]


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-linejoin="round"/>'


def _text(x: float, y: float, text: str, colour: str = INK, *, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}">{escape(text)}</text>'
    )
