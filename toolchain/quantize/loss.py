"""What an integer network lost, on what images: one line of the report."""

from dataclasses import dataclass

from edgemeta.toolchain.quantize.events import Agreement
from edgemeta.toolchain.quantize.measure import Agreed, Measured
from edgemeta.toolchain.quantize.scheme import Tested

MOST_POINTS = 2.0
"""Points of top-1, of equal labels or of mean average precision whose loss is warned of."""
MOST_OBJECTS = 20.0
"""Percent of the objects at all scores; scores that move a little cost some of them, but no average precision."""


@dataclass(frozen=True)
class Loss:
    """points: percent of what `text` says, None for outputs that are only numbers. too_much: is to be warned of."""

    points: float | None
    text: str
    too_much: bool


def loss_of(tested: Tested) -> Loss:
    """What was lost on test images."""
    if isinstance(tested, Agreed):
        return loss_of_agreement(tested.agreement, f"{tested.images:,} test pictures without labels")
    if isinstance(tested, Measured):
        name, floating, integer = "top-1", tested.float_accuracy, tested.accuracy
    else:
        name, floating, integer = "mean average precision", tested.floating.mean, tested.integer.mean
    points, beside = 100 * (floating - integer), f"{100 * integer:.2f} %, in float {100 * floating:.2f} %"
    text = f"lost {points:.2f} points of {name} on {tested.images:,} test images: {beside}"
    return Loss(points, text, points > MOST_POINTS)


def loss_of_agreement(agreement: Agreement, images: str) -> Loss:
    """What differs from the float network on images without labels."""
    if agreement.same_objects is not None:
        points = 100 * (1 - agreement.same_objects)
        text = f"differs from float in {points:.1f} % of the objects at all scores from 0.05 on, on {images}"
        if agreement.points_off is not None:
            text += f"; points are off by {100 * agreement.points_off:.1f} % of a box's side"
        return Loss(points, text, points > MOST_OBJECTS)
    if agreement.same_label is not None:
        points = 100 * (1 - agreement.same_label)
        return Loss(points, f"another label than in float on {points:.2f} % of {images}", points > MOST_POINTS)
    return Loss(None, f"relative error of the outputs {agreement.error:.2e} on {images}", False)
