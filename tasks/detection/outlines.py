"""The outline of a mask as a polygon: where the numbers of a grid of cells change their sign, between its centres."""

import numpy as np
from numpy.typing import NDArray

from edgemeta.tasks.numbers import Float64

MAX_CORNERS = 64
"""Most corners of an outline."""
TOLERANCE = 0.2
"""In cells: corners are left out while the polygon stays so near to all of them."""
_ALONG = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]])
"""Steps (row, column) along the upper, right, lower and left side of a cell that has the cell on the right."""
_OUTWARD = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])


def outline(values: Float64) -> Float64:
    """The outline [n, 2], x before y, of the largest part of where values [h, w] are above 0; n <= MAX_CORNERS.

    In cells: the centre of the first one is (0.5, 0.5). Cells are of one part if they share a side. Corners lie on the
    lines between the centres of neighbours where the value, taken as linear between them, is 0; beside the grid it is
    0. They go around the part clockwise, as seen with y from top to bottom; holes are no part of the outline. n = 0 if
    no value is above 0.
    """
    padded = np.pad(values, 1)
    inside = padded > 0
    width = padded.shape[1]
    along, outward = (steps @ np.array([width, 1]) for steps in (_ALONG, _OUTWARD))
    flat, numbers = inside.ravel(), padded.ravel()
    cells = np.flatnonzero(flat)
    sides = [np.stack([beside := cells[~flat[cells + outward[d]]], np.full(len(beside), d)]) for d in range(4)]
    cell, side = np.concatenate(sides, axis=1)
    if not len(cell):
        return np.empty((0, 2))
    place = np.empty(4 * len(flat), np.int64)
    place[4 * cell + side] = np.arange(len(cell))
    following = place[_following(flat, cell, side, along, outward)]
    share = numbers[cell] / (numbers[cell] - numbers[cell + outward[side]])
    rows, columns = np.divmod(cell, width)
    corners = np.stack([columns, rows], axis=1) - 0.5 + share[:, np.newaxis] * _OUTWARD[side][:, ::-1]
    return _simplified(corners[_longest(corners, following)])


def _following(
    flat: NDArray[np.bool_],
    cell: NDArray[np.int64],
    side: NDArray[np.int64],
    along: NDArray[np.int64],
    outward: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Four times the cell plus the side that comes after each side [n] on the border."""
    ahead = cell + along[side]
    across = ahead + outward[side]
    turns_right, goes_on = ~flat[ahead], flat[ahead] & ~flat[across]
    return np.where(
        turns_right,
        4 * cell + (side + 1) % 4,
        np.where(goes_on, 4 * ahead + side, 4 * across + (side - 1) % 4),
    )


def _longest(corners: Float64, following: NDArray[np.int64]) -> list[int]:
    """The corners, in their order, of the border that encloses the greatest area.

    Half of the sum of x0 y1 - x1 y0 is the area, negative for a hole.
    """
    first, jump = np.arange(len(following)), following  # the least corner of the next 1, 2, 4 ... corners
    while (first[jump] < first).any():
        first, jump = np.minimum(first, first[jump]), jump[jump]
    after = corners[following]
    doubled = corners[:, 0] * after[:, 1] - after[:, 0] * corners[:, 1]
    at = start = int(np.bincount(first, doubled).argmax())
    steps, found = following.tolist(), []
    while True:
        found.append(at)
        at = steps[at]
        if at == start:
            return found


def _simplified(corners: Float64) -> Float64:
    """The corners that a polygon needs: the farthest from its sides first (Douglas and Peucker 1973)."""
    count = len(corners)
    closed = np.append(corners, corners[:1], axis=0) @ np.array([1, 1j])
    opposite = int(np.abs(closed - closed[0]).argmax())
    kept = [0, opposite, count]
    one, other = _farthest(closed, 0, opposite), _farthest(closed, opposite, count)
    distances, places = [one[0], other[0]], [one[1], other[1]]
    while len(kept) - 1 < min(count, MAX_CORNERS):
        worst = distances.index(max(distances))
        if distances[worst] <= TOLERANCE and len(kept) > 3:
            break
        kept.insert(worst + 1, places[worst])
        halves = [_farthest(closed, *kept[i : i + 2]) for i in (worst, worst + 1)]
        distances[worst : worst + 1], places[worst : worst + 1] = zip(*halves, strict=True)
    return corners[kept[:-1]]


def _farthest(closed: NDArray[np.complex128], first: int, last: int) -> tuple[float, int]:
    """The corner x + iy between two others that is farthest from the side between them; its distance, -1 without any.

    Of a corner c and a side s, both from the first one, the nearest point is s times Re(c conj(s)) / |s|**2, in 0 .. 1.
    """
    between, side = closed[first + 1 : last] - closed[first], closed[last] - closed[first]
    if not len(between):
        return -1.0, first
    along = (between * np.conj(side)).real / max(abs(side) ** 2, 1e-12)
    distances = np.abs(between - side * np.minimum(np.maximum(along, 0.0), 1.0))
    best = int(distances.argmax())
    return float(distances[best]), first + 1 + best
