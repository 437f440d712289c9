"""Families of detections: what a file decodes, edgemeta decodes alike; what none decodes, by upstream's formulas.

The files are made here, with random weights; boxes and scores of the first kind are those of ONNX Runtime.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

from benchmarks.topologies import Network
from edgemeta.model import reference
from edgemeta.model.float_reference import all_tensors
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.families import FAMILIES
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import ImportResult, import_network
from tests.tasks.detection.plain import plain_numbers
from tests.toolchain.importer.float_results import as_integers, stand_in
from tests.toolchain.importer.views import expected

SIDE, LABELS = 64, 3
Write = Callable[[Network], list[str]]
Array = NDArray[Any]


def grids(net: Network, strides: Sequence[int], *channels: int) -> list[list[str]]:
    """Convolutions of these channels for each stride, a power of 2."""
    found, x, stride = [], "images", 1
    for wanted in strides:
        while stride < wanted:
            x, stride = net.conv(x, 8, 3, 2, norm=False), 2 * stride
        found.append([net.conv(x, count, 1, norm=False, act="") for count in channels])
    return found


def number(net: Network, *values: float) -> str:
    return net.constant(np.array(values if len(values) > 1 else values[0], np.float32))


def rows(net: Network, x: str, width: int) -> str:
    """[1, H * W * channels / width, width]."""
    return net.reshape(net.node("Transpose", x, perm=[0, 2, 3, 1]), 1, -1, width)


def cells(strides: Sequence[int], origin: float = 0.5) -> tuple[Array, Array]:
    """Points [n, 2] in cells, and strides [n, 1], row by row."""
    points, steps = [], []
    for stride in strides:
        y, x = np.mgrid[: SIDE // stride, : SIDE // stride]
        points.append(np.stack([x.ravel(), y.ravel()], 1) + origin)
        steps.append(np.full((x.size, 1), stride))
    return np.concatenate(points).astype(np.float32), np.concatenate(steps).astype(np.float32)


def distances(
    strides: Sequence[int],
    bins: int = 1,
    origin: float = 0.5,
    share: bool = False,
    select: bool = False,
    power: float = 0,
) -> Write:
    """As Ultralytics writes it: expectations, corners; `select`: the best ones at the end, as YOLO26 and YOLOv10."""

    def write(net: Network) -> list[str]:
        ends = grids(net, strides, 4 * bins, LABELS)
        boxes = net.node("Concat", *(rows(net, box, 4 * bins) for box, _ in ends), axis=1)
        scores = net.node("Sigmoid", net.node("Concat", *(rows(net, each, LABELS) for _, each in ends), axis=1))
        points, steps = cells(strides, origin)
        if bins > 1:
            each = net.node("Softmax", net.reshape(boxes, 1, -1, 4, bins), axis=3)
            each = net.node("Transpose", each, perm=[0, 3, 1, 2])
            weight = net.constant(np.arange(bins, dtype=np.float32).reshape(1, bins, 1, 1))
            boxes = net.reshape(net.node("Conv", each, weight), 1, -1, 4)
        if power:
            boxes = net.node("Mul", net.node("Exp", boxes), number(net, power))
        before = net.node("Split", boxes, outputs=2, axis=2)
        first = net.node("Sub", net.constant(points[np.newaxis]), before)
        last = net.node("Add", net.constant(points[np.newaxis]), f"{before}.1")
        corners = net.node("Mul", net.node("Concat", first, last, axis=2), net.constant(steps[np.newaxis]))
        if share:
            corners = net.node("Div", corners, number(net, SIDE))
        if not select:
            return [corners, scores]
        best = net.node("ReduceMax", scores, axes=[2], keepdims=0)
        chosen = net.node("TopK", best, net.constant(np.array([5], np.int64)), outputs=2, axis=1)
        index = net.node(
            "Expand",
            net.node("Unsqueeze", f"{chosen}.1", net.constant(np.array([2], np.int64))),
            net.constant(np.array([1, 5, 4], np.int64)),
        )
        return [corners, scores, net.node("GatherElements", corners, index, axis=1)]

    return write


ANCHORS = (((10.0, 13.0), (16.0, 30.0)), ((33.0, 23.0), (30.0, 61.0)))


def anchored(decoding: str) -> Write:
    """As YOLOv5 and YOLOv3 write it, [1, anchors, H, W, 5 + labels] of each grid."""

    def write(net: Network) -> list[str]:
        made, width = [], 5 + LABELS
        for (end,), stride, anchors in zip(grids(net, (8, 16), 2 * width), (8, 16), ANCHORS, strict=True):
            side = SIDE // stride
            seen = net.node("Transpose", net.reshape(end, 1, 2, width, side, side), perm=[0, 1, 3, 4, 2])
            parts = net.node("Split", seen, net.constant(np.array([2, 2, 1 + LABELS], np.int64)), outputs=3, axis=4)
            points = (cells((stride,), 0.0)[0]).reshape(1, 1, side, side, 2)
            sides = np.array(anchors, np.float32).reshape(1, 2, 1, 1, 2)
            xy = net.node("Sigmoid", parts)
            if decoding == "yolov5":
                xy = net.node("Sub", net.node("Mul", xy, number(net, 2)), number(net, 0.5))
                size = net.node(
                    "Pow", net.node("Mul", net.node("Sigmoid", f"{parts}.1"), number(net, 2)), number(net, 2)
                )
            else:
                size = net.node("Exp", f"{parts}.1")
            centre = net.node("Mul", net.node("Add", xy, net.constant(points)), number(net, stride))
            size = net.node("Mul", size, net.constant(sides))
            joined = net.node("Concat", centre, size, net.node("Sigmoid", f"{parts}.2"), axis=4)
            made.append(net.reshape(net.node("Transpose", joined, perm=[0, 2, 3, 1, 4]), 1, -1, width))
        out = net.node("Concat", *made, axis=1)
        parts = net.node("Split", out, net.constant(np.array([4, 1, LABELS], np.int64)), outputs=3, axis=2)
        return [parts, net.node("Mul", f"{parts}.1", f"{parts}.2")]

    return write


def with_priors(variances: tuple[float, float]) -> Write:
    """As UltraFace's and TorchVision's SSD write it: priors (centre and size) as shares, corners out."""

    def write(net: Network) -> list[str]:
        ends = grids(net, (8, 16), 8, 2 * (LABELS + 1))
        t = net.node("Concat", *(rows(net, box, 4) for box, _ in ends), axis=1)
        scores = net.node(
            "Softmax", net.node("Concat", *(rows(net, each, LABELS + 1) for _, each in ends), axis=1), axis=2
        )
        centres, sides = [], []
        for stride, anchors in zip((8, 16), ANCHORS, strict=True):
            points, steps = cells((stride,))
            centres.append(np.repeat(points * steps, 2, 0))
            sides.append(np.tile(np.array(anchors), (len(points), 1)))
        prior = [np.concatenate(each)[np.newaxis].astype(np.float32) / SIDE for each in (centres, sides)]
        where, size = (net.constant(each) for each in prior)
        parts = net.node("Split", t, outputs=2, axis=2)
        shift = net.node("Mul", net.node("Mul", parts, number(net, variances[0])), size)
        centre = net.node("Add", shift, where)
        half = net.node(
            "Div",
            net.node("Mul", net.node("Exp", net.node("Mul", f"{parts}.1", number(net, variances[1]))), size),
            number(net, 2),
        )
        corners = net.node("Concat", net.node("Sub", centre, half), net.node("Add", centre, half), axis=2)
        return [corners, net.node("Slice", scores, *(net.constant(np.array([i], np.int64)) for i in (1, 99, 2)))]

    return write


DECODED: dict[str, tuple[Write, str, str]] = {
    "YOLOv8": (distances((8, 16), 16), "YOLOv8", "corners"),
    "YOLO-NAS": (distances((8, 16), 17), "YOLO-NAS", "corners"),
    "another number of bins": (distances((8, 16), 11), "other distances", "corners"),
    "YOLO26": (distances((8, 16), select=True), "YOLO26", "corners"),
    "RTMDet": (distances((8, 16, 32), origin=0.0), "RTMDet", "corners"),
    "RTMDet-l": (distances((8, 16, 32), origin=0.0, power=1.5), "RTMDet-l", "corners"),
    "shares of the image": (distances((8, 16), 16, share=True), "YOLOv8", "shares"),
    "YOLOv5": (anchored("yolov5"), "YOLOv5", "centre"),
    "YOLOv3": (anchored("yolov3"), "YOLOv3", "centre"),
    "SSD": (with_priors((0.1, 0.2)), "SSD", "shares"),
    "SSD with variances of 1": (with_priors((1.0, 1.0)), "SSD", "shares"),
}


def written(folder: Path, write: Write, side: int = SIDE) -> Path:
    net = Network("small", side, 5)
    return net.write(folder / "small.onnx", *write(net))


def imported(tmp_path: Path, write: Write, settings: TaskSettings | None = None, side: int = SIDE) -> ImportResult:
    return import_network(written(tmp_path, write, side), tmp_path / "small.safetensors", {}, settings)


def image_of(side: int = SIDE) -> Array:
    return np.random.default_rng(3).uniform(0, 1, (1, 3, side, side)).astype(np.float32)


def numbers(model: FloatModel, image: Array) -> tuple[Array, Array]:
    """Boxes and scores of every cell."""
    tensors = all_tensors(model, np.ascontiguousarray(image.transpose(0, 2, 3, 1)))
    boxes, _, scores = plain_numbers(stand_in(model), as_integers(model, tensors))
    return boxes, scores


@pytest.mark.parametrize("case", DECODED)
def test_what_the_file_decodes_is_decoded_alike(case: str, tmp_path: Path) -> None:
    write, family, form = DECODED[case]
    result = imported(tmp_path, write)
    assert isinstance(result.model, FloatModel)
    assert f"recognized {family}: " in " ".join(result.notes)
    boxes, scores = numbers(result.model, image_of())
    wanted, wanted_scores = (each[0].astype(np.float64) for each in expected(tmp_path / "small.onnx", image_of())[:2])
    if form == "centre":
        wanted = np.concatenate([wanted[:, :2] - wanted[:, 2:] / 2, wanted[:, :2] + wanted[:, 2:] / 2], 1)
    wanted = wanted * (SIDE if form == "shares" else 1)
    np.testing.assert_allclose(boxes, wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(scores, wanted_scores, atol=1e-5)


def test_anchors_do_not_make_another_family_of_it(tmp_path: Path) -> None:
    anchors = (((8.0, 8.0),), ((16.0, 16.0),))
    with pytest.raises(ImportedFileError, match="decoding distances has no anchors, found --anchors"):
        imported(tmp_path, distances((8, 16)), TaskSettings(labels=tuple("abc"), anchors=anchors))
    with pytest.raises(ImportedFileError, match="the file decodes with anchors 10,13 16,30, found 12,13 16,30"):
        imported(tmp_path, anchored("yolov5"), TaskSettings(anchors=(((12.0, 13.0), (16.0, 30.0)), ANCHORS[1])))


def test_a_file_that_decodes_in_another_way_is_refused(tmp_path: Path) -> None:
    def write(net: Network) -> list[str]:
        corners, scores = distances((8, 16))(net)
        return [net.node("Tanh", corners), scores]

    made = imported(tmp_path, write)  # the boxes are there, before the hyperbolic tangents
    assert isinstance(made.model.task, Detection)

    def other(net: Network) -> list[str]:
        return [
            net.node("Tanh", box) if i == 0 else net.node("Sigmoid", box)
            for each in grids(net, (8, 16), 4, LABELS)
            for i, box in enumerate(each)
        ]

    for settings in (TaskSettings(), TaskSettings(labels=tuple("abc"), anchors=(((8.0, 8.0),), ((16.0, 16.0),)))):
        with pytest.raises(ImportedFileError, match=r"computes boxes of 'conv.* in a way that is none of FastestDet"):
            imported(tmp_path, other, settings)
    forced = imported(tmp_path, other, TaskSettings(decoding="distances")).model.task
    assert isinstance(forced, Detection)
    assert forced.decoding == "distances"


def test_keypoints_and_masks_beside_the_classes_are_left_out(tmp_path: Path) -> None:
    """Some numbers of keypoints become scores, too; those of masks none."""

    def write(net: Network) -> list[str]:
        ((box, classes, keypoints, mask),) = grids(net, (8,), 64, LABELS, 6, 8)
        parts = net.node("Split", keypoints, outputs=2, axis=1)
        scores = [net.node("Sigmoid", each) for each in (classes, f"{parts}.1")]
        return [box, *scores, parts, mask]

    result = imported(tmp_path, write)
    assert isinstance(result.model.task, Detection)
    assert len(result.model.task.labels) == LABELS
    assert [shape[2] for shape in result.outputs.values()] == [64, LABELS]
    (note,) = (note for note in result.notes if "left out, as they are neither boxes nor scores" in note)
    assert "(8x8x6)" in note
    assert "(8x8x8)" in note


def test_a_file_that_scales_pixels_itself_takes_them_as_they_are(tmp_path: Path) -> None:
    def write(net: Network) -> list[str]:
        x = net.conv(net.node("Div", "images", number(net, 255)), 8, 3, 2, norm=False)
        return [net.conv(net.conv(x, 8, 3, 4, norm=False), count, 1, norm=False, act="") for count in (64, LABELS)]

    result = imported(tmp_path, write)
    assert isinstance(result.model, FloatModel)
    assert (result.model.mean, result.model.scale, result.model.crop) == ((0.0,), (1.0,), "letterbox")


def raw(strides: Sequence[int], *channels: int, softmax: int = -1, sigmoids: tuple[int, ...] = ()) -> Write:
    """Convolutions as the outputs of the file, some with a softmax or sigmoids over them."""

    def write(net: Network) -> list[str]:
        made = []
        for ends in grids(net, strides, *channels):
            for i, end in enumerate(ends):
                name = net.node("Softmax", end, axis=1) if i == softmax else end
                made.append(net.node("Sigmoid", end) if i in sigmoids else name)
        return made

    return write


def classes_first(strides: Sequence[int], splits: bool) -> Write:
    """NanoDet, and PicoDet, which splits the convolution: classes and 32 numbers of distances in one."""

    def write(net: Network) -> list[str]:
        made = []
        for (end,) in grids(net, strides, LABELS + 32):
            if splits:
                parts = net.node("Split", end, net.constant(np.array([LABELS, 32], np.int64)), outputs=2, axis=1)
                made += [net.node("Sigmoid", parts), f"{parts}.1"]
            else:
                bounds = [net.constant(np.array([i], np.int64)) for i in (0, LABELS, LABELS + 32, 1)]
                head = net.node("Slice", end, bounds[0], bounds[1], bounds[3])
                rest = net.node("Slice", end, bounds[1], bounds[2], bounds[3])
                made.append(net.node("Concat", net.node("Sigmoid", head), rest, axis=1))
        return made

    return write


FOUR = (8, 16, 32, 64)
UNDECODED: dict[str, tuple[Write, str, dict[str, object]]] = {
    "YuNet": (raw((8, 16), 1, 4, 1, 10, sigmoids=(0, 2)), "YuNet", {"decoding": "yolox", "labels": ("face",)}),
    "YOLOX": (raw((8, 16), 4, 1, 5), "YOLOX", {"decoding": "yolox"}),
    "NanoDet-Plus": (classes_first(FOUR, False), "NanoDet-Plus", {"decoding": "yolov8", "bins": 8, "origin": 0.0}),
    "NanoDet": (classes_first((8, 16, 32), False), "NanoDet", {"decoding": "yolov8", "bins": 8, "origin": 0.5}),
    "PicoDet": (classes_first(FOUR, True), "PicoDet", {"decoding": "yolov8", "bins": 8, "origin": 0.5}),
    "SCRFD": (
        raw((8, 16, 32), 2, 8, 20, sigmoids=(0,)),
        "SCRFD",
        {"decoding": "distances", "origin": 0.0, "labels": ("face",)},
    ),
    "SCRFD without keypoints": (
        raw((8, 16, 32), 2, 8, sigmoids=(0,)),
        "SCRFD",
        {"decoding": "distances", "origin": 0.0, "labels": ("face",)},
    ),
    "BlazeFace": (raw((8, 16), 32, 2), "BlazeFace", {"decoding": "linear", "labels": ("face",)}),
    "BlazePalm": (raw((8, 16), 36, 2), "BlazePalm", {"decoding": "linear", "labels": ("palm",)}),
    "FastestDet": (
        raw((16,), 1, 4, LABELS, softmax=2, sigmoids=(0,)),
        "FastestDet",
        {"decoding": "fastestdet", "softmax": True, "powers": (0.6, 0.4)},
    ),
    "CenterNet": (raw((4,), LABELS, 2, 2, sigmoids=(0,)), "CenterNet", {"decoding": "linear", "origin": 0.0}),
    "CenterFace": (raw((4,), 1, 2, 2, 10, sigmoids=(0,)), "CenterFace", {"decoding": "ssd", "labels": ("face",)}),
    "FOMO": (raw((8,), LABELS + 1, softmax=0), "FOMO", {"decoding": "cells", "background": True}),
}


@pytest.mark.parametrize("case", UNDECODED)
def test_what_ends_with_its_convolutions_is_recognized_by_them(case: str, tmp_path: Path) -> None:
    write, family, fields = UNDECODED[case]
    result = imported(tmp_path, write)
    task = result.model.task
    assert isinstance(task, Detection)
    assert f"recognized {family}: " in " ".join(result.notes)
    assert {name: getattr(task, name) for name in fields} == fields
    assert len(task.labels) in (1, LABELS, 5)
    (record,) = (each for each in FAMILIES if each.name == family)
    assert isinstance(result.model, FloatModel)
    assert (result.model.mean, result.model.scale) == (record.pixels.mean, record.pixels.deviation)
    assert any(record.pixels.text() in note for note in result.notes)


def test_distances_that_the_file_scales_are_measured_in_that(tmp_path: Path) -> None:
    """SCRFD's boxes go through a factor that was learned for each grid."""

    def write(net: Network) -> list[str]:
        made = []
        for i, (score, box) in enumerate(grids(net, (8, 16, 32), 2, 8)):
            made += [net.node("Sigmoid", score), net.node("Mul", box, number(net, 0.5 + i))]
        return made

    task = imported(tmp_path, write).model.task
    assert isinstance(task, Detection)
    assert [level.anchors for level in task.levels] == [((4.0, 4.0),) * 2, ((24.0, 24.0),) * 2, ((80.0, 80.0),) * 2]


