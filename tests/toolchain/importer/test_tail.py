"""What is computed behind the convolutions of a detection is what ONNX Runtime and LiteRT compute."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgemeta.model.float_reference import all_tensors
from edgemeta.model.graph import FloatModel
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.importer.heads.tail import MAX_ELEMENTS, Tail, computed
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.tflite_file import read_tflite
from tests.toolchain.importer.float_results import float_reader
from tests.toolchain.importer.tflite_writer import TfliteNet

Array = NDArray[Any]
RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (1, 4, 6, 5)).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


ONNX: dict[str, tuple[str, list[Array], dict[str, Any], int]] = {
    "Add": ("Add", [X, X[:, :1]], {}, 1),
    "Sub": ("Sub", [X, X[..., :1]], {}, 1),
    "Mul": ("Mul", [X, np.float32(2)], {}, 1),  # type: ignore[list-item]
    "Div": ("Div", [X, X + 3], {}, 1),
    "Pow": ("Pow", [X + 2, np.float32(2)], {}, 1),  # type: ignore[list-item]
    "Max of three": ("Max", [X, -X, X * 0], {}, 1),
    "Min": ("Min", [X, -X], {}, 1),
    "Exp": ("Exp", [X], {}, 1),
    "Sigmoid": ("Sigmoid", [X], {}, 1),
    "Tanh": ("Tanh", [X], {}, 1),
    "Relu": ("Relu", [X], {}, 1),
    "Floor": ("Floor", [X * 5], {}, 1),
    "Softmax": ("Softmax", [X], {"axis": 1}, 1),
    "Clip": ("Clip", [X, np.float32(-0.2), np.float32(0.4)], {}, 1),  # type: ignore[list-item]
    "Cast": ("Cast", [X * 5], {"to": TensorProto.INT64}, 1),
    "Reshape": ("Reshape", [X, ints(0, 2, -1)], {}, 1),
    "Flatten": ("Flatten", [X], {"axis": 2}, 1),
    "Squeeze": ("Squeeze", [X, ints(0)], {}, 1),
    "Unsqueeze": ("Unsqueeze", [X, ints(0, 3)], {}, 1),
    "Transpose": ("Transpose", [X], {"perm": [0, 2, 3, 1]}, 1),
    "Transpose without an order": ("Transpose", [X], {}, 1),
    "Concat": ("Concat", [X, X * 2], {"axis": -1}, 1),
    "Slice": ("Slice", [X, ints(1, 0), ints(3, 99), ints(1, 3), ints(1, 2)], {}, 1),
    "Slice backwards": ("Slice", [X, ints(-1), ints(-(1 << 40)), ints(2), ints(-1)], {}, 1),
    "Split": ("Split", [X, ints(1, 3)], {"axis": 1}, 2),
    "Split in equal parts": ("Split", [X], {"axis": 2}, 3),
    "Gather": ("Gather", [X, ints(2, 0)], {"axis": 1}, 1),
    "Expand": ("Expand", [X[:, :1], ints(1, 4, 1, 1)], {}, 1),
    "Tile": ("Tile", [X, ints(1, 2, 1, 1)], {}, 1),
    "MatMul": ("MatMul", [X, X[0, 0].T], {}, 1),
    "ReduceMax": ("ReduceMax", [X], {"axes": [1], "keepdims": 0}, 1),
    "ReduceSum": ("ReduceSum", [X, ints(3)], {"keepdims": 1}, 1),
    "Where": ("Where", [X > 0, X, -X], {}, 1),
    "ScatterND": ("ScatterND", [X, ints(0, 2).reshape(1, 2), X[0, :1]], {}, 1),
    "Conv of one pixel": ("Conv", [X, X[:, :4, :1, :1], np.float32([0.5])], {}, 1),
}


@pytest.mark.parametrize("case", ONNX)
def test_operators_give_what_onnx_runtime_gives(case: str) -> None:
    op, values, attributes, outputs = ONNX[case]
    names, made = [f"i{i}" for i in range(len(values))], [f"o{i}" for i in range(outputs)]
    arrays = [np.asarray(each) for each in values]
    types = [helper.np_dtype_to_tensor_dtype(each.dtype) for each in arrays]
    inputs = [
        helper.make_tensor_value_info(name, kind, each.shape)
        for name, kind, each in zip(names[:1], types, arrays, strict=False)
    ]
    constants = [numpy_helper.from_array(each, name) for each, name in zip(arrays[1:], names[1:], strict=True)]
    kind = TensorProto.INT64 if op == "Cast" else TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(op, names, made, **attributes)],
        "one",
        inputs,
        [helper.make_tensor_value_info(name, kind, None) for name in made],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"i0": arrays[0]})
    found = computed(Node(op, "", tuple(names), tuple(made), attributes), arrays)
    assert found is not None
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_operators_of_old_files_have_their_numbers_as_attributes() -> None:
    for op, attributes, wanted in (
        ("Slice", {"starts": (1,), "ends": (3,), "axes": (1,)}, X[:, 1:3]),
        ("Squeeze", {"axes": (0,)}, X[0]),
        ("Unsqueeze", {"axes": (1,)}, X[:, np.newaxis]),
        ("Clip", {"min": -0.1, "max": 0.1}, X.clip(-0.1, 0.1)),
    ):
        (found,) = computed(Node(op, "", ("x",), ("y",), attributes), [X]) or [np.empty(0)]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("op", "values", "attributes"),
    [
        ("Erf", [X], {}),
        ("Add", [X, np.zeros((7,))], {}),
        ("Tile", [X, ints(1, 1000, 1000, 1000)], {}),
        ("Add", [np.zeros((MAX_ELEMENTS // 4, 1)), np.zeros((1, 5))], {}),
        ("Reshape", [X, ints(7, 7)], {}),
        ("Conv", [X, X[:, :4, :3, :3]], {}),
        ("ADD", [X, X], {"act": 1}),
    ],
)
def test_what_cannot_be_computed_is_none(op: str, values: list[Array], attributes: dict[str, Any]) -> None:
    assert computed(Node(op, "", ("a", "b"), ("c",), attributes), values) is None


def interpreter_of(path: Path) -> Any:
    """LiteRT's reference kernels on a file; every tensor can be read."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_REF
    interpreter = Interpreter(str(path), experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    return interpreter


def test_operators_of_tflite_give_what_litert_gives(tmp_path: Path) -> None:
    """Each follows from one convolution; all of them are outputs."""
    net = TfliteNet()
    image = net.tensor((1, 8, 8, 3))
    weight, bias = (
        net.constant(RNG.normal(0, 0.3, (6, 1, 1, 3)).astype(np.float32)),
        net.constant(np.zeros(6, np.float32)),
    )
    x = net(
        "CONV_2D",
        [image, weight, bias],
        (1, 8, 8, 6),
        "Conv2DOptions",
        StrideW=1,
        StrideH=1,
        DilationWFactor=1,
        DilationHFactor=1,
    )

    def numbers(*values: int) -> int:
        return net.constant(np.array(values, np.int32))

    zero = net.constant(np.array(3, np.int32))
    begin, end, step = numbers(0, 1, 0, 2), numbers(1, 7, 8, 5), numbers(1, 2, 1, 1)
    masks = {"BeginMask": 1, "EndMask": 4, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0}
    mean = net.constant(np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6))
    outputs = [
        net("LOGISTIC", [x], (1, 8, 8, 6)),
        net("SOFTMAX", [x], (1, 8, 8, 6), "SoftmaxOptions", Beta=1.0),
        net("TANH", [x], (1, 8, 8, 6)),
        net("EXP", [x], (1, 8, 8, 6)),
        net("SQUARE", [x], (1, 8, 8, 6)),
        net("STRIDED_SLICE", [x, begin, end, step], (1, 3, 8, 3), "StridedSliceOptions", **masks),
        net("SLICE", [x, numbers(0, 1, 0, 0), numbers(1, -1, 2, 6)], (1, 7, 2, 6), "SliceOptions"),
        net("SPLIT", [zero, x], [(1, 8, 8, 3), (1, 8, 8, 3)], "SplitOptions", NumSplits=2),
        net("SPLIT_V", [x, numbers(2, 4), zero], [(1, 8, 8, 2), (1, 8, 8, 4)], "SplitVOptions", NumSplits=2),
        net("PACK", [x, x], (2, 1, 8, 8, 6), "PackOptions", ValuesCount=2, Axis=0),
        net("UNPACK", [x], [(1, 8, 8)] * 6, "UnpackOptions", Num=6, Axis=3),
        net("GATHER", [x, numbers(4, 0)], (1, 8, 8, 2), "GatherOptions", Axis=3, BatchDims=0),
        net("TRANSPOSE", [x, numbers(0, 3, 1, 2)], (1, 6, 8, 8), "TransposeOptions"),
        net("RESHAPE", [x, numbers(1, -1, 3)], (1, 128, 3), "ReshapeOptions"),
        net("EXPAND_DIMS", [x, numbers(1)], (1, 1, 8, 8, 6), "ExpandDimsOptions"),
        net("SUM", [x, numbers(3)], (1, 8, 8), "ReducerOptions", KeepDims=False),
        net("REDUCE_MAX", [x, numbers(3)], (1, 8, 8, 1), "ReducerOptions", KeepDims=True),
        net("MAXIMUM", [x, bias], (1, 8, 8, 6), "MaximumMinimumOptions"),
        net(
            "CONV_2D",
            [x, mean, net.constant(np.float32([1.0]))],
            (1, 8, 8, 1),
            "Conv2DOptions",
            StrideW=1,
            StrideH=1,
            DilationWFactor=1,
            DilationHFactor=1,
        ),
    ]
    path = net.write(tmp_path / "ends.tflite", image, outputs)
    interpreter = interpreter_of(path)
    interpreter.set_tensor(image, RNG.uniform(-1, 1, (1, 8, 8, 3)).astype(np.float32))
    interpreter.invoke()
    graph = read_tflite(path)
    source = f"t{x}"
    found = Tail(graph, [source]).run({source: interpreter.get_tensor(x).astype(np.float64)})
    for number in outputs:
        wanted = interpreter.get_tensor(number)
        assert found[f"t{number}"].shape == wanted.shape
        np.testing.assert_allclose(found[f"t{number}"], wanted, rtol=1e-5, atol=1e-6)


