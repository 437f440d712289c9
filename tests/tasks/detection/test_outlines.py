"""Outlines of masks, beside OpenCV's components and polygons."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.tasks.detection.outlines import MAX_CORNERS, TOLERANCE, outline


def area(corners: NDArray[np.float64]) -> float:
    x, y = corners.T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def disc(radius: float, at: tuple[float, float], shape: tuple[int, int] = (40, 50)) -> NDArray[np.float64]:
    """The distance of each cell's centre from a circle, positive inside."""
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    distances: NDArray[np.float64] = radius - np.hypot(x - at[0], y - at[1])
    return distances


def test_a_circle_lies_between_the_centres_of_cells() -> None:
    corners = outline(disc(15.3, (22, 19)))
    assert np.abs(np.hypot(*(corners - [22, 19]).T) - 15.3).max() < 0.03
    assert abs(area(corners) / (np.pi * 15.3**2) - 1) < 0.02


def test_the_largest_part_counts_without_its_holes() -> None:
    values = np.maximum(disc(4.2, (8, 8)), np.minimum(disc(12.6, (30, 22)), -disc(9.5, (30, 22))))
    assert values[22, 30] < 0
    corners = outline(values)
    assert np.abs(np.hypot(*(corners - [30, 22]).T) - 12.6).max() < 0.05


def test_nothing_above_0_has_no_outline_and_one_cell_has_a_square() -> None:
    assert outline(np.zeros((5, 4))).shape == (0, 2)
    assert outline(-disc(15, (22, 19))[12:20, 15:25]).shape == (0, 2)
    assert area(outline(np.array([[1.0]]))) == 2.0


@pytest.mark.parametrize("seed", range(20))
def test_cells_are_inside_if_they_are_of_the_largest_part(seed: int) -> None:
    """Of blurred noise: the part of OpenCV's components (sides only) that encloses most, its holes filled."""
    rng = np.random.default_rng(seed)
    values = cv2.GaussianBlur(rng.normal(size=(24, 31)), (0, 0), 1.5 + seed % 3)
    corners = outline(values)
    assert 3 <= len(corners) <= MAX_CORNERS
    allowed = 1e-3 + (TOLERANCE if len(corners) < MAX_CORNERS else 2 * TOLERANCE)
    _, parts = cv2.connectedComponents((values > 0).astype(np.uint8), connectivity=4)
    borders = {}
    for part in range(1, parts.max() + 1):
        found, _ = cv2.findContours((parts == part).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        borders[part] = max(cv2.contourArea(each) for each in found)
    best = max(borders, key=lambda part: borders[part])
    shape = (corners.astype(np.float32) - 0.5).reshape(-1, 1, 2)
    for y, x in np.ndindex(values.shape):
        depth = cv2.pointPolygonTest(shape, (x, y), True)
        if parts[y, x] == best:
            assert depth > -allowed
        elif depth > allowed:
            assert parts[y, x] == 0 or values[y, x] > 0  # a hole, or a part in it
            filled = np.zeros(values.shape, np.uint8)
            found, _ = cv2.findContours((parts == best).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
            cv2.drawContours(filled, found, -1, 1, cv2.FILLED)
            assert filled[y, x]


def test_noise_is_bounded() -> None:
    assert len(outline(np.random.default_rng(1).normal(size=(160, 160)))) == MAX_CORNERS