def test_yolo_v2_has_its_scores_by_softmax(tmp_path: Path) -> None:
    anchors = tuple((16.0 + i, 20.0) for i in range(5))
    task = imported(tmp_path, raw((32,), 5 * (5 + LABELS)), TaskSettings(anchors=(anchors,))).model.task
    assert isinstance(task, Detection)
    assert (task.decoding, task.softmax, len(task.labels), task.levels[0].anchors) == ("yolov3", True, LABELS, anchors)
    with pytest.raises(ImportedFileError, match="needs the anchors of its 1 grids"):
        imported(tmp_path, raw((32,), 5 * (5 + LABELS)))


def test_the_overlap_of_a_suppression_in_the_file_is_kept(tmp_path: Path) -> None:
    def write(net: Network) -> list[str]:
        corners, scores = distances((8, 16))(net)
        most, overlap, least = net.constant(np.array([9], np.int64)), number(net, 0.65), number(net, 0.1)
        scores = net.node("Transpose", scores, perm=[0, 2, 1])
        return [net.node("Cast", net.node("NonMaxSuppression", corners, scores, most, overlap, least), to=1)]

    for given, kept in ((None, 0.65), (0.3, 0.3)):
        task = imported(tmp_path, write, TaskSettings(overlap_threshold=given)).model.task
        assert isinstance(task, Detection)
        assert task.overlap_threshold == kept


