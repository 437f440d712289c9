"""Line charts without a plotting package: as SVG for a page, and as a PNG. Both draw the same shapes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 760, 420
"""Size of a chart in pixels."""
_LEFT, _TOP, _RIGHT, _BOTTOM = 64, 40, 20, 70
_LEGEND, _CHARACTER = 16, 7
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31")
_INK, _GRID = "#333333", "#dddddd"
_TICKS = 6


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
        shapes = "".join(_as_svg(shape) for shape in self._shapes())
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'role="img" aria-label="{escape(self.title)}" font-family="sans-serif" font-size="12">'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>{shapes}</svg>'
        )

    def save_png(self, path: Path) -> None:
        """Write a PNG, whole or not at all (needs Pillow)."""
        from PIL import Image, ImageDraw, ImageFont

        scale = 2  # drawn at twice the size and made smaller: smooth lines
        image = Image.new("RGB", (WIDTH * scale, HEIGHT * scale), "white")
        draw, font = ImageDraw.Draw(image), ImageFont.load_default(12 * scale)
        for shape in self._shapes():
            places = [(x * scale, y * scale) for x, y in shape.points]
            if shape.text is not None:
                draw.text(places[0], shape.text, shape.colour, font, anchor=f"{_PIL_ANCHORS[shape.anchor]}m")
            elif len(places) == 1:
                (x, y), radius = places[0], shape.width * scale
                draw.ellipse((x - radius, y - radius, x + radius, y + radius), shape.colour)
            else:
                draw.line(places, shape.colour, round(shape.width * scale), joint="curve")
        part = path.with_name(path.name + ".part")
        image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS).save(part, "PNG")
        part.replace(path)

    def _shapes(self) -> Iterator["_Shape"]:
        points = [point for series in self.series for point in series.points] or [(0.0, 0.0)]
        across = _Axis.over([x for x, _ in points], _LEFT, WIDTH - _RIGHT)
        legend = _legend_rows(self.series) * _LEGEND
        up = _Axis.over(list(self.limits or [y for _, y in points]), HEIGHT - _BOTTOM - legend, _TOP)
        yield _Shape([(WIDTH / 2, _TOP / 2)], _INK, self.title, "middle")
        yield _Shape([(WIDTH / 2, up.start + 36)], _INK, self.x_label, "middle")
        yield _Shape([(8, _TOP - 14)], _INK, self.y_label, "start")
        for value in up.ticks():
            y = up.at(value)
            yield _Shape([(across.start, y), (across.end, y)], _GRID)
            yield _Shape([(across.start - 6, y)], _INK, f"{value:g}", "end")
        for value in across.ticks():
            yield _Shape([(across.at(value), up.start + 14)], _INK, f"{value:g}", "middle")
        yield _Shape([(across.start, up.end), (across.start, up.start), (across.end, up.start)], _INK)
        for number, series in enumerate(self.series):
            places = [(across.at(x), up.at(y)) for x, y in series.points if math.isfinite(y)]
            colour = _COLOURS[number % len(_COLOURS)]
            if places:
                yield _Shape(places, colour, width=2)
        yield from self._legend(up.start + 54)

    def _legend(self, y: float) -> Iterator["_Shape"]:
        for number, (series, (row, x)) in enumerate(zip(self.series, _legend_places(self.series), strict=True)):
            line = y + row * _LEGEND
            yield _Shape([(x, line), (x + 18, line)], _COLOURS[number % len(_COLOURS)], width=3)
            yield _Shape([(x + 24, line)], _INK, series.name, "start")


@dataclass(frozen=True)
class _Shape:
    """A line through points, a dot (one point), or a text at a point."""

    points: list[tuple[float, float]]
    colour: str
    text: str | None = None
    anchor: str = "start"
    width: float = 1


_PIL_ANCHORS = {"start": "l", "middle": "m", "end": "r"}


@dataclass(frozen=True)
class _Axis:
    """Values low to high on pixels start to end; whole: only integers are marked."""

    low: float
    high: float
    start: float
    end: float
    whole: bool = False

    @staticmethod
    def over(values: list[float], start: float, end: float) -> "_Axis":
        """The axis for all finite values, a little longer where they are all the same."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        whole = all(value == round(value) for value in finite)
        return _Axis(low, high if high > low else low + 1, start, end, whole)

    def at(self, value: float) -> float:
        """The pixel of a value; of one beyond the ends, the end's."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Round values, about _TICKS of them."""
        rough = (self.high - self.low) / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
        step = max(step, 1.0) if self.whole else step
        first = math.ceil(self.low / step - 1e-9)
        return [round(n * step, 10) for n in range(first, math.floor(self.high / step + 1e-9) + 1)]


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


def _as_svg(shape: _Shape) -> str:
    x, y = shape.points[0]
    if shape.text is not None:
        text = escape(shape.text)
        return f'<text x="{x}" y="{y}" dy="0.35em" fill="{shape.colour}" text-anchor="{shape.anchor}">{text}</text>'
    if len(shape.points) == 1:
        return f'<circle cx="{x}" cy="{y}" r="{shape.width}" fill="{shape.colour}"/>'
    points = " ".join(f"{x},{y}" for x, y in shape.points)
    return f'<polyline points="{points}" fill="none" stroke="{shape.colour}" stroke-width="{shape.width}"/>'
