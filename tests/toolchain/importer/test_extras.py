"""Points and masks of detections: as the file decodes them, or as upstream decodes what the file leaves as it is."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.topologies import Network
from edgemeta.model.float_reference import all_tensors
from edgemeta.model.graph import FloatModel
from edgemeta.model.tasks import Detection, ObjectMasks, ObjectPoints
from edgemeta.tasks.detection.boxes import Cells, cells_of
from edgemeta.tasks.detection.extras import Extras, ExtrasReader
from edgemeta.tasks.detection.outlines import outline
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.points import BLAZE_FACE, BLAZE_PALM, BLAZE_POSE, BODY, FACE
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from tests.toolchain.importer.float_results import as_integers, stand_in
from tests.toolchain.importer.test_families import (
    LABELS,
    SIDE,
    Array,
    Write,
    cells,
    grids,
    image_of,
    imported,
    number,
    numbers,
    rows,
)
from tests.toolchain.importer.test_undecoded_families import ends_of, raw
from tests.toolchain.importer.views import expected


def task_of(model: object) -> Detection:
    assert isinstance(model, FloatModel)
    assert isinstance(model.task, Detection)
    return model.task


def extras_of(model: object) -> list[Extras]:
    """Those of every cell and anchor, level by level, the masks in the whole image."""
    task = task_of(model)
    assert isinstance(model, FloatModel)
    stand = stand_in(model)
    grids_ = [stand.types[level.classes].shape[:2] for level in task.levels]
    every = [cells_of(level, grid, (SIDE, SIDE)) for level, grid in zip(task.levels, grids_, strict=True)]
    starts = np.cumsum([0, *(len(each.place) for each in every)])
    outputs = as_integers(model, all_tensors(model, np.ascontiguousarray(image_of().transpose(0, 2, 3, 1))))
    boxes = np.tile(np.array([0.0, 0.0, SIDE, SIDE]), (starts[-1], 1))
    return list(ExtrasReader(stand, task, Cells.joined(every), starts).read(outputs, np.arange(starts[-1]), boxes))


def check(model: object, points: Array, scores: Array | None = None) -> None:
    """The cells and anchors have these points [n, K, 2] with these scores [n, K]."""
    found = [each.keypoints for each in extras_of(model)]
    np.testing.assert_allclose([[(point.x, point.y) for point in each] for each in found], points, atol=2e-3)
    if scores is None:
        assert {point.score for each in found for point in each} == {None}
    else:
        np.testing.assert_allclose([[point.score for point in each] for each in found], scores, atol=1e-5)


def pose(count: int, factor: float, origin: float, scored: bool = True) -> Write:
    """As Ultralytics' Pose writes it behind its boxes: points in cells, times the stride; sigmoids of their scores."""

    def write(net: Network) -> list[str]:
        width = 3 if scored else 2
        ends = grids(net, (8, 16), 4, 1, width * count)
        boxes = net.node("Concat", *(rows(net, each[0], 4) for each in ends), axis=1)
        scores = net.node("Sigmoid", net.node("Concat", *(rows(net, each[1], 1) for each in ends), axis=1))
        every = net.reshape(
            net.node("Concat", *(rows(net, each[2], width * count) for each in ends), axis=1), 1, -1, count, width
        )
        middle, steps = cells((8, 16))
        before = net.node("Split", boxes, outputs=2, axis=2)
        first = net.node("Sub", net.constant(middle[np.newaxis]), before)
        last = net.node("Add", net.constant(middle[np.newaxis]), f"{before}.1")
        corners = net.node("Mul", net.node("Concat", first, last, axis=2), net.constant(steps[np.newaxis]))
        parts = net.node(
            "Split", every, net.constant(np.array([2, width - 2][: width - 1], np.int64)), outputs=width - 1, axis=3
        )
        corner = net.constant((middle + origin - 0.5)[np.newaxis, :, np.newaxis])
        places = net.node("Add", net.node("Mul", parts, number(net, factor)), corner)
        places = net.node("Mul", places, net.constant(steps[np.newaxis, :, np.newaxis]))
        joined = net.node("Concat", places, net.node("Sigmoid", f"{parts}.1"), axis=3) if scored else places
        return [net.node("Concat", corners, scores, net.reshape(joined, 1, -1, width * count), axis=2)]

    return write


