"""What charts are drawn with, without a plotting package: shapes and axes, as SVG for a page, and as a PNG."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31")
INK, GRID = "#333333", "#dddddd"
_TICKS = 6
_PIL_ANCHORS = {"start": "l", "middle": "m", "end": "r"}


@dataclass(frozen=True)
class Shape:
    """A line through points, a dot (one point), or a text at a point; in pixels."""

    points: list[tuple[float, float]]
    colour: str
    text: str | None = None
    anchor: str = "start"
    width: float = 1

    def svg(self) -> str:
        """Its element."""
        x, y = self.points[0]
        if self.text is not None:
            text = escape(self.text)
            return f'<text x="{x}" y="{y}" dy="0.35em" fill="{self.colour}" text-anchor="{self.anchor}">{text}</text>'
        if len(self.points) == 1:
            return f'<circle cx="{x}" cy="{y}" r="{self.width}" fill="{self.colour}"/>'
        points = " ".join(f"{x},{y}" for x, y in self.points)
        return f'<polyline points="{points}" fill="none" stroke="{self.colour}" stroke-width="{self.width}"/>'


def svg(shapes: Iterable[Shape], title: str, width: int, height: int) -> str:
    """An `<svg>` element of so many pixels."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="12">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(shape.svg() for shape in shapes)}</svg>'
    )


def save_png(shapes: Iterable[Shape], width: int, height: int, path: Path) -> None:
    """Write a PNG of so many pixels, whole or not at all (needs Pillow)."""
    from PIL import Image, ImageDraw, ImageFont

    scale = 2  # drawn at twice the size and made smaller: smooth lines
    image = Image.new("RGB", (width * scale, height * scale), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(12 * scale)
    for shape in shapes:
        places = [(x * scale, y * scale) for x, y in shape.points]
        if shape.text is not None:
            draw.text(places[0], shape.text, shape.colour, font, anchor=f"{_PIL_ANCHORS[shape.anchor]}m")
        elif len(places) == 1:
            (x, y), radius = places[0], shape.width * scale
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), shape.colour)
        else:
            draw.line(places, shape.colour, round(shape.width * scale), joint="curve")
    part = path.with_name(path.name + ".part")
    image.resize((width, height), Image.Resampling.LANCZOS).save(part, "PNG")
    part.replace(path)


@dataclass(frozen=True)
class Axis:
    """Values low to high on pixels start to end; whole: only integers are marked."""

    low: float
    high: float
    start: float
    end: float
    whole: bool = False

    @staticmethod
    def over(values: list[float], start: float, end: float) -> "Axis":
        """The axis for all finite values, a little longer where they are all the same."""
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        whole = all(value == round(value) for value in finite)
        return Axis(low, high if high > low else low + 1, start, end, whole)

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
