"""What a box shows, as a square."""

import numpy as np
import pytest

from edgemeta.tasks.detection.crop import CROP_SIDE, object_crop


@pytest.mark.parametrize("scale", [1, 7])
def test_it_is_what_the_box_shows(scale: int) -> None:
    picture = np.zeros((60 * scale, 90 * scale, 3), np.uint8)
    picture[20 * scale : 40 * scale, 30 * scale : 60 * scale] = (10, 20, 30)
    crop = object_crop(picture, [30.0 * scale, 20.0 * scale, 60.0 * scale, 40.0 * scale])
    assert (crop.shape, crop.dtype) == ((CROP_SIDE, CROP_SIDE, 3), np.uint8)
    assert (crop == (10, 20, 30)).all()


def test_edges_are_rounded_outward_and_end_at_the_picture() -> None:
    picture = np.arange(12, dtype=np.uint8).reshape(3, 4)
    assert (object_crop(picture, [1.4, 1.2, 1.6, 1.9]) == picture[1, 1]).all()
    assert (object_crop(picture, [5.0, -2.0, 9.0, 0.0]) == picture[0, 3]).all()
    np.testing.assert_array_equal(object_crop(picture, [-1, -1, 9, 9]), object_crop(picture, [0, 0, 4, 3]))
