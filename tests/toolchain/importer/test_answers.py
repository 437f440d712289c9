"""Ends of classifications: what a file computes of its logits is left out, whatever the change of type behind it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.tasks import Classification, MultiLabel
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import ImportResult, import_network
from edgemeta.toolchain.importer.pixels import Pixels
from tests.toolchain.importer.test_operators import Nodes, image, values
from tests.toolchain.importer.tflite_writer import Scale, TfliteNet

Ends = Callable[[Nodes, str], object]


def imported(path: Path, settings: TaskSettings | None = None, **options: Any) -> ImportResult:
    return import_network(path, path.with_suffix(".safetensors"), options, settings)


def classifier(
    folder: Path, end: Ends | None, labels: int = 5, shape: tuple[Any, ...] = (1, 3, 8, 9), opset: int = 13
) -> Path:
    net = Nodes()
    pooled = net("Flatten", net("GlobalAveragePool", image(net)))
    logits = net("Gemm", pooled, values(labels, 6), transB=1)
    if end is not None:
        end(net, logits)
    return net.write(folder / "net.onnx", opset, shape)


def integer_classifier(folder: Path, end: Callable[[TfliteNet, int], int]) -> Path:
    net, rng = TfliteNet(), np.random.default_rng(1)
    x = net.tensor((1, 4, 4, 3), "int8", Scale((1 / 255,), (-128,)))
    weights = net.constant(rng.integers(-127, 128, (4, 48)).astype(np.int8), Scale((0.01,)))
    bias = net.constant(np.zeros(4, np.int32), Scale((0.01 / 255,)))
    flat = net("RESHAPE", [x, net.constant(np.array([1, 48], np.int32))], (1, 48))
    logits = net("FULLY_CONNECTED", [flat, weights, bias], (1, 4), "FullyConnectedOptions", scale=Scale((0.02,), (0,)))
    return net.write(folder / "net.tflite", x, [end(net, logits)])


ENDS: dict[str, Ends] = {
    "softmax": lambda n, x: n("Softmax", x, axis=1),
    "log softmax": lambda n, x: n("LogSoftmax", x, axis=-1),
    "best": lambda n, x: n("Cast", n("ArgMax", x, axis=1, keepdims=0), to=TensorProto.FLOAT),
    "best of the softmax": lambda n, x: n("ArgMax", n("Softmax", x, axis=1), axis=1),
    "softmax of more axes": lambda n, x: n(
        "Softmax", n("Reshape", x, np.array([1, 5, 1, 1])), axis=1
    ),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_what_is_made_of_logits_is_left_out(end: str, tmp_path: Path) -> None:
    result = imported(classifier(tmp_path, ENDS[end]))
    assert isinstance(result.model, FloatModel)
    assert isinstance(result.model.task, Classification)
    assert len(result.model.labels) == 5
    assert result.model.layers[-1].name == "t3.0"
    assert "is left out: scores are computed from the logits before it" in result.notes[0]


def test_a_softmax_without_an_axis_has_that_of_its_version(tmp_path: Path) -> None:
    """As SqueezeNet in the zoo of ONNX: the second axis, not the last one."""
    end: Ends = lambda n, x: n("Softmax", n("Reshape", x, np.array([1, 5, 1, 1])))  # noqa: E731
    result = imported(classifier(tmp_path, end, opset=11))
    assert isinstance(result.model, FloatModel)
    assert isinstance(result.model.task, Classification)
    assert result.difference is not None
    assert result.difference < 1e-4


INTEGER_ENDS: dict[str, Callable[[TfliteNet, int], int]] = {
    "a softmax and uint8": lambda n, x: n(
        "QUANTIZE",
        [n("SOFTMAX", [x], (1, 4), "SoftmaxOptions", Scale((1 / 256,), (-128,)), Beta=1.0)],
        (1, 4), scale=Scale((1 / 256,), (0,)), kind="uint8",
    ),
    "a softmax and float": lambda n, x: n(
        "DEQUANTIZE", [n("SOFTMAX", [x], (1, 4), "SoftmaxOptions", Scale((1 / 256,), (-128,)), Beta=1.0)], (1, 4),
        kind="float32", scale=None,
    ),
    "a softmax of float": lambda n, x: n(
        "SOFTMAX", [n("DEQUANTIZE", [x], (1, 4), kind="float32")], (1, 4), "SoftmaxOptions", Beta=1.0
    ),
}  # fmt: skip


@pytest.mark.parametrize("end", INTEGER_ENDS)
def test_integers_end_with_the_logits(end: str, tmp_path: Path) -> None:
    model = imported(integer_classifier(tmp_path, INTEGER_ENDS[end]), deviation=(255.0,)).model
    assert isinstance(model, Model)
    assert model.output_types[0].scale == pytest.approx(0.02)  # not the 1 / 256 of probabilities
    assert isinstance(model.task, Classification)


def test_sigmoids_are_several_labels(tmp_path: Path) -> None:
    model = imported(classifier(tmp_path, lambda n, x: n("Sigmoid", x))).model
    assert isinstance(model.task, MultiLabel)


@pytest.mark.parametrize(("labels", "what"), [(1, "one number"), (2, "2 numbers")])
def test_few_numbers_are_no_classification_unless_it_is_said(labels: int, what: str, tmp_path: Path) -> None:
    path = classifier(tmp_path, None, labels)
    with pytest.raises(ImportedFileError, match=f"its result is {what}, which nothing says to be scores"):
        imported(path)
    said = TaskSettings(task="classification")
    if labels == 1:
        with pytest.raises(ImportedFileError, match="one number"):
            imported(path, said)
    else:
        assert len(imported(path, said).model.labels) == 2


def test_a_vector_without_a_softmax_has_a_note(tmp_path: Path) -> None:
    assert any("taken for the logits of labels" in note for note in imported(classifier(tmp_path, None)).notes)


def test_a_cast_to_integers_is_refused(tmp_path: Path) -> None:
    def inside(net: Nodes, logits: str) -> object:
        return net("Add", net("Cast", net("Cast", logits, to=TensorProto.INT32), to=TensorProto.FLOAT), logits)

    with pytest.raises(ImportedFileError, match="a cast to integers, which cuts off the rest"):
        imported(classifier(tmp_path, inside))
    cut_off = classifier(tmp_path, lambda n, x: n("Cast", n("Softmax", x, axis=1), to=TensorProto.INT32))
    with pytest.raises(ImportedFileError, match="a cast to integers"):
        imported(cut_off)


def test_one_channel_is_gray(tmp_path: Path) -> None:
    net = Nodes()
    net("Flatten", net("GlobalAveragePool", net("Conv", "x", values(6, 1, 1, 1))))
    model = imported(net.write(tmp_path / "net.onnx", 13, (1, 1, 8, 9))).model
    assert isinstance(model, FloatModel)
    assert model.colour == "gray"


def test_names_in_the_file_are_those_of_labels(tmp_path: Path) -> None:
    path = classifier(tmp_path, ENDS["softmax"], 3, (1, 3, "height", "width"))
    proto = onnx.load(str(path))
    onnx.helper.set_model_props(proto, {"names": "{0: 'open', 1: \"it's\", 2: 'open'}", "imgsz": "[8, 9]"})
    onnx.save(proto, str(path))
    result = imported(path)
    assert result.model.labels == ("open", "it's", "open")
    assert isinstance(result.model, FloatModel)
    assert result.model.input_shape == (8, 9, 3)
    assert imported(path, TaskSettings(labels=("a", "b", "c"))).model.labels == ("a", "b", "c")
    given = import_network(path, tmp_path / "other.safetensors", Pixels(), None, size=(16, 16)).model
    assert isinstance(given, FloatModel)
    assert given.input_shape == (16, 16, 3)