def ends_of(tmp_path: Path) -> list[Array]:
    """ONNX Runtime's outputs, each [H * W, C]."""
    outputs = expected(tmp_path / "small.onnx", image_of())
    return [each[0].astype(np.float64).reshape(each.shape[1], -1).T for each in outputs]


def test_blaze_face_as_media_pipe_decodes_it(tmp_path: Path) -> None:
    """TensorsToDetectionsCalculator with fixed anchors: raw / scale * anchor + its centre, as shares of the image."""
    model = imported(tmp_path, raw((8, 16), 32, 2)).model
    assert isinstance(model, FloatModel)
    boxes, scores = numbers(model, image_of())
    wanted, wanted_scores = [], []
    fine, fine_scores, coarse, coarse_scores = ends_of(tmp_path)
    for values, score, stride in ((fine, fine_scores, 8), (coarse, coarse_scores, 16)):
        points, _ = cells((stride,))
        centres = np.repeat(points * stride / SIDE, 2, 0)
        t = values.reshape(-1, 16)[:, :4] / SIDE
        centre = t[:, :2] + centres
        wanted.append(SIDE * np.concatenate([centre - t[:, 2:] / 2, centre + t[:, 2:] / 2], 1))
        wanted_scores.append(1 / (1 + np.exp(-score.reshape(-1, 1))))
    np.testing.assert_allclose(boxes, np.concatenate(wanted), atol=1e-3)
    np.testing.assert_allclose(scores, np.concatenate(wanted_scores), atol=1e-5)


