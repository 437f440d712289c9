"""ONNX files that are quantized already: their integers are kept, and each layer is ONNX Runtime's within one step."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from benchmarks.topologies import write_topology
from edgemeta.model.file import load
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Conv, Dense
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.onnx_network import import_onnx
from edgemeta.toolchain.importer.pixels import Pixels
from tests.toolchain.importer.qdq_steps import QdqRuntime, qdq_steps, quantized
from tests.toolchain.importer.test_operators import Nodes, integers, number, values, written
from tests.toolchain.importer.views import run

pytestmark = pytest.mark.filterwarnings("ignore")  # of the quantizer, about its own future


def rng() -> np.random.Generator:
    """The same numbers in every test, whatever ran before it."""
    return np.random.default_rng(9)


def tokens_of(n: Nodes, x: str) -> str:
    """The 72 pixels of the image as tokens of 6 channels, behind one that is constant."""
    return n("Concat", values(1, 1, 6), n("Transpose", n("Reshape", x, integers(1, 6, 72)), perm=[0, 2, 1]), axis=1)


def attention(n: Nodes, x: str) -> object:
    """Of two heads, with what encodes the places, and the half of its scores."""
    tokens = n("Add", tokens_of(n, x), values(1, 73, 6))
    q, k, v = (
        n("Transpose", n("Reshape", n("MatMul", tokens, values(6, 6)), integers(1, 73, 2, 3)), perm=[0, 2, *order])
        for order in ((1, 3), (3, 1), (1, 3))
    )
    shares = n("Softmax", n("Mul", n("MatMul", q, k), np.array(0.5, np.float32)), axis=-1)
    return n("Reshape", n("Transpose", n("MatMul", shares, v), perm=[0, 2, 1, 3]), integers(1, 73, 6))


CASES: dict[str, Callable[[Nodes, str], object]] = {
    "Add, Relu": lambda n, x: n("Relu", n("Add", x, n("Conv", x, values(6, 6, 1, 1)))),
    "Attention": attention,
    "AveragePool": lambda n, x: n("AveragePool", n("Relu", x), kernel_shape=[3, 2], strides=[2, 2]),
    "Clip": lambda n, x: n("Clip", n("Conv", x, values(6, 6, 1, 1)), number(0), number(1)),
    "Concat": lambda n, x: n("Concat", x, n("Conv", x, values(3, 6, 1, 1), values(3)), axis=1),
    "Conv": lambda n, x: n("Conv", x, values(8, 3, 3, 2), values(8), group=2, dilations=[2, 3], pads=[2, 0, 1, 3]),
    "ConvTranspose": lambda n, x: n(
        "ConvTranspose", x, values(6, 4, 3, 3), values(4), strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "Gemm": lambda n, x: n("Gemm", n("Flatten", x), values(5, 432), values(5), transB=1),
    "GlobalAveragePool": lambda n, x: n("GlobalAveragePool", x),
    "LayerNormalization, Gather": lambda n, x: n(
        "Gather", n("LayerNormalization", tokens_of(n, x), values(6), values(6), axis=-1), integers(0), axis=1
    ),
    "MatMul, Add": lambda n, x: n("Add", n("MatMul", n("Flatten", x), values(432, 5)), values(5)),
    "MaxPool": lambda n, x: n("MaxPool", x, kernel_shape=[3, 2], pads=[1, 0, 0, 1], strides=[1, 2]),
    "Mul": lambda n, x: n("Mul", x, n("Conv", x, values(6, 6, 1, 1))),
    "Mul, swish": lambda n, x: n("Mul", n("Sigmoid", x), x),
    "Reshape, Transpose": lambda n, x: n("Transpose", n("Reshape", x, integers(1, 6, -1)), perm=[0, 2, 1]),
    "Resize": lambda n, x: n(
        "Resize",
        x,
        "",
        np.array([1, 1, 3, 2], np.float32),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "Sigmoid": lambda n, x: n("Sigmoid", x),
}


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("name", CASES)
def test_a_quantized_operator_is_within_one_step_of_onnx_runtime(name: str, kind: str, tmp_path: Path) -> None:
    path = quantized(written(CASES[name], tmp_path), kind, per_channel=kind == "QInt8")
    steps = qdq_steps(path, rng().normal(0, 1, (4, 1, 3, 9, 8)).astype(np.float32)[:, 0])
    assert len(steps.layers) <= 2
    assert steps.layers[1:].sum() <= 0.02 * steps.layers.sum()  # averages of six lie between two integers often


OF_FLOATS = ("ConvTranspose", "LayerNormalization, Gather")


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("name", [*(name for name in CASES if name not in OF_FLOATS), "LeakyRelu", "MaxPool, Conv"])
def test_an_operator_of_integers_is_within_one_step_of_onnx_runtime(name: str, kind: str, tmp_path: Path) -> None:
    """QOperator, which leaves some in float."""
    path = quantized(written((CASES | OF_INTEGERS)[name], tmp_path), kind, "QOperator", kind == "QInt8")
    steps = qdq_steps(path, rng().normal(0, 1, (4, 1, 3, 9, 8)).astype(np.float32)[:, 0])
    assert len(steps.layers) <= 2
    assert steps.layers[1:].sum() <= 0.02 * steps.layers.sum()


OF_INTEGERS: dict[str, Callable[[Nodes, str], object]] = {
    "LeakyRelu": lambda n, x: n("LeakyRelu", x, alpha=0.2),
    "MaxPool, Conv": lambda n, x: n("Conv", n("MaxPool", x, kernel_shape=[2, 2]), values(4, 6, 1, 1)),
}


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("name", ["Conv", "Gemm"])
def test_uint8_weights_with_a_zero_point_are_near_those_of_onnx_runtime(name: str, form: str, tmp_path: Path) -> None:
    path = quantized(written(CASES[name], tmp_path), "QUInt8", form, per_channel=False, weights="QUInt8")
    steps = qdq_steps(path, rng().normal(0, 1, (4, 1, 3, 9, 8)).astype(np.float32)[:, 0])
    assert steps.layers[1:].sum() <= 0.1 * steps.layers.sum()
    assert steps.layers[2:].sum() <= 0.01 * steps.layers.sum()


@pytest.mark.parametrize("weights", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("name", ["Conv", "Gemm", "MatMul, Add"])
def test_dynamic_quantization_is_the_float_network_of_its_weights(name: str, weights: str, tmp_path: Path) -> None:
    path, target = written(CASES[name], tmp_path), tmp_path / "dynamic.onnx"
    quantize_dynamic(str(path), str(target), weight_type=QuantType[weights], per_channel=weights == "QInt8")
    assert any(node.op_type.endswith("Integer") for node in onnx.load(str(target)).graph.node)
    assert not import_onnx(target)[1].quantized
    assert largest_difference(target) < 0.02  # of the activations, which are rounded for each image


@pytest.mark.parametrize("kind", ["QInt16", "QUInt16"])
@pytest.mark.parametrize("name", ["Conv", "Gemm", "Concat", "Mul, swish"])
def test_activations_of_16_bits_are_a_float_network(name: str, kind: str, tmp_path: Path) -> None:
    path = quantized(written(CASES[name], tmp_path), kind)
    _, imported = import_onnx(path)
    assert not imported.quantized
    assert "16 bits" in imported.notes[0]
    assert largest_difference(path) < 5e-4


def largest_difference(path: Path) -> float:
    """Between the imported float network and ONNX Runtime on a random image, as a share of the output's range."""
    network, imported = import_onnx(path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options)
    image = rng().normal(0, 0.4, network.input_shape).astype(np.float32)  # within the ranges that were measured
    (wanted,), found = session.run(None, {network.input: image}), run(imported, image)
    got = found[session.get_outputs()[0].name]
    assert got.shape == wanted.shape
    return float(np.abs(got - wanted).max() / np.ptp(wanted))