@pytest.mark.parametrize(
    ("count", "factor", "origin", "scored"), [(17, 2, 0, True), (4, 1, 0.5, True), (5, 1.5, 0.25, False)]
)
def test_points_that_the_file_decodes_are_decoded_alike(
    tmp_path: Path, count: int, factor: float, origin: float, scored: bool
) -> None:
    result = imported(tmp_path, pose(count, factor, origin, scored))
    extras = task_of(result.model).extras
    names = BODY if count == 17 else tuple(f"point {i}" for i in range(count))
    assert extras == ObjectPoints(names, "xys" if scored else "xy", origin, factor)
    assert any(note.startswith(f"its objects have {count} points: ") for note in result.notes)
    assert not any("left out, as" in note for note in result.notes)
    (made,) = expected(tmp_path / "small.onnx", image_of())
    wanted = made[0].astype(np.float64)
    points = wanted[:, 5:].reshape(len(wanted), count, -1)
    check(result.model, points[..., :2], points[..., 2] if scored else None)


def test_points_get_names(tmp_path: Path) -> None:
    names = TaskSettings(point_names=("a", "b", "c", "d"))
    extras = task_of(imported(tmp_path, pose(4, 1, 0.5), names).model).extras
    assert isinstance(extras, ObjectPoints)
    assert extras.names == names.point_names
    for write, count in ((pose(5, 1, 0.5), 5), (masked, 0)):
        with pytest.raises(ImportedFileError, match=f"objects have {count} points, found 4 names for them"):
            imported(tmp_path, write, names)


def test_yunet_as_opencv_decodes_its_points(tmp_path: Path) -> None:
    """FaceDetectorYN: (column + t0) * stride, (row + t1) * stride."""
    model = imported(tmp_path, raw((8, 16), 1, 4, 1, 10, sigmoids=(0, 2))).model
    assert task_of(model).extras == ObjectPoints(FACE, origin=0.0)
    outputs = ends_of(tmp_path)
    points = []
    for i, stride in enumerate((8, 16)):
        at, _ = cells((stride,), 0.0)
        points.append((at[:, np.newaxis] + outputs[4 * i + 3].reshape(-1, 5, 2)) * stride)
    check(model, np.concatenate(points))


def test_scrfd_as_insight_face_decodes_its_points(tmp_path: Path) -> None:
    """distance2kps of insightface/model_zoo/scrfd.py, of two anchors in each cell."""
    model = imported(tmp_path, raw((8, 16, 32), 2, 8, 20, sigmoids=(0,))).model
    assert task_of(model).extras == ObjectPoints(FACE, origin=0.0)
    outputs, points = ends_of(tmp_path), []
    for i, stride in enumerate((8, 16, 32)):
        centers = np.repeat(cells((stride,), 0.0)[0] * stride, 2, 0)
        points.append(centers[:, np.newaxis] + outputs[3 * i + 2].reshape(-1, 5, 2) * stride)
    check(model, np.concatenate(points))


@pytest.mark.parametrize(("width", "names"), [(12, BLAZE_POSE), (16, BLAZE_FACE), (18, BLAZE_PALM)])
def test_blaze_face_as_media_pipe_decodes_its_points(tmp_path: Path, width: int, names: tuple[str, ...]) -> None:
    """TensorsToDetectionsCalculator: keypoint / scale * anchor + its centre; the anchor is the image."""
    model = imported(tmp_path, raw((8, 16), 2 * width, 2)).model
    assert task_of(model).extras == ObjectPoints(names, unit="anchor")
    outputs, points = ends_of(tmp_path), []
    for i, stride in enumerate((8, 16)):
        centres = np.repeat(cells((stride,))[0] * stride / SIDE, 2, 0)
        t = outputs[2 * i].reshape(-1, width)[:, 4:].reshape(len(centres), -1, 2)
        points.append(SIDE * (t / SIDE + centres[:, np.newaxis]))
    check(model, np.concatenate(points))


