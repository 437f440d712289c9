"""Where an object has been and whether it stands still. Integers only."""

Point = tuple[int, int]

LONGEST_PATH = 32
"""Most points of a path."""


class Path:
    """Points at equal numbers of frames, at most LONGEST_PATH: where there are more, every second one is left out."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._every, self._frames = 1, 0
        self._newest: Point | None = None

    def add(self, point: Point) -> None:
        """Add where the object is in the next frame that shows it."""
        if self._frames % self._every == 0:
            self._points.append(point)
            if len(self._points) == LONGEST_PATH:
                self._points, self._every = self._points[::2], 2 * self._every
        self._frames += 1
        self._newest = point

    @property
    def points(self) -> list[Point]:
        """The path from the first point to the newest."""
        newest = [] if self._newest is None or self._newest == self._points[-1] else [self._newest]
        return self._points + newest


class Standstill:
    """Whether an object stands still: it has not gone farther than `reach` from one point for a time."""

    def __init__(self) -> None:
        self._anchor: Point | None = None
        self._since_ns = 0
        self._told = False

    def move(self, point: Point, reach: int, after_ns: int, time_ns: int) -> bool:
        """Whether the object has just come to stand still, by being at this point. True once until it moves again."""
        anchor = self._anchor
        if anchor is None or (point[0] - anchor[0]) ** 2 + (point[1] - anchor[1]) ** 2 > reach * reach:
            self._anchor, self._since_ns, self._told = point, time_ns, False
        if self._told or time_ns - self._since_ns < after_ns:
            return False
        self._told = True
        return True
