"""Mean average precision equals that of the COCO evaluation's own program."""

import contextlib
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.tasks.detection.objects import Object
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.evaluate.average_precision import Precision, mean_average_precision

LABELS = ("cup", "pen", "key")
SIDE = 40


def boxed(boxes: list[tuple[int, int, tuple[float, ...]]], images: int) -> BoxedImages:
    """Of (image, class, box)."""
    boxes = sorted(boxes, key=lambda each: each[0])
    return BoxedImages(
        np.zeros((images, SIDE, SIDE, 3), np.uint8),
        np.array([each[2] for each in boxes], np.float32).reshape(-1, 4),
        np.array([each[1] for each in boxes], np.int64),
        np.array([each[0] for each in boxes], np.int64),
        LABELS,
    )


def by_pycocotools(found: list[list[Object]], wanted: BoxedImages) -> tuple[float, float]:
    """mAP at 0.5 and at [0.5:0.95]."""
    pytest.importorskip("pycocotools", reason="pycocotools is not installed: pip install edgemeta[test]")
    from pycocotools import coco, cocoeval

    def row(image: int, number: int, box: Any) -> dict[str, Any]:
        x0, y0, x1, y1 = map(float, box)
        sides = [x0, y0, x1 - x0, y1 - y0]
        return {"image_id": image + 1, "category_id": number + 1, "bbox": sides, "area": sides[2] * sides[3]}

    truth = coco.COCO()
    boxes = zip(wanted.images.tolist(), wanted.classes.tolist(), wanted.boxes, strict=True)
    truth.dataset = {
        "images": [{"id": image + 1} for image in range(len(wanted))],
        "categories": [{"id": number + 1, "name": name} for number, name in enumerate(LABELS)],
        "annotations": [{**row(*each), "id": id_, "iscrowd": 0} for id_, each in enumerate(boxes, 1)],
        "info": {},
    }
    rows = [
        {**row(image, LABELS.index(each.label), each.box), "score": each.score}
        for image, some in enumerate(found)
        for each in some
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        run = cocoeval.COCOeval(truth, truth.loadRes(rows), "bbox")
        run.evaluate()
        run.accumulate()
    precision = run.eval["precision"][:, :, :, 0, 2]  # all areas, 100 objects
    return float(precision[0][precision[0] > -1].mean()), float(precision[precision > -1].mean())


def objects_near(wanted: BoxedImages, rng: np.random.Generator) -> list[list[Object]]:
    """Boxes found more or less well, some twice, some with another label, some of nothing."""
    found = []
    for image in range(len(wanted)):
        some = []
        boxes, classes = wanted.objects(image)
        for box, number in zip(boxes, classes, strict=True):
            for _ in range(rng.integers(0, 3)):
                moved = np.clip(box + rng.normal(0, 1.5, 4), 0, SIDE)
                label = number if rng.random() < 0.8 else rng.integers(len(LABELS))
                some.append((moved, label))
        some += [
            (np.sort(rng.uniform(0, SIDE, (2, 2)), axis=0).ravel(), rng.integers(3)) for _ in range(rng.integers(3))
        ]
        good = [(box, label) for box, label in some if box[0] < box[2] and box[1] < box[3]]
        scores = np.round(rng.uniform(0, 1, len(good)), 2)  # rounded: some are equal
        order = np.argsort(-scores, kind="stable")
        found.append([Object(LABELS[good[i][1]], float(scores[i]), tuple(map(float, good[i][0]))) for i in order])  # type: ignore[arg-type]
    return found


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equals_pycocotools(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = int(rng.integers(1, 8))
    boxes = []
    for _ in range(rng.integers(1, 20)):
        x0, y0 = rng.integers(0, SIDE - 10, 2)
        width, height = rng.integers(3, 11, 2)
        place = tuple(map(float, (x0, y0, x0 + width, y0 + height)))
        boxes.append((int(rng.integers(images)), int(rng.integers(len(LABELS))), place))
    wanted = boxed(boxes, images)
    found = objects_near(wanted, rng)
    if not any(found):
        assert mean_average_precision(found, wanted).mean == 0
        return
    ours = mean_average_precision(found, wanted)
    assert (ours.at_half, ours.mean) == pytest.approx(by_pycocotools(found, wanted), abs=1e-9)


def test_by_hand() -> None:
    """Of two cups one is found, after an object of nothing: precision 1/2 up to recall 1/2."""
    wanted = boxed([(0, 0, (0, 0, 10, 10)), (1, 0, (0, 0, 10, 10)), (1, 1, (20, 20, 30, 30))], 2)
    found = [
        [Object("cup", 0.9, (20, 20, 30, 30)), Object("cup", 0.8, (0, 0, 10, 8))],
        [Object("pen", 0.3, (20, 20, 30, 30)), Object("pen", 0.2, (20, 20, 30, 30))],
    ]
    result = mean_average_precision(found, wanted)
    cup, pen = result.labels
    assert (cup.label, cup.boxes, cup.at_half) == ("cup", 2, pytest.approx(51 / 101 / 2))
    assert cup.mean == pytest.approx(7 / 10 * 51 / 101 / 2)  # an overlap of 0.8: enough up to 0.8
    assert (pen.label, pen.boxes, pen.at_half, pen.mean) == ("pen", 1, 1, 1)
    assert result.at_half == pytest.approx((cup.at_half + 1) / 2)


def test_nothing_to_find() -> None:
    empty = boxed([], 1)
    assert mean_average_precision([[]], empty) == Precision(0, 0, (), 1)
    wanted = boxed([(0, 0, (0, 0, 10, 10))], 1)
    assert mean_average_precision([[]], wanted).at_half == 0


def test_labels_of_one_name_count_as_one() -> None:
    """As ImageNet's two cranes: whichever of them a box has, an object of the name takes it."""
    boxes = [(0, 0, (1.0, 1.0, 9.0, 9.0)), (0, 1, (20.0, 20.0, 30.0, 30.0)), (1, 2, (5.0, 5.0, 8.0, 8.0))]
    cups = [Object("cup", 0.9, (1, 1, 9, 9)), Object("cup", 0.8, (20, 20, 30, 30))]
    found = [cups, [Object("key", 0.7, (5, 5, 8, 8))]]
    twice = replace(boxed(boxes, 2), labels=("cup", "cup", "key"))
    precision = mean_average_precision(found, twice)
    assert (precision.at_half, precision.mean) == (1.0, 1.0)
    assert [(each.label, each.boxes) for each in precision.labels] == [("cup", 2), ("key", 1)]
