"""Families of detections whose files end with their convolutions: decoded by upstream's formulas, written out here."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.topologies import Network
from edgemeta.model import reference
from edgemeta.model.file import parse
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.tasks import Detection
from edgemeta.tasks.detection.objects import Detector
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads import ends as heads_ends
from edgemeta.toolchain.importer.heads.families import FAMILIES
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.network import Network as Graph
from tests.toolchain.importer.qdq_steps import quantized
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
    written,
)
from tests.toolchain.importer.tflite_writer import TfliteNet
from tests.toolchain.importer.views import expected


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


def test_outputs_that_are_constants_are_no_detection() -> None:
    graph = Graph("n", "x", (3, 8, 8), ("c",), (), {"c": np.zeros((1, 4), np.float32)}, {"c": (1, 4)})
    with pytest.raises(heads_ends.HeadError, match="the outputs come from constants, expected convolutions"):
        heads_ends.ends_of(graph)


def test_center_net_as_upstream_decodes_it(tmp_path: Path) -> None:
    """ctdet_decode of models/decode.py: centre plus reg, wh around it, both in cells of 4 pixels."""
    model = imported(tmp_path, raw((4,), LABELS, 2, 2, sigmoids=(0,))).model
    assert isinstance(model, FloatModel)
    boxes, scores = numbers(model, image_of())
    heat, size, shift = ends_of(tmp_path)
    centre = cells((4,), 0.0)[0] + shift
    np.testing.assert_allclose(boxes, 4 * np.concatenate([centre - size / 2, centre + size / 2], 1), atol=1e-3)
    np.testing.assert_allclose(scores, heat, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of the quantizer, about its own future
@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_shifts_and_sizes_of_integers_keep_their_scales(kind: str, tmp_path: Path) -> None:
    """CenterNet in integers: the objects are those of ONNX Runtime's outputs by upstream's formula."""
    path = quantized(written(tmp_path, raw((4,), LABELS, 2, 2, sigmoids=(0,))), kind)
    model = import_network(path, tmp_path / "int8.safetensors", {"mean": (128.0,), "deviation": (32.0,)}).model
    assert isinstance(model, Model)
    assert isinstance(model.task, Detection)
    assert model.task.levels[0].sizes is not None
    assert parse((tmp_path / "int8.safetensors").read_bytes(), path).task == model.task
    pixels = np.rint(image_of() * 255)
    integers = model.preprocessing.table[0][pixels.astype(np.uint8).transpose(0, 2, 3, 1)]
    outputs = reference.run(model, integers)
    objects = Detector(model, dict.fromkeys(model.task.labels, 0.3)).objects(tuple(each[0] for each in outputs))
    heat, size, shift = (
        each[0].reshape(each.shape[1], -1).T for each in expected(path, ((pixels - 128) / 32).astype(np.float32))
    )
    centre = cells((4,), 0.0)[0] + shift
    wanted = np.clip(4 * np.concatenate([centre - size / 2, centre + size / 2], 1), 0, SIDE)
    assert objects
    for each in objects:
        off = np.abs(wanted - each.box).max(1) + np.abs(heat.max(1) - each.score)
        assert off.min() < 0.1


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


def test_blocks_at_the_end_are_split_as_convolutions_are(tmp_path: Path) -> None:
    """The sparse form of BlazeFace makes its one grid of blocks: boxes and points are channels of one map."""
    net = TfliteNet()
    image, rng = net.tensor((1, 192, 192, 3)), np.random.default_rng(3)
    outputs = []
    for channels in (16, 1):
        weight = net.constant(rng.normal(0, 0.1, (4 * channels, 3, 3, 3)).astype(np.float32))
        inputs, shape = [image, weight, net.constant(np.zeros(4 * channels, np.float32))], (1, 24, 24, 4 * channels)
        coarse = net("CONV_2D", inputs, shape, "Conv2DOptions", StrideW=8, StrideH=8)
        fine = net("DEPTH_TO_SPACE", [coarse], (1, 48, 48, channels), "DepthToSpaceOptions", BlockSize=2)
        sides = net.constant(np.array([1, 2304, channels], np.int32))
        outputs.append(net("RESHAPE", [fine, sides], (1, 2304, channels)))
    path = net.write(tmp_path / "small.tflite", image, outputs)
    result = import_network(path, tmp_path / "small.safetensors", {})
    assert isinstance(result.model.task, Detection)
    assert [shape for _, shape in result.outputs.items()] == [(48, 48, 4), (48, 48, 1), (48, 48, 12)]
    assert result.model.labels == ("face",)
    assert result.difference is not None
    assert result.difference < 1e-6
