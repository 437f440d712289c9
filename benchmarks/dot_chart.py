"""Dot charts: a row for each of what is compared, a dot for each of its measurements, a stroke at their mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from edgemeta.toolchain.drawing import COLOURS, GRID, INK, Axis, Shape, save_png

WIDTH = 760
_LEFT, _TOP, _RIGHT, _BOTTOM = 250, 40, 24, 50
_ROW = 20


@dataclass(frozen=True)
class DotChart:
    """rows: values by name, from top to bottom."""

    title: str
    x_label: str
    rows: Mapping[str, Sequence[float]]

    @property
    def height(self) -> int:
        """In pixels."""
        return _TOP + _ROW * len(self.rows) + _BOTTOM

    def save_png(self, path: Path) -> None:
        """Write a PNG, whole or not at all (needs Pillow)."""
        save_png(self.shapes(), WIDTH, self.height, path)

    def shapes(self) -> Iterator[Shape]:
        """What is drawn."""
        across = Axis.over([value for values in self.rows.values() for value in values], _LEFT + 8, WIDTH - _RIGHT)
        bottom = self.height - _BOTTOM
        yield Shape([(WIDTH / 2, _TOP / 2)], INK, self.title, "middle")
        yield Shape([((_LEFT + WIDTH) / 2, bottom + 36)], INK, self.x_label, "middle")
        for value in across.ticks():
            x = across.at(value)
            yield Shape([(x, _TOP), (x, bottom)], GRID)
            yield Shape([(x, bottom + 14)], INK, f"{value:g}", "middle")
        yield Shape([(_LEFT, _TOP), (_LEFT, bottom), (WIDTH - _RIGHT, bottom)], INK)
        for number, (name, values) in enumerate(self.rows.items()):
            y = _TOP + _ROW * (number + 0.5)
            middle = across.at(mean(values))
            yield Shape([(_LEFT - 8, y)], INK, name, "end")
            yield Shape([(middle, y - 7), (middle, y + 7)], INK, width=2)
            for value in values:
                yield Shape([(across.at(value), y)], COLOURS[0], width=3.5)
