"""The task of an imported network: what is recognized, and that decoding it gives what upstream's formulas give."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.topologies import Network, write_topology
from edgemeta.model import reference
from edgemeta.model.errors import ModelError
from edgemeta.model.float_reference import all_tensors
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.preprocess import preprocess
from edgemeta.model.tasks import Classification, Detection, Embedding, Keypoints, MultiLabel, Raw, Segmentation
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from tests.tasks.detection.plain import plain_numbers
from tests.toolchain.importer.float_results import as_integers, float_reader, stand_in
from tests.toolchain.importer.litert import ReferenceKernels
from tests.toolchain.importer.views import expected

torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")

TINY_ANCHORS = (((10.0, 14.0), (23.0, 27.0), (37.0, 58.0)), ((81.0, 82.0), (135.0, 169.0), (344.0, 319.0)))
SSD_ANCHORS = (((30.0, 30.0), (42.0, 21.0), (21.0, 42.0)), *(((50.0, 50.0), (70.0, 35.0), (35.0, 70.0)) * 2,) * 5)
VOC = tuple(f"thing {i}" for i in range(20))
LONG = pytest.mark.gate("3 to 6 s: a whole network in NumPy")
Write = Callable[[Network], str | list[str]]


def imported(path: Path, settings: TaskSettings | None = None) -> FloatModel:
    model = import_network(path, path.with_suffix(".safetensors"), Pixels(), settings).model
    assert isinstance(model, FloatModel)
    return model


def decoded(model: FloatModel, image: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Boxes and scores of every cell, for an image [1, C, H, W]."""
    tensors = all_tensors(model, np.ascontiguousarray(image.transpose(0, 2, 3, 1)))
    boxes, _, scores = plain_numbers(stand_in(model), as_integers(model, tensors))
    return boxes, scores


def image_of(side: int) -> NDArray[Any]:
    return np.random.default_rng(3).uniform(0, 1, (1, 3, side, side)).astype(np.float32)


def grid(side: int) -> Any:
    """Cells (x, y) of a square grid [cells, 2]."""
    y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    return torch.stack([x, y], 2).reshape(-1, 2).double()


def corners(centre: Any, size: Any) -> Any:
    return torch.cat([centre - size / 2, centre + size / 2], -1)


def test_yolo_v3_is_split_and_decoded(tmp_path: Path) -> None:
    path = small(tmp_path, lambda net: [part[0] for part in head(net, 3 * 85)][::-1], 64)
    check_yolo_v3(path, 64)


@LONG
def test_yolo_v3_tiny_is_split_and_decoded(tmp_path: Path) -> None:
    check_yolo_v3(write_topology("yolo_v3_tiny", tmp_path, 64), 64)


