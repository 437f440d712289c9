"""Which source the demo shows a model."""

import pytest

from edgemeta.cli.demo.command import DRAWN, PHOTOGRAPHS, source_for
from edgemeta.cli.options import load_model
from edgemeta.plugins.drawn import photographs
from rig.square_detector import square_detector


def test_a_classification_gets_drawn_scenes() -> None:
    assert source_for(load_model("resnet8-cifar10")) == (DRAWN, "")


def test_a_detection_gets_photographs() -> None:
    pytest.importorskip("skimage", reason="needs scikit-image: pip install 'edgemeta[demo]'")
    assert source_for(square_detector()) == (PHOTOGRAPHS, "")


def test_without_the_package_it_is_said_that_scenes_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "_PACKAGE", "no_such_package")
    source, remark = source_for(square_detector())
    assert source == DRAWN
    assert "drawn scenes are shown" in remark
