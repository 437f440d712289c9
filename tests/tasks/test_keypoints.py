"""Points of a vector: layouts, units, and their place in the frame."""

import numpy as np
import pytest

from edgemeta.model.preprocess import Placement
from edgemeta.model.tasks import Keypoints, PointLayout, PointUnit
from edgemeta.tasks.keypoints import Keypoint, KeypointReader, points_in_frame
from edgemeta.tasks.results import Result, reader
from tests.tasks.models import vector_model

INTEGERS = np.array([10, -20, 30, 4, 50, 7], np.int8).reshape(1, 1, 6)


@pytest.mark.parametrize("unit", ["pixels", "fraction"])
@pytest.mark.parametrize("layout", ["xy", "xyz", "xys", "yxs"])
def test_numbers_are_read_in_their_layout_and_unit(layout: PointLayout, unit: PointUnit) -> None:
    names = ("left", "right", "nose")[: 6 // len(layout)]
    model = vector_model(Keypoints(names, layout, unit), 6, zero_point=4)
    size = 4.0 if unit == "fraction" else 1.0  # of the image, 4 x 4
    expected = []
    for place, name in enumerate(names):
        numbers = [0.1 * (int(q) - 4) for q in INTEGERS.ravel()[place * len(layout) :][: len(layout)]]
        of = dict(zip(layout, numbers, strict=True))
        score = min(max(of["s"], 0.0), 1.0) if "s" in of else None
        expected.append((name, of["x"] * size, of["y"] * size, score))
    found = reader(model)([INTEGERS])
    assert found == Result(points=KeypointReader(model).points(INTEGERS))
    assert [each.name for each in found.points] == list(names)
    for point, (_, x, y, score) in zip(found.points, expected, strict=True):
        assert (point.x, point.y) == pytest.approx((x, y))
        assert point.score == (None if score is None else pytest.approx(score))


def test_points_lie_in_the_frame_at_its_edge_if_they_are_outside() -> None:
    place = Placement(2.0, 4.0, -6.0, 0.0, 40, 30)
    points = (Keypoint("a", 10.0, 5.0, 0.5), Keypoint("b", 1.0, 50.0, None))
    assert points_in_frame(points, place) == (Keypoint("a", 14.0, 20.0, 0.5), Keypoint("b", 0.0, 40.0, None))
