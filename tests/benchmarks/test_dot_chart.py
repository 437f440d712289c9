"""Dot charts: dots and means where they belong, in a row for each name."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.dot_chart import WIDTH, DotChart

CHART = DotChart("Accuracy", "%", {"one": [10.0, 20.0, 30.0], "two": [20.0]})


def test_dots_and_means() -> None:
    shapes = list(CHART.shapes())
    assert {"Accuracy", "%", "one", "two", "10", "30"} <= {shape.text for shape in shapes}
    dots = [shape.points[0] for shape in shapes if shape.text is None and len(shape.points) == 1]
    (first, row), (middle, _), (last, _), (alone, below) = dots
    assert (first + last) / 2 == pytest.approx(middle, abs=0.1)
    assert alone == middle
    assert row < below
    means = [shape.points[0][0] for shape in shapes if shape.width == 2]
    assert means == [middle, middle]


def test_png(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (pip install 'edgemeta[train]')")
    CHART.save_png(tmp_path / "chart.png")
    with image.open(tmp_path / "chart.png") as opened:
        pixels = np.asarray(opened.convert("RGB")).astype(int)
    assert pixels.shape == (CHART.height, WIDTH, 3)
    assert (np.abs(pixels - (0x00, 0x72, 0xB2)).sum(2) < 40).sum() > 50