@pytest.mark.gate("20 s: whole networks are quantized")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "squeezenet"])
def test_each_layer_of_a_network_is_within_one_step_of_onnx_runtime(name: str, tmp_path: Path) -> None:
    path = quantized(write_topology(name, tmp_path, 64))
    steps = qdq_steps(path, rng().normal(0, 1, (2, 3, 64, 64)).astype(np.float32))
    assert len(steps.layers) <= 2
    assert steps.layers[1:].sum() <= 0.005 * steps.layers.sum()


@pytest.mark.gate("10 s: a whole network is quantized")
def test_each_layer_of_a_network_of_integer_operators_is_within_one_step_of_onnx_runtime(tmp_path: Path) -> None:
    path = quantized(write_topology("squeezenet", tmp_path, 64), form="QOperator")
    steps = qdq_steps(path, rng().normal(0, 1, (1, 3, 64, 64)).astype(np.float32))
    assert len(steps.layers) <= 2
    assert steps.layers[1:].sum() <= 0.005 * steps.layers.sum()


def test_a_qdq_file_becomes_a_model_that_runs(tmp_path: Path) -> None:
    path, out = quantized(written(CASES["Gemm"], tmp_path)), tmp_path / "model.safetensors"
    labels = TaskSettings(labels=("a", "b", "c", "d", "e"))
    result = import_network(path, out, Pixels((128.0,), (60.0,)), labels)
    assert result.layers == {"Conv": 1, "Dense": 1}
    assert load(out).labels == ("a", "b", "c", "d", "e")


