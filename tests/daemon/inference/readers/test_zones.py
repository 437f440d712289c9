"""Points inside and outside of polygons, against OpenCV."""

import cv2
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.daemon.config.objects import ZoneConfig
from edgemeta.daemon.inference.readers.by_task import is_inside, zones_of

SHARES = st.integers(0, 100).map(lambda number: number / 100)
POINTS = st.tuples(st.integers(1, 199).filter(lambda number: number % 2), st.integers(1, 199).filter(lambda n: n % 2))


@settings(max_examples=300, deadline=None)
@given(corners=st.lists(st.tuples(SHARES, SHARES), min_size=3, max_size=3, unique=True), point=POINTS)
def test_triangles_agree_with_opencv(corners: list[tuple[float, float]], point: tuple[int, int]) -> None:
    """Points lie between the corners' hundredths, so that none is at a corner; those on a side are left out."""
    at = point[0] / 200, point[1] / 200
    polygon = np.array([[round(200 * x), round(200 * y)] for x, y in corners], np.float32)
    where = cv2.pointPolygonTest(polygon, (float(point[0]), float(point[1])), False)
    if where != 0:
        assert is_inside(at, [list(corner) for corner in corners]) == (where > 0)


def test_a_concave_polygon_has_a_notch() -> None:
    notched = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.5, 0.2], [0.0, 1.0]]
    assert is_inside((0.1, 0.5), notched)
    assert not is_inside((0.5, 0.5), notched)
    assert is_inside((0.9, 0.5), notched)


def test_a_whole_picture_holds_its_edges() -> None:
    whole = ZoneConfig(polygon=[[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    for point in ((0.5, 1.0), (0.5, 0.0), (0.0, 0.5), (0.999, 0.999)):
        assert zones_of("person", point, {"all": whole}) == ["all"]


def test_zones_share_a_border_without_a_gap_or_an_overlap() -> None:
    left = ZoneConfig(polygon=[[0.0, 0.0], [0.3, 0.0], [0.6, 1.0], [0.0, 1.0]])
    right = ZoneConfig(polygon=[[0.3, 0.0], [1.0, 0.0], [1.0, 1.0], [0.6, 1.0]])
    for x in np.linspace(0.001, 0.999, 57):
        for y in np.linspace(0.0, 1.0, 23):
            assert len(zones_of("person", (float(x), float(y)), {"left": left, "right": right})) == 1
