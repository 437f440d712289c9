"""Designs: limits, names, what a user wishes."""

import pytest

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.designs import MOBILENET, RESNET, VGG, Design, Wishes


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"family": "lenet"}, "network is 'lenet', expected one of resnet, mobilenetv2, vgg16, alexnet"),
        ({"size": 23}, "size is 23, expected 24 to 224 pixels"),
        ({"size": 225}, "size is 225"),
        ({"depth": 9}, "depth is 9, expected one of 8, 14, 20"),
        ({"width": 0.1}, "width is 0.1, expected 0.125 to 8"),
        ({"width": float("nan")}, "width is nan"),
        ({"classes": 1}, "there are 1 classes, expected at least 2"),
    ],
)
def test_wrong_designs(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        Design(**wrong)  # type: ignore[arg-type]


def test_names() -> None:
    assert Design().name == "resnet8"
    assert Design(depth=14, width=1.5).name == "resnet14-w1.5"
    assert Design(family="mobilenetv2", width=0.35).name == "mobilenetv2-w0.35"
    assert Design(family="vgg16").name == "vgg16"


def test_wishes_and_defaults() -> None:
    assert Wishes().design(96, 10, None) == RESNET
    assert Wishes(depth=8, width=1).design(32, 3, None) == Design(3, 32)
    assert Wishes("mobilenetv2").design(48, 3, None) == Design(3, 48, "mobilenetv2", width=MOBILENET.width)
    assert Wishes("vgg16").design(48, 3, None) == Design(3, 48, "vgg16", width=VGG.width)
    assert Wishes(size=64).design(64, 4, Design(depth=20)) == Design(4, 64, depth=20)


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        (Wishes(depth=8), "depth is 8, expected 20, which the weights to start from have"),
        (Wishes("mobilenetv2"), "family is mobilenetv2, expected resnet, which"),
        (Wishes(width=2), "width is 2, expected 1.0, which"),
    ],
)
def test_a_network_to_start_from_decides(wishes: Wishes, sentence: str) -> None:
    with pytest.raises(RecipeError, match=sentence):
        wishes.design(32, 10, Design(depth=20))


def test_mobilenet_has_no_depth() -> None:
    with pytest.raises(RecipeError, match="depth is 14, expected none for mobilenetv2"):
        Wishes("mobilenetv2", 14).design(96, 10, None)
