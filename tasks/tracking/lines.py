"""Which side of a line an object is on, and when it has crossed it. Integers only."""

from dataclasses import dataclass
from typing import Literal

Point = tuple[int, int]
Side = Literal["left", "right"]


@dataclass(frozen=True)
class Line:
    """A line from `first` to `second`. Left and right are those of somebody who walks along it; y points down."""

    first: Point
    second: Point

    def side(self, point: Point, margin: int) -> Side | None:
        """The side of a point; None where it is nearer to the endless line than `margin`."""
        (x0, y0), (x1, y1) = self.first, self.second
        product = _product(self.first, self.second, point)
        if product * product <= margin * margin * ((x1 - x0) ** 2 + (y1 - y0) ** 2):
            return None
        return "right" if product > 0 else "left"

    def meets(self, start: Point, end: Point) -> bool:
        """Whether the way from start to end, which lie on both sides of the endless line, meets the line itself."""
        first, second = _product(start, end, self.first), _product(start, end, self.second)
        return first == 0 or second == 0 or (first > 0) != (second > 0)


def _product(a: Point, b: Point, c: Point) -> int:
    """Twice the area of the triangle a, b, c: above 0 where c is to the right of a to b."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


class Crossings:
    """The crossings of one line by one object. An object on the line that trembles does not cross it again and again.

    It has crossed once it is at least a margin away on the other side, if the way from where it was last that far away
    on this side meets the line.
    """

    def __init__(self) -> None:
        self._last: tuple[Point, Side] | None = None

    def move(self, line: Line, point: Point, margin: int) -> Side | None:
        """The side to which the object has crossed by going to this point, or None."""
        side = line.side(point, margin)
        if side is None:
            return None
        before, self._last = self._last, (point, side)
        return side if before is not None and before[1] != side and line.meets(before[0], point) else None
