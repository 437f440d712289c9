"""The detector of coloured squares finds what was drawn."""

import pytest

from edgemeta.model.reference import run
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.detection.objects import Detector
from rig.square_detector import SIDE, square_detector, squares_picture


@pytest.mark.parametrize("side", [SIDE, 2 * SIDE, 80])
def test_it_finds_every_square_and_nothing_else(side: int) -> None:
    squares = {(0, 0): "red", (7, 5): "blue", (3, 2): "green", (4, 2): "green"}
    model = square_detector(("red", "green", "blue", "nothing"))
    picture = squares_picture(squares, side)
    outputs = run(model, make_preprocessor(model, picture.shape)(picture))
    found = Detector(model).objects(tuple(output[0] for output in outputs))
    cells = {(round(each.box[0] / SIDE), round(each.box[1] / SIDE)): each.label for each in found}
    assert cells == squares
    for each in found:
        assert each.score > 0.99
        assert each.box[2] - each.box[0] == each.box[3] - each.box[1] == SIDE