def test_the_end_of_tensorflow_gives_the_objects_of_litert(tmp_path: Path) -> None:
    """TFLite_Detection_PostProcess: anchors, scales and the number of labels are those of the file.

    Its suppression is across labels, so that here it leaves out nothing.
    """
    net, labels = TfliteNet(), 3
    image = net.tensor((1, 32, 32, 3))
    options = {"StrideW": 8, "StrideH": 8, "DilationWFactor": 1, "DilationHFactor": 1}
    ends = []
    for channels in (8, 2 * (labels + 1)):
        weight = net.constant(RNG.normal(0, 0.1, (channels, 8, 8, 3)).astype(np.float32))
        bias = net.constant(RNG.normal(0, 1, channels).astype(np.float32))
        end = net("CONV_2D", [image, weight, bias], (1, 4, 4, channels), "Conv2DOptions", **options)
        width = channels // 2
        shape = net.constant(np.array([1, 32, width], np.int32))
        ends.append(net("RESHAPE", [end, shape], (1, 32, width), "ReshapeOptions"))
    scores = net("LOGISTIC", ends[1:], (1, 32, labels + 1))
    y, x = (np.mgrid[:4, :4].reshape(2, -1) + 0.5) / 4
    rows = [[a, b, h, w] for a, b in zip(y, x, strict=True) for h, w in ((0.2, 0.3), (0.5, 0.4))]
    anchors = net.constant(np.array(rows, np.float32))
    first = net(
        "CUSTOM TFLite_Detection_PostProcess",
        [ends[0], scores, anchors],
        [(1, 32, 4), (1, 32), (1, 32), (1,)],
        None,
        kind="float32",
        max_detections=32,
        max_classes_per_detection=1,
        nms_score_threshold=0.0,
        nms_iou_threshold=0.99,
        num_classes=labels,
        y_scale=10.0,
        x_scale=8.0,
        h_scale=5.0,
        w_scale=5.0,
    )
    path = net.write(tmp_path / "ssd.tflite", image, [first, first + 1, first + 2, first + 3])
    with pytest.raises(Exception, match="in a way that is none of"):  # two scales for one variance
        import_network(path, tmp_path / "m.safetensors", {})
    net.operations[-1][4]["x_scale"] = 10.0
    path = net.write(tmp_path / "ssd.tflite", image, [first, first + 1, first + 2, first + 3])
    model = import_network(
        path, tmp_path / "m.safetensors", {}, TaskSettings(score_threshold=0.001, max_objects=32)
    ).model
    assert isinstance(model, FloatModel)
    assert isinstance(model.task, Detection)
    assert (model.task.box_order, model.task.overlap_threshold, len(model.labels)) == ("yxhw", 0.99, labels)
    pixels = RNG.uniform(-1, 1, (1, 32, 32, 3)).astype(np.float32)
    objects = float_reader(model)(all_tensors(model, pixels)).objects
    interpreter = interpreter_of(path)
    interpreter.set_tensor(image, pixels)
    interpreter.invoke()
    boxes, classes, theirs, count = (
        interpreter.get_tensor(each["index"])[0] for each in interpreter.get_output_details()
    )
    assert int(count) == len(objects) == 32
    assert [each.label for each in objects] == [f"class {int(number)}" for number in classes]
    np.testing.assert_allclose([each.score for each in objects], theirs, atol=1e-5)
    wanted = boxes[:, [1, 0, 3, 2]].clip(0, 1) * 32
    np.testing.assert_allclose([each.box for each in objects], wanted, atol=1e-3)