def check_yolo_v3(path: Path, side: int) -> None:
    model = imported(path, TaskSettings(labels=COCO, anchors=TINY_ANCHORS))
    assert isinstance(model.task, Detection)
    assert (model.task.decoding, len(model.outputs)) == ("yolov3", 6)
    boxes, scores = decoded(model, image_of(side))
    wanted_boxes, wanted_scores = [], []
    coarse, fine = (torch.from_numpy(each)[0].double() for each in expected(path, image_of(side)))
    for map_, anchors in ((fine, TINY_ANCHORS[0]), (coarse, TINY_ANCHORS[1])):
        cells = map_.shape[1]
        t = map_.reshape(3, 85, cells * cells).permute(2, 0, 1)
        centre = (t[..., :2].sigmoid() + grid(cells)[:, None]) * (side / cells)
        size = t[..., 2:4].clamp(max=20).exp() * torch.tensor(anchors, dtype=torch.float64)
        wanted_boxes.append(corners(centre, size).reshape(-1, 4))
        wanted_scores.append((t[..., 4:5].sigmoid() * t[..., 5:].sigmoid()).reshape(-1, 80))
    np.testing.assert_allclose(boxes, torch.cat(wanted_boxes), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(scores, torch.cat(wanted_scores), atol=1e-4)


@LONG
def test_yolo_v8_is_decoded(tmp_path: Path) -> None:
    side = 64
    path = write_topology("yolo_v8n", tmp_path, side)
    model = imported(path, TaskSettings(labels=COCO))
    assert isinstance(model.task, Detection)
    assert (model.task.decoding, len(model.outputs)) == ("yolov8", 6)
    boxes, scores = decoded(model, image_of(side))
    (rows,) = (torch.from_numpy(each)[0].T.double() for each in expected(path, image_of(side)))
    places = torch.cat([grid(side // stride) + 0.5 for stride in (8, 16, 32)])
    strides = torch.cat([torch.full(((side // stride) ** 2, 1), float(stride)) for stride in (8, 16, 32)])
    distances = rows[:, :64].reshape(-1, 4, 16).softmax(2) @ torch.arange(16).double()
    wanted = torch.cat([places - distances[:, :2], places + distances[:, 2:]], 1) * strides
    np.testing.assert_allclose(boxes, wanted, atol=1e-3)
    np.testing.assert_allclose(scores, rows[:, 64:], atol=1e-5)


@LONG
def test_ssd_is_decoded_with_its_background(tmp_path: Path) -> None:
    side = 96
    path = write_topology("ssd_mobilenet", tmp_path, side)
    model = imported(path, TaskSettings(labels=VOC, anchors=SSD_ANCHORS))
    assert isinstance(model.task, Detection)
    assert (model.task.decoding, model.task.background, len(model.outputs)) == ("ssd", True, 12)
    boxes, scores = decoded(model, image_of(side))
    t, classes = (torch.from_numpy(each)[0].double() for each in expected(path, image_of(side)))
    priors = []
    for name, anchors in zip([level.boxes for level in model.task.levels], SSD_ANCHORS, strict=True):
        cells = stand_in(model).output_types[model.outputs.index(name)].shape[0]
        centres = ((grid(cells) + 0.5) * (side / cells)).repeat_interleave(len(anchors), 0)
        priors.append(torch.cat([centres, torch.tensor(anchors).double().repeat(cells * cells, 1)], 1))
    prior = torch.cat(priors)
    wanted = corners(prior[:, :2] + 0.1 * t[:, :2] * prior[:, 2:], prior[:, 2:] * (0.2 * t[:, 2:]).exp())
    np.testing.assert_allclose(boxes, wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(scores, classes.softmax(1)[:, 1:], atol=1e-4)


@LONG
def test_yolox_nano_gives_the_objects_of_onnx_runtime(shared_data: Path, tmp_path: Path) -> None:
    """A network that nobody here made, on a frame of the clip, by YOLOX's published formula."""
    source = shared_data / "networks" / "yolox_nano.onnx"
    pixels = Pixels(colour="bgr", crop="letterbox", align="corner", fill=(114,))
    model = import_network(source, tmp_path / "f.safetensors", pixels, TaskSettings(labels=COCO)).model
    assert isinstance(model, FloatModel)
    assert isinstance(model.task, Detection)
    model = replace(model, task=replace(model.task, score_threshold=0.3))
    stand = stand_in(model)
    table = np.arange(256, dtype=np.uint8)[np.newaxis]
    image = preprocess(frame_of(shared_data), stand.input, replace(stand.preprocessing, table=table))[
        np.newaxis
    ].astype(np.float32)
    objects = float_reader(model)(all_tensors(model, image)).objects
    (rows,) = (torch.from_numpy(each)[0].double() for each in expected(source, image.transpose(0, 3, 1, 2)))
    places = torch.cat([grid(416 // stride) for stride in (8, 16, 32)])
    strides = torch.cat([torch.full(((416 // stride) ** 2, 1), float(stride)) for stride in (8, 16, 32)])
    boxes = corners((rows[:, :2] + places) * strides, rows[:, 2:4].exp() * strides).clamp(0, 416)
    scores, labels = (rows[:, 4:5] * rows[:, 5:]).max(1)
    kept: list[int] = []
    for i in scores.sort(descending=True).indices[: int((scores >= 0.3).sum())].tolist():
        if all(labels[i] != labels[j] or _iou(boxes[i], boxes[j]) <= 0.5 for j in kept):
            kept.append(i)
    assert len(objects) >= 4
    assert [each.label for each in objects] == [COCO[int(labels[i])] for i in kept]
    np.testing.assert_allclose([each.score for each in objects], scores[kept], atol=1e-5)
    np.testing.assert_allclose([each.box for each in objects], boxes[kept], atol=1e-3)


@pytest.mark.gate("runs YOLOX-nano in the reference, and LiteRT")
def test_an_int8_detection_of_tflite_keeps_its_integers(shared_data: Path, tmp_path: Path) -> None:
    """Its last convolutions give about what LiteRT's output shows.

    That is rounded once more, and over a hundred layers differ by one step here and there (test_tflite_files.py). The
    network knows three labels that the clip does not show; so numbers are compared, not objects.
    """
    source = shared_data / "networks" / "yolox_nano_int8.tflite"
    model = import_network(source, tmp_path / "net.safetensors", Pixels((127.5,), (127.5,), "bgr")).model
    assert isinstance(model, Model)
    assert isinstance(model.task, Detection)
    assert (model.task.decoding, len(model.outputs), len(model.labels)) == ("yolox", 9, 3)
    image = preprocess(frame_of(shared_data), model.input, model.preprocessing)[np.newaxis]
    outputs = dict(zip(model.outputs, reference.run(model, image), strict=True))
    kinds = dict(zip(model.outputs, model.output_types, strict=True))

    def real(name: str) -> NDArray[Any]:
        kind = kinds[name]
        return (outputs[name].astype(np.float64).reshape(-1, kind.shape[2]) - kind.zero_point) * kind.scale

    rows = []
    for level in model.task.levels:
        assert level.objectness is not None
        scores = [1 / (1 + np.exp(-real(name))) for name in (level.objectness, level.classes)]
        rows.append(np.concatenate([real(level.boxes), *scores], axis=1))
    litert = ReferenceKernels(source)
    litert(np.ascontiguousarray(image.transpose(0, 3, 1, 2)))
    (output,) = litert.network.outputs
    kept = litert.network.quantization[output]
    step, zero = float(kept.scale[0]), int(kept.zero_point[0])
    wanted = (litert.tensor(output)[0].astype(np.float64) - zero) * step
    found = np.clip(np.concatenate(rows), (-128 - zero) * step, (127 - zero) * step)
    for column in range(4):
        assert np.corrcoef(found[:, column], wanted[:, column])[0, 1] > 0.9
    assert float(np.median(np.abs(found - wanted), axis=0).max()) < 5 * step


def _iou(a: Any, b: Any) -> float:
    shared = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod()
    return float(shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared))


def frame_of(shared_data: Path) -> NDArray[np.uint8]:
    """A frame of the clip."""
    capture = cv2.VideoCapture(str(shared_data / "video" / "vtest_480x360.avi"))
    capture.set(cv2.CAP_PROP_POS_FRAMES, 400)
    frame: NDArray[np.uint8] = capture.read()[1]
    return frame


def small(tmp_path: Path, write: Write, side: int = 32) -> Path:
    net = Network("small", side, 5)
    outputs = write(net)
    return net.write(tmp_path / "small.onnx", *([outputs] if isinstance(outputs, str) else outputs))


def vector(net: Network, count: int = 6) -> str:
    return net.dense(net.flat(net.mean(net.conv("images", 8, 3, 2))), count)


def test_a_vector_is_a_classification(tmp_path: Path) -> None:
    path = small(tmp_path, vector)
    assert imported(path).task == Classification(tuple(f"class {i}" for i in range(6)))
    assert imported(path, TaskSettings(labels=tuple("abcdef"))).task == Classification(tuple("abcdef"))
    assert imported(path, TaskSettings(task="multi-label", score_threshold=0.3)).task == MultiLabel(
        tuple(f"class {i}" for i in range(6)), 0.3
    )
    assert imported(path, TaskSettings(task="embedding")).task == Embedding()


@pytest.mark.parametrize(
    ("count", "end", "text"),
    [
        (136, "", "136 numbers, as 68 landmarks have: --task keypoints takes them as such"),
        (42, "Sigmoid", "42 numbers, as 21 landmarks have: --task keypoints"),
        (512, "", "512 numbers, as embeddings have: --task embedding"),
        (6, "Tanh", "6 numbers, which nothing says to be scores"),
    ],
)
def test_a_vector_of_something_else_is_no_classification(count: int, end: str, text: str, tmp_path: Path) -> None:
    path = small(tmp_path, lambda net: net.node(end, vector(net, count)) if end else vector(net, count))
    with pytest.raises(ImportedFileError, match=text):
        imported(path)
    assert isinstance(imported(path, TaskSettings(task="classification")).task, Classification)


def test_a_sigmoid_at_the_end_means_several_labels(tmp_path: Path) -> None:
    path = small(tmp_path, lambda net: net.node("Sigmoid", vector(net)))
    result = import_network(path, tmp_path / "f", Pixels())
    assert isinstance(result.model.task, MultiLabel)
    assert type(result.model.layers[-1]).__name__ == "Dense"
    assert any("sigmoid at the end is left out" in note for note in result.notes)
    assert isinstance(imported(path, TaskSettings(task="classification")).task, Classification)


@pytest.mark.parametrize("ends", [("ArgMax", "Cast"), ("Softmax", "ArgMax", "Cast"), ("Softmax",), ("Sigmoid",), ()])
def test_a_map_of_labels_is_a_segmentation(tmp_path: Path, ends: tuple[str, ...]) -> None:
    settings: dict[str, dict[str, Any]] = {
        "ArgMax": {"axis": 1, "keepdims": 0},
        "Cast": {"to": 1},
        "Softmax": {"axis": 1},
        "Sigmoid": {},
    }

    def write(net: Network) -> str:
        end = net.conv("images", 4, 3, 2)
        for each in ends:
            end = net.node(each, end, **settings[each])
        return end

    path = small(tmp_path, write)
    if {"ArgMax", "Softmax"} & set(ends):
        assert imported(path).task == Segmentation(tuple(f"class {i}" for i in range(4)))
    else:
        with pytest.raises(ImportedFileError, match="--task segmentation takes it for scores of labels"):
            imported(path)
    model = imported(path, TaskSettings(task="segmentation", labels=tuple("abcd")))
    assert model.task == Segmentation(tuple("abcd"))
    assert type(model.layers[-1]).__name__ == "Relu"  # the channels are those of the convolution before it


def test_a_vector_of_coordinates_is_keypoints(tmp_path: Path) -> None:
    path = small(tmp_path, lambda net: net.node("Sigmoid", vector(net)))
    model = imported(path, TaskSettings(task="keypoints", point_layout="xys", point_unit="fraction"))
    assert model.task == Keypoints(("point 0", "point 1"), "xys", "fraction")
    assert type(model.layers[-1]).__name__ == "Function"
    assert imported(path, TaskSettings(task="keypoints", labels=tuple("abc"))).task == Keypoints(tuple("abc"))
    path = small(tmp_path, lambda net: vector(net, 7))
    with pytest.raises(ImportedFileError, match="has 7 numbers, expected 2 for each keypoint"):
        imported(path, TaskSettings(task="keypoints"))


def test_raw_takes_any_outputs_under_the_names_of_the_file(tmp_path: Path) -> None:
    names: list[str] = []

    def write(net: Network) -> list[str]:
        middle = net.conv("images", 4, 3, 2)
        names[:] = [net.node("Sigmoid", middle), net.dense(net.flat(net.mean(middle)), 3)]
        return names

    path = small(tmp_path, write)
    model = imported(path, TaskSettings(task="raw"))
    assert model.task == Raw(tuple(names))
    assert [type(layer).__name__ for layer in model.layers][-3:-1] == ["Function", "GlobalAverage"]
    with pytest.raises(
        ImportedFileError, match=f"--outputs {names[1]} --task keypoints .*, and --task raw takes all as numbers"
    ):
        imported(path)
    with pytest.raises(ImportedFileError, match="takes one of them; --task raw takes at most 4096 numbers, these are"):
        imported(small(tmp_path, write, 128))
    with pytest.raises(ModelError, match="the raw outputs have 16387 numbers, expected at most 4096"):
        import_network(small(tmp_path, write, 128), tmp_path / "f", Pixels(), TaskSettings(task="raw"))


def test_outputs_cut_the_network(tmp_path: Path) -> None:
    """An embedding is what a classification is made of; behind it is an operation that cannot be imported."""
    names: list[str] = []

    def write(net: Network) -> str:
        names.append(net.flat(net.mean(net.conv("images", 8, 3, 2))))
        return net.node("Erf", net.dense(names[0], 6))

    path = small(tmp_path, write)
    with pytest.raises(ImportedFileError, match="Erf"):
        imported(path)
    model = imported(path, TaskSettings(task="embedding", outputs=(names[0],)))
    assert (model.task, len(model.outputs)) == (Embedding(), 1)
    with pytest.raises(ImportedFileError, match="has no tensor 'conv', it has for example"):
        imported(path, TaskSettings(outputs=("conv",)))


def head(net: Network, *channels: int, strides: tuple[int, ...] = (2, 4)) -> list[list[str]]:
    """Convolutions of these channels for each grid."""
    found, x = [], net.conv("images", 8, 3, 1)
    for _ in strides:
        x = net.conv(x, 8, 3, 2)
        found.append([net.conv(x, count, 1, norm=False, act="") for count in channels])
    return found


def test_classes_of_tensorflow_have_a_background_that_is_left_out(tmp_path: Path) -> None:
    """Sigmoid scores, of which that of class 0 is not used."""

    def write(net: Network) -> list[str]:
        parts = head(net, 8, 2 * 4)
        rows = [
            [
                net.reshape(net.node("Transpose", part, perm=[0, 2, 3, 1]), 1, -1, 4)
                for part in (each[number] for each in parts)
            ]
            for number in (0, 1)
        ]
        boxes, classes = (net.node("Concat", *each, axis=1) for each in rows)
        return [net.node("Sigmoid", classes), net.node("Exp", boxes)]

    path = small(tmp_path, write)
    anchors = (((4.0, 4.0), (8.0, 6.0)), ((10.0, 10.0), (20.0, 12.0)))
    wide = TaskSettings(labels=tuple("abcd"), anchors=anchors, decoding="ssd", box_order="yxhw")
    narrow = replace(wide, labels=tuple("abc"))
    models = [imported(path, settings) for settings in (wide, narrow)]
    for model in models:
        assert isinstance(model.task, Detection)
        assert (model.task.background, model.task.box_order) == (False, "yxhw")
    (all_boxes, four), (boxes, three) = (decoded(model, image_of(32)) for model in models)
    np.testing.assert_array_equal(boxes, all_boxes)
    np.testing.assert_array_equal(three, four[:, 1:])


def test_a_decoding_in_the_file_is_passed(tmp_path: Path) -> None:
    """As YOLOv8 is exported: distances by softmax and a convolution with 0 .. 15, then arithmetic."""

    def write(net: Network) -> str:
        rows = [net.reshape(net.join(*parts), 1, 64 + 6, -1) for parts in head(net, 64, 6)]
        joined = net.node("Concat", *rows, axis=2)
        sizes = net.constant(np.array([64, 6], np.int64))
        bins = net.node("Split", joined, sizes, outputs=2, axis=1)
        seen = net.node("Transpose", net.reshape(bins, 1, 4, 16, 16 * 16 + 8 * 8), perm=[0, 2, 1, 3])
        weight = net.constant(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
        means = net.node("Conv", net.node("Softmax", seen, axis=1), weight)
        points = torch.cat([grid(16) + 0.5, grid(8) + 0.5]).T.numpy().astype(np.float32)[np.newaxis]
        strides = np.repeat([2, 4], [256, 64]).astype(np.float32).reshape(1, 1, -1)
        before = net.node("Split", net.reshape(means, 1, 4, -1), outputs=2, axis=1)
        ends = net.node("Sub", net.constant(points), before), net.node("Add", net.constant(points), f"{before}.1")
        boxes = net.node("Mul", net.node("Concat", *ends, axis=1), net.constant(strides))
        return net.node("Concat", boxes, net.node("Sigmoid", f"{bins}.1"), axis=1)

    model = imported(small(tmp_path, write), TaskSettings(labels=tuple("abcdef")))
    assert isinstance(model.task, Detection)
    assert [level.classes for level in model.task.levels] == list(model.outputs[1::2])
    assert (model.task.decoding, len(model.outputs)) == ("yolov8", 4)
    assert not any(type(layer).__name__ == "Concat" for layer in model.layers)


REFUSED: dict[str, tuple[Write, TaskSettings, str]] = {
    "anchors are missing": (
        lambda net: [part[0] for part in head(net, 24)],
        TaskSettings(),
        "decoding yolov3 needs the anchors of its 2 grids, finest first: --anchors",
    ),
    "anchors for another number of grids": (
        lambda net: [part[0] for part in head(net, 24)],
        TaskSettings(anchors=(((1.0, 1.0),) * 3,)),
        "has 2 grids, found anchors for 1",
    ),
    "another number of anchors": (
        lambda net: [part[0] for part in head(net, 24)],
        TaskSettings(anchors=(((1.0, 1.0),) * 5,) * 2),
        "expected one convolution of 5 . labels channels for each of 5 anchors",
    ),
    "the squares of YOLOv5": (
        lambda net: [
            net.node("Pow", net.node("Sigmoid", part[0]), net.constant(np.array(2, np.float32)))
            for part in head(net, 24)
        ],
        TaskSettings(anchors=(((1.0, 1.0),) * 3,) * 2),
        "the file computes boxes of 'conv.*in a way that is none of FastestDet, YuNet, YOLOX",
    ),
    "a map of anything": (
        lambda net: net.conv("images", 8, 3, 2),
        TaskSettings(),
        "gives 'relu.* of which the file says no meaning .the outputs come from Relu .*: --task segmentation takes it",
    ),
    "scores of boxes that are no vector": (
        lambda net: [
            net.node("Tanh", net.conv("images", 9, 3, 2)),
            net.node("Reshape", net.conv("images", 4, 3, 2), net.constant(np.array([1, 256, 4]))),
            net.node("Reshape", net.conv("images", 1, 3, 2), net.constant(np.array([1, 256]))),
        ],
        TaskSettings(),
        "no detection was recognized: the outputs come from Relu",
    ),
    "a map seen as a vector": (
        lambda net: net.flat(net.conv("images", 8, 3, 2)),
        TaskSettings(labels=tuple("abcdefgh")),
        "its vector is a map of 16x16 places with 8 numbers each, which only --task raw",
    ),
    "SSD without labels": (
        lambda net: [name for part in head(net, 8, 8) for name in part],
        TaskSettings(anchors=(((1.0, 1.0),) * 2,) * 2),
        "labels are needed to know whether the classes have a background",
    ),
    "labels of another number": (
        lambda net: [name for part in head(net, 4, 1, 6) for name in part],
        TaskSettings(labels=tuple("abc")),
        "has 6 labels, found 3 names for them",
    ),
    "anchors of YOLOX": (
        lambda net: [name for part in head(net, 4, 1, 6) for name in part],
        TaskSettings(anchors=(((1.0, 1.0),),) * 2),
        "decoding yolox has no anchors, found --anchors",
    ),
    "four convolutions": (
        lambda net: [name for part in head(net, 4, 1, 6, 10) for name in part],
        TaskSettings(),
        r"its last convolutions are 'conv\d+' \(16x16x4\)",
    ),
    "two outputs for a classification": (
        lambda net: [vector(net), vector(net)],
        TaskSettings(task="classification"),
        "has 2 outputs, expected 1 for a classification",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_is_not_recognized_gets_one_sentence(fault: str, tmp_path: Path) -> None:
    write, settings, text = REFUSED[fault]
    with pytest.raises(ImportedFileError, match=text):
        imported(small(tmp_path, write), settings)