def retina(net: Network) -> list[str]:
    """bbox_regressions, classifications with a softmax, ldm_regressions, each of all grids."""
    ends = grids(net, (8, 16, 32), 8, 4, 20)
    boxes, classes, points = (
        net.node("Concat", *(rows(net, each[i], width) for each in ends), axis=1) for i, width in enumerate((4, 2, 10))
    )
    return [boxes, net.node("Softmax", classes, axis=2), points]


def test_retina_face_as_upstream_decodes_it(tmp_path: Path) -> None:
    """decode and decode_landm of utils/box_utils.py, with the priors of PriorBox."""
    model = imported(tmp_path, retina).model
    assert isinstance(model, FloatModel)
    assert task_of(model).extras == ObjectPoints(FACE, factor=0.1, unit="anchor")
    loc, conf, landms = (each[0].astype(np.float64) for each in expected(tmp_path / "small.onnx", image_of()))
    priors = []
    for stride, sizes in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512))):
        for y, x in np.ndindex(SIDE // stride, SIDE // stride):
            priors += [[(x + 0.5) * stride, (y + 0.5) * stride, size, size] for size in sizes]
    prior = np.array(priors)
    check(model, prior[:, np.newaxis, :2] + landms.reshape(-1, 5, 2) * 0.1 * prior[:, np.newaxis, 2:])
    boxes, scores = numbers(model, image_of())
    centre, size = prior[:, :2] + loc[:, :2] * 0.1 * prior[:, 2:], prior[:, 2:] * np.exp(loc[:, 2:] * 0.2)
    np.testing.assert_allclose(boxes, np.concatenate([centre - size / 2, centre + size / 2], 1), rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(scores, conf[:, 1:], atol=1e-5)


def masked(net: Network) -> list[str]:
    """As Ultralytics' Segment: coefficients as they are behind boxes and scores; prototypes of a finer grid."""
    ends = grids(net, (8, 16), 64, LABELS, 4)
    end = net.conv(net.conv("images", 8, 3, 4, norm=False), 4, 1, norm=False, act="")
    fine = net.node("Mul", end, net.node("Sigmoid", end))
    made = [net.node("Concat", *(rows(net, each[i], width) for each in ends), axis=1) for i, width in ((0, 64), (2, 4))]
    scores = net.node("Sigmoid", net.node("Concat", *(rows(net, each[1], LABELS) for each in ends), axis=1))
    return [net.node("Concat", made[0], scores, made[1], axis=2), fine]


def test_masks_are_sums_of_prototypes(tmp_path: Path) -> None:
    """process_mask of ultralytics/utils/ops.py: coefficients @ prototypes, above 0, inside of the box."""
    result = imported(tmp_path, masked)
    task = task_of(result.model)
    assert isinstance(task.extras, ObjectMasks)
    assert "its objects have masks, of the prototypes 'mul" in " ".join(result.notes)
    rows_, prototypes = (each[0].astype(np.float64) for each in expected(tmp_path / "small.onnx", image_of()))
    sums = np.tensordot(rows_[:, -4:], prototypes, 1)
    found = [np.array(each.outline).reshape(-1, 2) for each in extras_of(result.model)]
    assert sum(len(corners) > 0 for corners in found) > len(found) / 2
    for corners, some in zip(found, sums, strict=True):
        np.testing.assert_allclose(corners, np.clip(outline(some) * 4, 0, SIDE), atol=0.05)


@pytest.mark.parametrize("op", ["Tanh", "Div"])
def test_what_nothing_explains_is_left_out(op: str, tmp_path: Path) -> None:
    """Coefficients without prototypes, and numbers that go through a function that is not that of points."""

    def write(net: Network) -> list[str]:
        made = []
        for box, classes, rest in grids(net, (8, 16), 64, LABELS, 6):
            made += [box, net.node("Sigmoid", classes), net.node(op, rest, *([number(net, 0)] if op == "Div" else []))]
        return made

    for each in (raw((8, 16), 64, LABELS, 6, sigmoids=(1,)), write):
        result = imported(tmp_path, each)
        assert task_of(result.model).extras is None
        (note,) = (note for note in result.notes if "left out, as they are neither boxes nor scores" in note)
        assert "(8x8x6)" in note
