"""By how much pictures are made smaller: never below what the model's input, a region or tiles need."""

from dataclasses import replace
from typing import Any

import pytest

from edgemeta.daemon.capture.reduction import WHOLE, Reduction, reduction_of
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.model.file import load
from edgemeta.model.layers import TensorType
from edgemeta.model.zoo import find

DETECTOR = replace(load(find("people-vehicles-animals")), input=TensorType((416, 416, 3), signed=False))


def camera(**keys: Any) -> CameraConfig:
    """A network camera with some keys."""
    return CameraConfig.model_validate({"source": "rtsp://camera", **keys})


@pytest.mark.parametrize(
    ("keys", "size", "divisor"),
    [
        ({"reduce": 1}, (3840, 2160), 1),
        ({"reduce": 4}, (640, 480), 4),
        ({"reduce": 8}, (7, 480), 4),  # nothing is left of 7 columns
        ({"reduce": "auto"}, (1920, 1080), 4),  # 480 x 270, of which the letterbox takes 416 x 234
        ({"reduce": "auto"}, (3840, 2160), 8),
        ({"reduce": "auto"}, (1080, 1920), 4),
        ({"reduce": "auto"}, (800, 600), 1),
        ({"reduce": "auto", "rotation": 90}, (1920, 1080), 4),
        ({"reduce": "auto", "region": {"width": 0.5, "height": 0.5}}, (3840, 2160), 4),
        ({"reduce": "auto", "tiles": {"columns": 2, "overlap": 0.0}}, (3840, 2160), 4),
        ({"reduce": "auto", "circle": {}}, (3840, 2160), 1),
    ],
)
def test_what_is_left_is_what_the_letterbox_needs(keys: dict[str, Any], size: tuple[int, int], divisor: int) -> None:
    assert DETECTOR.preprocessing.crop == "letterbox"
    assert reduction_of(camera(**keys), DETECTOR).divisor(*size) == divisor


def test_a_small_input_leaves_what_a_frozen_picture_is_known_by() -> None:
    reduction = reduction_of(camera(reduce="auto"), load(find("resnet8-cifar10")))
    assert [reduction.divisor(*size) for size in ((640, 480), (1920, 1080), (3840, 2160))] == [2, 4, 8]


def test_auto_without_a_model_is_the_whole_picture() -> None:
    assert reduction_of(camera(reduce="auto"), None) == WHOLE


def test_both_sides_must_suffice_unless_one_does() -> None:
    needs = {"most": 8, "width": 400.0, "height": 400.0}
    assert Reduction(**needs).divisor(1920, 1080) == 2
    assert Reduction(**needs, either=True).divisor(1920, 1080) == 4
