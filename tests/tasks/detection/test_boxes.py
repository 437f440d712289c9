"""Boxes of numbers beyond the limits of exponents: finite, and as large as at the limit."""

import numpy as np
import pytest

from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.tasks.detection.boxes import cells_of, decode


@pytest.mark.parametrize(("decoding", "share"), [("yolox", 1.0), ("yolov3", 1.0), ("ssd", 0.2)])
def test_exponents_of_sizes_end_at_20(decoding: str, share: float) -> None:
    level = DetectionLevel("boxes", "classes", anchors=((3.0, 5.0),), stride=(3.0, 5.0))
    task = Detection(("a",), decoding, (level,))  # type: ignore[arg-type]
    cells = cells_of(level, (1, 1), (8, 8))
    for exponent in (19.0, 20.0, 20.5, 700.0 * share):
        numbers = np.array([[0.0, 0.0, exponent / share, exponent / share]])
        x0, y0, x1, y1 = decode(task, numbers, cells)[0]
        side = np.exp(min(exponent, 20.0))
        assert (x1 - x0, y1 - y0) == pytest.approx((3 * side, 5 * side), rel=1e-12)