def with_float_weights(path: Path, rest: float) -> Path:
    """The file with weights of float32 in front of a QuantizeLinear, each `rest` of a step above its integer."""
    model, target = onnx.load(str(path)), path.with_suffix(".float.onnx")
    stored = {each.name: each for each in model.graph.initializer}
    nodes = []
    for node in model.graph.node:
        weights = stored.get(node.input[0])
        if node.op_type == "DequantizeLinear" and weights is not None and len(weights.dims) > 1:
            integers, scale = (numpy_helper.to_array(stored[name]) for name in node.input[:2])
            axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
            sides = [-1 if number == axis else 1 for number in range(integers.ndim)] if scale.size > 1 else []
            real = ((integers + np.float32(rest)) * scale.reshape(sides)).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(real, f"{node.name}.real"))
            codes = f"{node.name}.codes"
            nodes.append(helper.make_node("QuantizeLinear", [f"{node.name}.real", *node.input[1:]], [codes], axis=axis))
            node.input[0] = codes
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, str(target))
    return target


@pytest.mark.parametrize("rest", [-0.4, 0.4])
@pytest.mark.parametrize("name", ["Conv", "Gemm"])
def test_float_weights_behind_quantize_linear_are_rounded_to_the_nearest(
    name: str, rest: float, tmp_path: Path
) -> None:
    path = quantized(written(CASES[name], tmp_path))
    for stored, rounded in zip(
        QdqRuntime(path).made.layers, QdqRuntime(with_float_weights(path, rest)).made.layers, strict=True
    ):
        assert isinstance(stored, Conv | Dense)
        assert isinstance(rounded, Conv | Dense)
        np.testing.assert_array_equal(stored.weights.decode(), rounded.weights.decode())


def test_another_form_of_quantization_is_refused(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "xy")
    nodes = [helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], name="joined", domain="com.microsoft")]
    constants = [numpy_helper.from_array(np.ones((8, 8), np.int8), "w"), numpy_helper.from_array(np.float32(1), "s")]
    graph, path = helper.make_graph(nodes, "small", [x], [y], constants), tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, ir_version=8), str(path))
    with pytest.raises(
        ImportedFileError, match=r"DynamicQuantizeMatMul 'joined' is of another form of quantization, expected Quantize"
    ):
        import_onnx(path)


def test_a_scale_that_is_computed_is_refused(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "xy")
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["scale"], keepdims=0),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="quantize"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    zero = numpy_helper.from_array(np.int8(0), "zero")
    path = tmp_path / "net.onnx"
    graph = helper.make_graph(nodes, "small", [x], [y], [zero])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    with pytest.raises(ImportedFileError, match="'quantize' has a computed scale or one for each block"):
        import_onnx(path)


def test_a_relu_behind_a_layer_whose_result_has_no_scale_is_kept(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3, s, s]) for n, s in (("x", 6), ("y", 5)))
    step, zero = (
        numpy_helper.from_array(np.array(0.05, np.float32), "step"),
        numpy_helper.from_array(np.int8(3), "zero"),
    )
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "step", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["d"]),
        helper.make_node("MaxPool", ["d"], ["pooled"], kernel_shape=[2, 2], strides=[1, 1]),
        helper.make_node("Relu", ["pooled"], ["positive"]),
        helper.make_node("QuantizeLinear", ["positive", "step", "zero"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "step", "zero"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "relu", [x], [y], [step, zero])
    path = tmp_path / "relu.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
    runtime = QdqRuntime(path)
    pixels = rng().integers(-128, 128, (1, 6, 6, 3)).astype(np.int8)
    real = ((pixels - np.float32(3)) * np.float32(0.05)).transpose(0, 3, 1, 2)
    wanted = np.rint(runtime(real)["y"] / np.float32(0.05)) + 3
    made, tensors = runtime.made, {INPUT: pixels}
    for layer in made.layers:
        sources = [made.types[name] for name in layer.sources]
        tensors[layer.name] = layer.integers([tensors[name] for name in layer.sources], sources)
    np.testing.assert_array_equal(tensors[made.outputs[0]], wanted.transpose(0, 2, 3, 1))
