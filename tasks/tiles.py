"""A region of a frame cut into overlapping tiles, so that small objects are seen large, and their results merged."""

from collections.abc import Iterable, Sequence

import numpy as np

from edgemeta.model.preprocess import Placement, Rectangle
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.detection.suppress import areas, intersections
from edgemeta.tasks.keypoints import Keypoint

MAX_OVERLAP = 0.9
"""Greatest share of a tile's side that it has in common with the next one."""


def cut(region: Rectangle, rows: int, columns: int, overlap: float = 0.2) -> tuple[Rectangle, ...]:
    """Rows x columns tiles of one size that cover a region, row by row.

    overlap: share 0 .. MAX_OVERLAP of a tile's side that is also in its neighbour, rounded up to a pixel. Raises
    ValueError for other numbers, and for more tiles than pixels.
    """
    if not (1 <= rows <= region.height and 1 <= columns <= region.width):
        raise ValueError(f"{rows} x {columns} tiles of a region of {region.height} x {region.width} pixels")
    if not 0 <= overlap <= MAX_OVERLAP:
        raise ValueError(f"tiles overlap by {overlap}, expected 0 .. {MAX_OVERLAP}")
    vertical, height = _spread(region.height, rows, overlap)
    horizontal, width = _spread(region.width, columns, overlap)
    return tuple(Rectangle(region.top + y, region.left + x, height, width) for y in vertical for x in horizontal)


def _spread(length: int, count: int, overlap: float) -> tuple[list[int], int]:
    """Where `count` tiles begin, and their side: the first one at 0, the last one ends at `length`."""
    side = min(length, int(np.ceil(length / (count - (count - 1) * overlap) - 1e-9)))
    free = length - side
    return [free * i // max(1, count - 1) for i in range(count)], side


def in_frame(objects: Iterable[Object], placement: Placement, tile: Rectangle | None = None) -> tuple[Object, ...]:
    """Objects in pixels of the frame, clipped to it; those whose box has no area in it are left out.

    placement: where the input lies in the frame, or in the tile, which then lies in the frame.
    """
    left, top = (tile.left, tile.top) if tile else (0, 0)

    def moved(x: float, y: float) -> tuple[float, float]:
        across, down, _, _ = placement.to_frame((x, y, x, y))
        return across + left, down + top

    found = []
    for each in objects:
        x0, y0, x1, y1 = *moved(*each.box[:2]), *moved(*each.box[2:])
        if x0 < x1 and y0 < y1:
            points = tuple(Keypoint(name, *moved(x, y), score) for name, x, y, score in each.keypoints)
            corners = tuple(moved(x, y) for x, y in each.outline)
            found.append(Object(each.label, each.score, (x0, y0, x1, y1), points, corners))
    return tuple(found)


def merge(
    tiles: Sequence[Sequence[Object]],
    overlap_threshold: float = 0.5,
    max_objects: int = 100,
    label_overlap: float | None = None,
) -> tuple[Object, ...]:
    """Objects of several tiles, in pixels of the frame, each once: the greatest score first, then by tile and order.

    An object is left out if a better one of its label, of another tile, shares more than overlap_threshold of the
    smaller of both boxes: a seam cuts objects, so that the parts of one differ in size. So is one whose intersection
    over union with a better one of another label and tile exceeds label_overlap. Objects of one tile never exclude each
    other, as the detector has compared them.
    """
    every = [(each, number) for number, objects in enumerate(tiles) for each in objects]
    every.sort(key=lambda item: -item[0].score)  # stable
    if not every:
        return ()
    boxes = np.array([each.box for each, _ in every], np.float64)
    area = areas(boxes)
    kept: list[int] = []
    for i, (candidate, tile) in enumerate(every):
        rivals = [j for j in kept if every[j][1] != tile]
        if rivals:
            shared = intersections(boxes[i : i + 1], boxes[rivals])[0]
            same = np.array([every[j][0].label == candidate.label for j in rivals])
            excluded = same & (shared > overlap_threshold * np.minimum(area[i], area[rivals]))
            if label_overlap is not None:
                excluded |= ~same & (shared > label_overlap * (area[i] + area[rivals] - shared))
            if excluded.any():
                continue
        kept.append(i)
        if len(kept) == max_objects:
            break
    return tuple(every[i][0] for i in kept)


def best_labels(tiles: Iterable[Iterable[tuple[str, float]]]) -> tuple[tuple[str, float], ...]:
    """Labels of several tiles, each with its greatest score: the greatest first, then in the order of appearance."""
    best: dict[str, float] = {}
    for labels in tiles:
        for label, score in labels:
            best[label] = max(score, best.get(label, score))
    return tuple(sorted(best.items(), key=lambda item: -item[1]))
