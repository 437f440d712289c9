"""Boxes in a picture, and the picture of an object."""

import numpy as np
import pytest

from edgemeta.daemon.messages.records import Box
from edgemeta.daemon.pictures.drawing import BORDER, COLOUR, crop_of, with_boxes

PICTURE = np.random.default_rng(0).integers(0, 40, (96, 128, 3)).astype(np.uint8)


def found(*box: float, label: str = "cat") -> dict[str, object]:
    return {"label": label, "score": 0.5, "box_relative": box}


def test_a_box_is_drawn_on_its_edge_and_not_in_the_picture_itself() -> None:
    before = PICTURE.copy()
    drawn = with_boxes(PICTURE, [found(0.25, 0.25, 0.75, 0.75, label="Mäuse\n")])
    np.testing.assert_array_equal(PICTURE, before)
    for row, column in ((24, 64), (71, 64), (48, 32), (48, 95)):
        assert tuple(drawn[row, column]) == COLOUR
    np.testing.assert_array_equal(drawn[80:], PICTURE[80:])


def test_an_object_s_picture_is_its_box_with_a_border() -> None:
    border = round(BORDER * 64)
    np.testing.assert_array_equal(
        crop_of(PICTURE, (32, 24, 96, 72), PICTURE.shape), PICTURE[24 - border : 72 + border, 32 - border : 96 + border]
    )


@pytest.mark.parametrize("box", [(0, 0, 0, 0), (128, 96, 128, 96), (0, 0, 128, 96), (127.9, 0, 128, 0.1)])
def test_any_box_has_a_picture_and_can_be_drawn(box: Box) -> None:
    assert crop_of(PICTURE, box, PICTURE.shape).size > 0
    x0, y0, x1, y1 = box
    assert with_boxes(PICTURE[:1, :1], [found(x0 / 128, y0 / 96, x1 / 128, y1 / 96)]).shape == (1, 1, 3)


def test_a_box_of_another_size_of_the_same_view_is_scaled() -> None:
    small = PICTURE[::2, ::4]
    same = crop_of(PICTURE, (32, 24, 96, 72), PICTURE.shape)
    np.testing.assert_array_equal(crop_of(PICTURE, (8, 12, 24, 36), small.shape), same)
