"""Line charts: as SVG for a page, and as a PNG."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgemeta.toolchain.drawing import COLOURS, GRID, INK, Axis, Shape, save_png, svg

WIDTH, HEIGHT = 760, 420
"""Size of a chart in pixels."""
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 40, 20, 70
_LEGEND, _CHARACTER = 16, 7
_MARKED = 8
"""A line through so few points shows which were measured."""


@dataclass(frozen=True)
class Series:
    """A named line through points (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class LineChart:
    """Lines over one pair of axes. limits: least and greatest y; None: those of the points."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    limits: tuple[float, float] | None = None

    def svg(self) -> str:
        """An `<svg>` element."""
        return svg(self._shapes(), self.title, WIDTH, HEIGHT)

    def save_png(self, path: Path) -> None:
        """Write a PNG, whole or not at all (needs Pillow)."""
        save_png(self._shapes(), WIDTH, HEIGHT, path)

    def _shapes(self) -> Iterator[Shape]:
        points = [point for series in self.series for point in series.points] or [(0.0, 0.0)]
        across = Axis.over([x for x, _ in points], _LEFT, WIDTH - _RIGHT)
        legend = _legend_rows(self.series) * _LEGEND
        up = Axis.over(list(self.limits or [y for _, y in points]), HEIGHT - _BOTTOM - legend, _TOP)
        yield Shape([(WIDTH / 2, _TOP / 2)], INK, self.title, "middle")
        yield Shape([(WIDTH / 2, up.start + 36)], INK, self.x_label, "middle")
        yield Shape([(8, _TOP - 14)], INK, self.y_label, "start")
        for value in up.ticks():
            y = up.at(value)
            yield Shape([(across.start, y), (across.end, y)], GRID)
            yield Shape([(across.start - 6, y)], INK, f"{value:g}", "end")
        for value in across.ticks():
            yield Shape([(across.at(value), up.start + 14)], INK, f"{value:g}", "middle")
        yield Shape([(across.start, up.end), (across.start, up.start), (across.end, up.start)], INK)
        for number, series in enumerate(self.series):
            places = [(across.at(x), up.at(y)) for x, y in series.points if math.isfinite(y)]
            colour = COLOURS[number % len(COLOURS)]
            if places:
                yield Shape(places, colour, width=2)
            if len(places) <= _MARKED:
                yield from (Shape([place], colour, width=3) for place in places)
        yield from self._legend(up.start + 54)

    def _legend(self, y: float) -> Iterator[Shape]:
        for number, (series, (row, x)) in enumerate(zip(self.series, _legend_places(self.series), strict=True)):
            line = y + row * _LEGEND
            yield Shape([(x, line), (x + 18, line)], COLOURS[number % len(COLOURS)], width=3)
            yield Shape([(x + 24, line)], INK, series.name, "start")


def _legend_places(series: Sequence[Series]) -> list[tuple[int, float]]:
    """Row and x of each name."""
    places: list[tuple[int, float]] = []
    row, x = 0, float(_LEFT)
    for each in series:
        width = 40 + _CHARACTER * len(each.name)
        if x > _LEFT and x + width > WIDTH - _RIGHT:
            row, x = row + 1, float(_LEFT)
        places.append((row, x))
        x += width
    return places


def _legend_rows(series: Sequence[Series]) -> int:
    return _legend_places(series)[-1][0] if series else 0
