"""Charts: well-formed and reproducible SVG, PNG of the stated size with what was drawn, and one sentence for errors."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from edgemeta.toolchain.charts import HEIGHT, WIDTH, Chart, DotChart, EvidenceChart, LineChart, Series
from edgemeta.toolchain.errors import MissingExtraError, ToolchainError

image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (pip install 'edgemeta[train]')")
pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'edgemeta[train]')")

BLUE, ORANGE, RED = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0xC8, 0, 0)
LINES = LineChart(
    "A <chart>", "epoch", "%", [Series("one & only", [(1, 10.0), (2, 30.0), (3, 20.0)]), Series("dot", [(2, 25.0)])]
)
DOTS = DotChart("Accuracy", "%", {"one": [10.0, 20.0, 30.0], "two": [20.0]})
EVIDENCE = EvidenceChart("title", "evidence", {"held out": np.arange(100), "foreign": np.arange(-100, 0)}, 0)


def test_svg() -> None:
    """Well-formed; greater values are higher; the same chart is the same text, without a date."""
    text = LINES.svg()
    root = ElementTree.fromstring(text)
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"A <chart>", "epoch", "%", "one & only", "dot", "1", "2", "3"} <= set(texts)
    assert not {"1.5", "2.5"} & set(texts)
    (line,) = re.findall(r'<path d="([^"]*)" clip-path="[^"]*" style="fill: none; stroke: #0072b2', text)
    (x1, y1), (x2, y2), (x3, y3) = (map(float, place.split()) for place in re.split("[ML]", line)[1:])
    assert (x2 - x1, y3) == (pytest.approx(x3 - x2), pytest.approx((y1 + y2) / 2))
    assert y2 < y3 < y1
    assert LINES.svg() == text
    assert "dc:date" not in text


@pytest.mark.parametrize(
    ("chart", "height", "colours"),
    [(LINES, HEIGHT, [BLUE, ORANGE]), (DOTS, DOTS.height, [BLUE]), (EVIDENCE, EVIDENCE.height, [BLUE, ORANGE, RED])],
)
def test_png(chart: Chart, height: int, colours: list[tuple[int, int, int]], tmp_path: Path) -> None:
    chart.save_png(tmp_path / "chart.png")
    with image.open(tmp_path / "chart.png") as opened:
        pixels = np.asarray(opened.convert("RGB")).astype(int)
    assert pixels.shape == (height, WIDTH, 3)
    for colour in colours:
        assert (np.abs(pixels - colour).sum(2) < 40).sum() > 50
    assert [path.name for path in tmp_path.iterdir()] == ["chart.png"]


def test_dots_and_means() -> None:
    places = re.findall(r'<use xlink:href="#(\w+)" x="([\d.]+)" y="([\d.]+)" style="fill: #0072b2', DOTS.svg())
    (first, row), (middle, _), (last, _), (alone, below) = ((float(x), float(y)) for _, x, y in places)
    assert (first + last) / 2 == pytest.approx(middle)
    assert alone == pytest.approx(middle)
    assert row < below
    means = re.findall(r'x="([\d.]+)" y="[\d.]+" style="fill: #333333', DOTS.svg())
    assert [float(x) for x in means] == [pytest.approx(middle)] * 2


def test_strange_values() -> None:
    """No points, equal points, values that are not finite or beyond the limits, and more names than a row holds."""
    nan, inf = float("nan"), float("inf")
    series = [Series(f"a rather long name {number}", [(1, 5.0), (2, nan), (3, inf)]) for number in range(9)]
    for chart in (
        LineChart("", "", "", []),
        LineChart("", "", "", [Series("x", [])]),
        LineChart("", "", "", series),
        LineChart("", "", "", [Series("x", [(1, -50.0), (2, 500.0)])], limits=(0, 100)),
        EvidenceChart("", "", {"x": np.zeros(3, np.int64)}, 0),
    ):
        assert "nan" not in re.sub("<title>.*", "", chart.svg())


def test_what_is_missing_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match=r"chart.png: cannot be written \(No such file or directory\)"):
        LINES.save_png(tmp_path / "nothing" / "chart.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"needs matplotlib, .* pip install edgemeta\[train\]"):
        LINES.svg()
