"""The report says what was right, wrong and missed, and shows it."""

from pathlib import Path

import cv2
import numpy as np

from edgemeta.tasks.detection.objects import Object
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.evaluate.average_precision import NEITHER, RIGHT, WRONG, mean_average_precision
from edgemeta.toolchain.train.boxes.report import save_report, verdict

LABELS = ("cat", "dog")
IMAGES = BoxedImages(
    np.full((3, 64, 96, 3), 200, np.uint8),
    np.array([[0, 0, 20, 20], [30, 30, 60, 60], [5, 5, 25, 25], [40, 40, 60, 60]], np.float32),
    np.array([0, 1, 0, 0]),
    np.array([0, 0, 1, 1]),
    LABELS,
    np.array([False, False, False, True]),
    np.array([[True, True], [True, False], [True, True]]),
)
FOUND = [
    [Object("cat", 0.9, (0, 0, 20, 20)), Object("cat", 0.8, (1, 0, 20, 20)), Object("dog", 0.3, (30, 30, 60, 60))],
    [Object("cat", 0.9, (41, 41, 60, 60)), Object("dog", 0.6, (0, 30, 9, 60))],
    [],
]


def test_objects_are_right_wrong_or_neither_and_boxes_missed() -> None:
    first, second, third = (verdict(number, some, IMAGES) for number, some in enumerate(FOUND))
    assert first.states == (RIGHT, WRONG)
    assert first.missed == (1,)
    assert second.states == (NEITHER, NEITHER)
    assert second.missed == (2,)
    assert third.mistakes == 0


def test_the_page_has_figures_and_a_picture(tmp_path: Path) -> None:
    page = save_report(tmp_path, "cats & dogs", mean_average_precision(FOUND, IMAGES), FOUND, IMAGES)
    text = page.read_text("utf-8")
    assert "cats &amp; dogs" in text
    assert "1 right, 1 wrong, 2 missed" in text
    picture = cv2.imread(str(tmp_path / "report.png"))
    assert picture is not None
    reds = (picture[..., 2] > 200) & (picture[..., 1] < 60)
    greens = (picture[..., 1] > 150) & (picture[..., 2] < 60)
    assert reds.any()
    assert greens.any()
