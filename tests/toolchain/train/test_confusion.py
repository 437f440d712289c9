"""The confusion table: counts, recalls, text within 80 columns, picture."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.toolchain.train.confusion import Confusion, confusion


def test_counts_and_recall() -> None:
    table = confusion(("a", "b", "c"), np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 1]))
    assert table.counts.tolist() == [[2, 1, 0], [0, 2, 0], [0, 0, 0]]
    assert (table.images, table.accuracy) == (5, 0.8)
    assert table.recall() == {"a": pytest.approx(2 / 3), "b": 1.0, "c": None}
    assert table.text() == [
        "                         1  2  3",
        "1 a                67 %  2  1  .",
        "2 b               100 %  .  2  .",
        "3 c                   -  .  .  .",
    ]


def random_table(classes: int, most: int) -> Confusion:
    counts = np.random.default_rng(classes).integers(0, most, (classes, classes))
    return Confusion(tuple(f"a class with the long name {i}" for i in range(classes)), counts)


@pytest.mark.parametrize("classes", [2, 10, 13, 18, 19, 40, 120])
@pytest.mark.parametrize("most", [9, 99, 100_000])
def test_text_fits_80_columns(classes: int, most: int) -> None:
    table = random_table(classes, most)
    lines = table.text()
    assert max(map(len, lines)) <= 80
    assert sum("a class with" in line for line in lines) >= classes


def test_a_wide_table_names_the_commonest_confusions() -> None:
    counts = np.eye(30, dtype=np.int64) * 50
    counts[3, 7], counts[7, 3] = 9, 4
    lines = Confusion(tuple(f"c{i}" for i in range(30)), counts).text()
    assert lines[-2:] == ["9 x c3 taken for c7", "4 x c7 taken for c3"]
    assert len(lines) == 32


@pytest.mark.parametrize("classes", [2, 10, 120])
def test_the_picture_is_dark_where_many_are(tmp_path: Path, classes: int) -> None:
    table = Confusion(tuple(f"class {i}" for i in range(classes)), np.eye(classes, dtype=np.int64) * 7)
    table.save_png(tmp_path / "c.png")
    image = cv2.imread(str(tmp_path / "c.png"))
    assert image is not None
    assert [p.name for p in tmp_path.iterdir()] == ["c.png"]
    side = min(30, 1500 // classes)
    left = image.shape[1] - 1 - side * classes
    corners = image[side + 2 :: side, left + 2 :: side].astype(int).sum(2)
    assert corners.shape == (classes, classes)
    assert ((corners < 400) == np.eye(classes, dtype=bool)).all()
