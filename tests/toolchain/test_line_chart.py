"""Line charts: points where they belong, as SVG and as PNG."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from edgemeta.toolchain.line_chart import HEIGHT, WIDTH, LineChart, Series

CHART = LineChart(
    "A <chart>", "epoch", "%", [Series("one & only", [(1, 10.0), (2, 30.0), (3, 20.0)]), Series("dot", [(2, 25.0)])]
)


def test_svg() -> None:
    """Well-formed; greater values are higher, and the ends of the axes are the ends of the points."""
    root = ElementTree.fromstring(CHART.svg())
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"A <chart>", "epoch", "%", "one & only", "dot", "1", "2", "3"} <= set(texts)
    assert not {"1.5", "2.5"} & set(texts)
    (line,) = re.findall(r'<polyline points="([^"]*)" fill="none" stroke="#0072b2" stroke-width="2"', CHART.svg())
    (x1, y1), (x2, y2), (x3, y3) = (map(float, place.split(",")) for place in line.split())
    assert (x2 - x1, y3) == (pytest.approx(x3 - x2, abs=0.11), pytest.approx((y1 + y2) / 2, abs=0.11))
    assert y2 < y3 < y1
    assert 'circle cx="' in CHART.svg()


def test_png(tmp_path: Path) -> None:
    """The lines are in it, and no unfinished file stays."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (pip install 'edgemeta[train]')")
    CHART.save_png(tmp_path / "chart.png")
    with image.open(tmp_path / "chart.png") as opened:
        pixels = np.asarray(opened.convert("RGB")).astype(int)
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    for colour in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)):
        assert (np.abs(pixels - colour).sum(2) < 40).sum() > 10
    assert [path.name for path in tmp_path.iterdir()] == ["chart.png"]


def test_strange_values() -> None:
    """No points, equal points, values that are not finite or beyond the limits, and more names than a row holds."""
    nan = float("nan")
    series = [Series(f"a rather long name {number}", [(1, 5.0), (2, nan)]) for number in range(9)]
    for chart in (
        LineChart("", "", "", []),
        LineChart("", "", "", [Series("x", [])]),
        LineChart("", "", "", series),
        LineChart("", "", "", [Series("x", [(1, -50.0), (2, 500.0)])], limits=(0, 100)),
    ):
        numbers = re.findall(r'points="([^"]*)"', ElementTree.canonicalize(chart.svg()))
        places = [place.split(",") for points in numbers for place in points.split()]
        assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in places)