def test_scrfd_as_insight_face_decodes_it(tmp_path: Path) -> None:
    """distance2bbox of insightface/model_zoo/scrfd.py: anchor centres are cells times the stride, two in each."""
    model = imported(tmp_path, raw((8, 16, 32), 2, 8, 20, sigmoids=(0,))).model
    assert isinstance(model, FloatModel)
    boxes, scores = numbers(model, image_of())
    outputs, wanted = ends_of(tmp_path), []
    for i, stride in enumerate((8, 16, 32)):
        height = width = SIDE // stride
        centers = np.stack(np.mgrid[:height, :width][::-1], axis=-1).astype(np.float32)
        centers = (centers * stride).reshape((-1, 2))
        centers = np.stack([centers] * 2, axis=1).reshape((-1, 2))
        distance = outputs[3 * i + 1].reshape(-1, 4) * stride
        wanted.append(np.concatenate([centers - distance[:, :2], centers + distance[:, 2:]], 1))
    np.testing.assert_allclose(boxes, np.concatenate(wanted), atol=1e-3)
    np.testing.assert_allclose(scores, np.concatenate([outputs[3 * i].reshape(-1, 1) for i in range(3)]), atol=1e-5)


@pytest.mark.parametrize("case", ["NanoDet-Plus", "NanoDet"])
def test_nano_det_as_upstream_decodes_it(case: str, tmp_path: Path) -> None:
    """Integral of 0 .. 7, distance2bbox; centre priors of NanoDet-Plus are at the corner of their cell."""
    strides = FOUR if case == "NanoDet-Plus" else FOUR[:3]
    model = imported(tmp_path, classes_first(strides, False)).model
    assert isinstance(model, FloatModel)
    boxes, scores = numbers(model, image_of())
    values = np.concatenate(ends_of(tmp_path))
    points, steps = cells(strides, 0.0 if case == "NanoDet-Plus" else 0.5)
    powers = np.exp(values[:, LABELS:].reshape(-1, 4, 8))
    distance = (powers / powers.sum(2, keepdims=True)) @ np.arange(8) * steps
    centre = points * steps
    np.testing.assert_allclose(
        boxes, np.concatenate([centre - distance[:, :2], centre + distance[:, 2:]], 1), atol=1e-3
    )
    np.testing.assert_allclose(scores, values[:, :LABELS], atol=1e-5)


