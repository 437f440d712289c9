"""Families of detections: what a file decodes, edgemeta decodes alike.

The files are made here, with random weights; boxes and scores are those of ONNX Runtime.
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
