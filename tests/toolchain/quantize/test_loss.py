"""One line of what was lost."""

import pytest

from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.quantize.events import Agreement
from edgemeta.toolchain.quantize.loss import loss_of
from edgemeta.toolchain.quantize.measure import Agreed, BoxesMeasured, Measured
from edgemeta.toolchain.quantize.scheme import Tested


def boxes(floating: float, integer: float) -> BoxesMeasured:
    return BoxesMeasured(50, "", Precision(0.9, floating, (), 50), Precision(0.9, integer, (), 50))


def agreed(label: float | None = None, objects: float | None = None, points: float | None = None) -> Agreed:
    return Agreed(1200, Agreement("", 0.012, (0.012,), label, objects, points))


@pytest.mark.parametrize(
    ("tested", "points", "text", "too_much"),
    [
        (Measured(400, "", 0.8617, 0.8612, 0.1, 0.1), 0.05, "0.05 points of top-1 on 400 test images: 86.12 %", False),
        (Measured(400, "", 0.90, 0.93, 0.1, 0.1), -3.0, "lost -3.00 points of top-1 on 400 test images", False),
        (boxes(0.421, 0.217), 20.4, "mean average precision on 50 test images: 21.70 %, in float 42.10 %", True),
        (boxes(0.421, 0.402), 1.9, "lost 1.90 points of mean average precision", False),
        (agreed(label=0.97), 3.0, "another label than in float on 3.00 % of 1,200 test pictures without labels", True),
        (agreed(objects=0.93), 7.0, "7.0 % of the objects at all scores from 0.05 on, on 1,200 test pictures", False),
        (agreed(objects=0.7), 30.0, "differs from float in 30.0 % of the objects", True),
        (
            agreed(objects=0.9, points=0.0123),
            10.0,
            "without labels; points are off by 1.2 % of a box's",
            False,
        ),
        (agreed(), None, "relative error of the outputs 1.20e-02 on 1,200 test pictures without labels", False),
    ],
)
def test_points_words_and_warning(tested: Tested, points: float | None, text: str, too_much: bool) -> None:
    loss = loss_of(tested)
    assert loss.points == (None if points is None else pytest.approx(points))
    assert text in loss.text
    assert loss.too_much == too_much