def test_fastest_det_as_upstream_decodes_it(tmp_path: Path) -> None:
    """handle_preds of utils/tool.py."""
    model = imported(tmp_path, raw((16,), 1, 4, LABELS, softmax=2, sigmoids=(0,))).model
    assert isinstance(model, FloatModel)
    boxes, scores = numbers(model, image_of())
    gate, t, classes = ends_of(tmp_path)
    points, _ = cells((16,), 0.0)
    centre = (np.tanh(t[:, :2]) + points) / (SIDE // 16) * SIDE
    size = 1 / (1 + np.exp(-t[:, 2:])) * SIDE
    np.testing.assert_allclose(boxes, np.concatenate([centre - size / 2, centre + size / 2], 1), atol=1e-3)
    np.testing.assert_allclose(scores, gate**0.6 * classes**0.4, atol=1e-5)


def test_yolo_fastest_v2_as_upstream_decodes_it(tmp_path: Path) -> None:
    """handel_preds of utils/utils.py: sigmoids are in the file, anchors in its project, classes are shared by three."""
    model = imported(tmp_path, raw((16, 32), 12, 3, LABELS, softmax=2, sigmoids=(0, 1)), side=352).model
    assert isinstance(model, FloatModel)
    assert isinstance(model.task, Detection)
    boxes, scores = numbers(model, image_of(352))
    outputs = expected(tmp_path / "small.onnx", image_of(352))
    values = [each[0].astype(np.float64).reshape(each.shape[1], -1).T for each in outputs]
    wanted, wanted_scores = [], []
    for i, (level, stride) in enumerate(zip(model.task.levels, (16, 32), strict=True)):
        reg, obj, cls = values[3 * i : 3 * i + 3]
        side = 352 // stride
        y, x = np.mgrid[:side, :side]
        place = np.stack([x.ravel(), y.ravel()], 1)[:, np.newaxis]
        t = reg.reshape(-1, 3, 4)
        centre, size = (t[..., :2] * 2 - 0.5 + place) * stride, (t[..., 2:] * 2) ** 2 * np.array(level.anchors)
        wanted.append(np.concatenate([centre - size / 2, centre + size / 2], 2).reshape(-1, 4))
        wanted_scores.append((obj[..., np.newaxis] * cls[:, np.newaxis]).reshape(-1, LABELS))
    np.testing.assert_allclose(boxes, np.concatenate(wanted), rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(scores, np.concatenate(wanted_scores), atol=1e-5)


def test_center_net_as_upstream_decodes_it(tmp_path: Path) -> None:
    """ctdet_decode of models/decode.py: centre plus reg, wh around it, both in cells of 4 pixels."""
    model = imported(tmp_path, raw((4,), LABELS, 2, 2, sigmoids=(0,))).model
    assert isinstance(model, FloatModel)
    boxes, scores = numbers(model, image_of())
    heat, size, shift = ends_of(tmp_path)
    centre = cells((4,), 0.0)[0] + shift
    np.testing.assert_allclose(boxes, 4 * np.concatenate([centre - size / 2, centre + size / 2], 1), atol=1e-3)
    np.testing.assert_allclose(scores, heat, atol=1e-5)


def test_center_face_as_upstream_decodes_it(tmp_path: Path) -> None:
    """decode of centerface.py: scale0 and offset0 are of rows."""
    model = imported(tmp_path, raw((4,), 1, 2, 2, 10, sigmoids=(0,))).model
    assert isinstance(model, FloatModel)
    boxes, scores = numbers(model, image_of())
    heat, scale, offset, _ = ends_of(tmp_path)
    places, size = cells((4,), 0.0)[0], np.exp(scale[:, ::-1]) * 4
    first = (places + offset[:, ::-1] + 0.5) * 4 - size / 2
    np.testing.assert_allclose(boxes, np.concatenate([first, first + size], 1), atol=1e-3)
    np.testing.assert_allclose(scores, heat, atol=1e-5)


def test_ultra_face_has_the_anchors_of_its_project(tmp_path: Path) -> None:
    """Four grids of a 240x320 image: centre_variance 0.1, size_variance 0.2, priors of generate_priors."""

    def write(net: Network) -> list[str]:
        made, x = [], "images"
        for stride, anchors in ((8, 3), (16, 2), (32, 2), (64, 3)):
            x = net.conv(x, 4, 1, 8 if stride == 8 else 2, norm=False)
            made += [net.conv(x, 4 * anchors, 1, norm=False, act="")]
            made += [net.node("Softmax", rows(net, net.conv(x, 2 * anchors, 1, norm=False, act=""), 2), axis=2)]
        return made

    result = imported(tmp_path, write, side=320)
    task = result.model.task
    assert isinstance(task, Detection)
    assert (task.labels, task.background, task.variances) == (("face",), True, (0.1, 0.2))
    assert [level.anchors[0] for level in task.levels] == [(10.0, 10.0), (32.0, 32.0), (64.0, 64.0), (128.0, 128.0)]
    assert [level.stride for level in task.levels] == [(8.0, 8.0), (16.0, 16.0), (32.0, 32.0), (64.0, 64.0)]


def test_joined_convolutions_of_an_integer_file_are_split(tmp_path: Path) -> None:
    """Each part has the integers and scales of its channels; boxes and scores are near those of ONNX Runtime."""

    class Images(CalibrationDataReader):  # type: ignore[misc]
        left = 1

        def get_next(self) -> dict[str, Array] | None:
            self.left -= 1
            return {"images": image_of()} if self.left >= 0 else None

    path = tmp_path / "int8.onnx"
    quantize_static(
        str(written(tmp_path, anchored("yolov5"))),
        str(path),
        Images(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        op_types_to_quantize=["Conv"],
    )
    result = import_network(path, tmp_path / "int8.safetensors", {"deviation": (255.0,)})
    model = result.model
    assert isinstance(model, Model)
    assert isinstance(model.task, Detection)
    assert (model.task.decoding, len(model.outputs)) == ("yolov5", 6)
    pixels = np.rint(image_of() * 255)
    table = model.preprocessing.table[0]
    outputs = reference.run(model, table[pixels.astype(np.uint8).transpose(0, 2, 3, 1)])
    boxes, _, scores = plain_numbers(model, tuple(each[0] for each in outputs))
    wanted, wanted_scores = (each[0].astype(np.float64) for each in expected(path, (pixels / 255).astype(np.float32)))
    wanted = np.concatenate([wanted[:, :2] - wanted[:, 2:] / 2, wanted[:, :2] + wanted[:, 2:] / 2], 1)
    assert float(np.median(np.abs(boxes - wanted))) < 0.01
    assert float(np.median(np.abs(scores - wanted_scores))) < 1e-3


def test_the_page_has_each_family(repository: Path) -> None:
    page = (repository / "docs" / "detection.md").read_text("utf-8")
    for each in FAMILIES:
        row = f"| {each.name} | {each.ends} | `{each.formula.decoding}` | `{each.pixels.text()}` |"
        assert row in page.splitlines()


def test_multiples_of_numbers_that_are_no_distances_are_refused(tmp_path: Path) -> None:
    def write(net: Network) -> list[str]:
        ((box, gate, classes),) = grids(net, (8,), 4, 1, LABELS)
        return [net.node("Mul", box, number(net, 0.5)), gate, classes]

    with pytest.raises(ImportedFileError, match=r"computes boxes of 'conv.* in a way that is none of"):
        imported(tmp_path, write)


def test_what_cannot_be_followed_is_not_guessed(tmp_path: Path) -> None:
    """An operator between convolutions and boxes that the probe does not compute: YOLOv8's ends are sure, SSD's not."""

    def write(net: Network) -> list[str]:
        return [net.node("Mod", each, number(net, 1.0), fmod=1) for each in grids(net, (8,), 8, 8)[0]]

    anchors = TaskSettings(labels=tuple("abc"), anchors=(((8.0, 8.0), (16.0, 16.0)),))
    with pytest.raises(ImportedFileError, match=r"cannot be followed, to Mod 'mod\d+'; --decoding says which"):
        imported(tmp_path, write, anchors)
    forced = imported(tmp_path, write, replace(anchors, decoding="ssd")).model.task
    assert isinstance(forced, Detection)
    assert forced.background

    def sure(net: Network) -> list[str]:
        return [net.node("Mod", each, number(net, 1.0), fmod=1) for each in grids(net, (8,), 64, LABELS)[0]]

    result = imported(tmp_path, sure)
    assert any("could not be compared with this decoding" in note for note in result.notes)


def test_numbers_that_are_written_into_place_are_followed(tmp_path: Path) -> None:
    """ScatterND, as exports of YOLOv5 by old versions of PyTorch have it."""

    def write(net: Network) -> list[str]:
        corners, scores = distances((8, 16))(net)
        count = (SIDE // 8) ** 2 + (SIDE // 16) ** 2
        everywhere = np.stack(np.meshgrid([0], range(count), range(4), indexing="ij"), -1)
        empty = net.constant(np.zeros((1, count, 4), np.float32))
        return [net.node("ScatterND", empty, net.constant(everywhere), corners), scores]

    assert "recognized YOLO26: decoding distances" in imported(tmp_path, write).notes
