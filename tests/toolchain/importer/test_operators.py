"""Operators one by one, in the forms in which exporters write them: equal to ONNX Runtime, or refused by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgemeta.model.layers import Function, Product, Relu
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.onnx_network import OPERATORS, import_onnx
from tests.toolchain.importer.views import expected, largest_difference, run

RNG = np.random.default_rng(3)
SHAPE = (1, 6, 9, 8)


def values(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(0, 1, shape).astype(np.float32)


def number(value: float) -> np.ndarray[Any, Any]:
    return np.array(value, np.float32)


def integers(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


class Nodes:
    """Writes a small network; the last node's outputs are the network's."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, op: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> str:
        names = []
        for value in inputs:
            if isinstance(value, np.ndarray):
                self.constants.append(numpy_helper.from_array(value, f"c{len(self.constants)}"))
                names.append(self.constants[-1].name)
            else:
                names.append(value)
        made = [f"t{len(self.nodes)}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, name=f"node{len(self.nodes)}", **attributes))
        return made[0]

    def write(self, path: Path, opset: int = 13, shape: tuple[Any, ...] = SHAPE) -> Path:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.nodes[-1].output]
        graph = helper.make_graph(self.nodes, "small", [x], results, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.save(model, str(path))
        return path


def image(n: Nodes) -> str:
    """Of six channels, from one of three."""
    return n("Conv", "x", values(6, 3, 1, 1))


def tokens(n: Nodes, x: str) -> str:
    """[1, 72, 6]: the pixels of a map."""
    return n("Transpose", n("Reshape", x, integers(1, 6, 72)), perm=[0, 2, 1])


def heads(n: Nodes, x: str, *order: int) -> str:
    """[1, 2, 72, 3] or with its last axes exchanged, of tokens."""
    return n("Transpose", n("Reshape", x, integers(1, 72, 2, 3)), perm=list(order))


def gelu_of(n: Nodes, x: str, tanh: bool = False) -> str:
    """As exporters write it."""
    if not tanh:
        total = n("Add", n("Erf", n("Div", x, number(2**0.5))), number(1))
        return n("Mul", n("Mul", x, total), number(0.5))
    cubic = n("Add", x, n("Mul", n("Pow", x, number(3)), number(0.044715)))
    total = n("Add", n("Tanh", n("Mul", cubic, number((2 / np.pi) ** 0.5))), number(1))
    return n("Mul", n("Mul", x, number(0.5)), total)


def norm_of(n: Nodes, x: str, axis: int) -> str:
    """A layer norm as operations, with a factor for each of six channels."""
    away = n("Sub", x, n("ReduceMean", x, axes=[axis]))
    variance = n("ReduceMean", n("Pow", away, number(2)), axes=[axis])
    normed = n("Div", away, n("Sqrt", n("Add", variance, number(1e-5))))
    return n("Add", n("Mul", normed, values(6)), values(6))


def attention_of(n: Nodes, x: str) -> str:
    """Two heads, a class token, positions, and a scale."""
    x = n("Add", n("Concat", values(1, 1, 6), tokens(n, x), axis=1), values(1, 73, 6))
    three = n("Reshape", n("MatMul", x, values(6, 18)), integers(1, 73, 3, 2, 3))
    q, k, v = (
        n("Gather", n("Transpose", three, perm=[2, 0, 3, 1, 4]), np.array(each, np.int64), axis=0) for each in range(3)
    )
    scores = n("Mul", n("MatMul", q, n("Transpose", k, perm=[0, 1, 3, 2])), number(0.577))
    y = n("MatMul", n("Softmax", scores, axis=-1), v)
    y = n("Add", x, n("Reshape", n("Transpose", y, perm=[0, 2, 1, 3]), integers(1, 73, 6)))
    return n("Gather", y, np.array(0, np.int64), axis=1)


def halves(n: Nodes, x: str) -> None:
    """ShuffleNetV2's shuffle in three axes, then each half of the channels by itself."""
    turned = n("Transpose", n("Reshape", x, integers(3, 2, 72)), perm=[1, 0, 2])
    parts = n("Reshape", turned, integers(2, -1, 3, 9, 8))
    n("Sub", n("Gather", parts, np.array(0), axis=0), n("Gather", parts, np.array(1), axis=0))


def channel_attention(n: Nodes, x: str) -> str:
    """ECA: a convolution along the channels."""
    means = n("Reshape", n("GlobalAveragePool", x), integers(1, 1, -1))
    gate = n("Sigmoid", n("Conv", means, values(1, 1, 3), pads=[1, 1]))
    return n("Mul", x, n("Reshape", gate, integers(1, 6, 1, 1)))


def separable_attention(n: Nodes, x: str) -> str:
    """MobileViTv2: a context score for each of 24 positions of three parts, summed and spread over them."""
    folded = n("Transpose", n("Reshape", x, integers(1, 6, 3, 3, 2, 4)), perm=[0, 1, 2, 4, 3, 5])
    seen = n("Reshape", folded, integers(1, 6, 6, 12))
    score = n("Softmax", n("Conv", seen, values(1, 6, 1, 1)), axis=-1)
    context = n("ReduceSum", n("Mul", seen, score), integers(-1), keepdims=1)
    return n("Mul", n("Relu", seen), n("Expand", context, integers(1, 6, 6, 12)))


def relative_positions(n: Nodes, x: str) -> str:
    """BoTNet: the columns of a product as distances, by padding and another shape, then repeated."""
    rows = n("Transpose", n("Reshape", x, integers(6, 9, 8)), perm=[0, 1, 2])
    flat = n("Flatten", n("Pad", n("MatMul", rows, values(8, 17)), integers(0, 0, 0, 0, 0, 1)), axis=1)
    moved = n("Reshape", n("Pad", flat, integers(0, 0, 0, 8)), integers(6, 10, 17))
    return n("Relu", n("Expand", n("Reshape", moved, integers(6, 1, 10, 17)), integers(6, 3, 10, 17)))


def class_token(n: Nodes, x: str) -> str:
    """A token of its own layer in front of the others."""
    mean = n("Reshape", n("GlobalAveragePool", x), integers(1, 1, 6))
    joined = n("Concat", mean, tokens(n, x), axis=1)
    return n("LayerNormalization", joined, values(6), values(6), axis=-1, epsilon=1e-3)


CASES: dict[str, Callable[[Nodes, str], object]] = {
    "Abs": lambda n, x: n("Abs", x),
    "Gather of a token": lambda n, x: n("Gather", tokens(n, x), np.array(5, np.int64), axis=1),
    "Gelu as operations": gelu_of,
    "Gelu by tanh": lambda n, x: gelu_of(n, x, tanh=True),
    "InstanceNormalization": lambda n, x: n(
        "Reshape",
        n(
            "InstanceNormalization",
            n("Reshape", x, integers(1, 1, -1)),
            np.ones(1, np.float32),
            np.zeros(1, np.float32),
        ),
        integers(1, 6, 9, 8),
    ),
    "InstanceNormalization of channels": lambda n, x: n("InstanceNormalization", x, values(6), values(6)),
    "LayerNormalization as operations": lambda n, x: norm_of(n, tokens(n, x), 2),
    "MatMul of tokens": lambda n, x: n("MatMul", tokens(n, x), values(6, 5)),
    "MatMul of scores": lambda n, x: n(
        "MatMul", heads(n, tokens(n, x), 0, 2, 1, 3), heads(n, tokens(n, x), 0, 2, 3, 1)
    ),
    "MatMul of attention": attention_of,
    "MatMul of shared keys": lambda n, x: n(
        "MatMul", heads(n, tokens(n, x), 0, 2, 1, 3), n("Reshape", n("GlobalAveragePool", x), integers(1, 1, 3, 2))
    ),
    "Concat of a token in front": class_token,
    "Conv along channels": channel_attention,
    "Expand of tokens": relative_positions,
    "Gelu of a product": lambda n, x: gelu_of(n, n("Mul", x, n("Tanh", x))),
    "Mul of scores": separable_attention,
    "Pad of tokens in front": lambda n, x: n("Pad", tokens(n, x), integers(0, 1, 0, 0, 2, 0), number(1)),
    "Softmax inside": lambda n, x: n("Relu", n("Softmax", x, axis=1)),
    "Softmax of many tokens": lambda n, x: n("Relu", n("Softmax", n("MatMul", tokens(n, x), values(6, 1000)), axis=1)),
    "Softmax of rows": lambda n, x: n("Relu", n("Softmax", x, axis=2)),
    "Transpose of rows and channels": lambda n, x: n("Relu", n("Transpose", x, perm=[0, 2, 1, 3])),
    "Add of positions": lambda n, x: n("Add", tokens(n, x), values(1, 72, 6)),
    "Mul of positions": lambda n, x: n("Mul", tokens(n, x), values(1, 72, 1)),
    "Pad of tokens": lambda n, x: n("Pad", tokens(n, x), integers(0, 0, 0, 0, 0, 1), number(1)),
    "Div of tokens": lambda n, x: n(
        "Div",
        tokens(n, x),
        n("Add", n("Sigmoid", n("Slice", tokens(n, x), integers(2), integers(3), integers(2))), number(1)),
    ),
    "ReduceSum of tokens": lambda n, x: n("ReduceSum", tokens(n, x), integers(1), keepdims=0),
    "ReduceMean of tokens": lambda n, x: n("ReduceMean", tokens(n, x), axes=[1], keepdims=0),
    "Split of heads": lambda n, x: n("Relu", n("Split", heads(n, tokens(n, x), 0, 2, 1, 3), axis=1, outputs=2)),
    "Reshape of windows": lambda n, x: n(
        "Relu", n("Transpose", n("Reshape", x, integers(1, 6, 3, 3, 2, 4)), perm=[0, 2, 4, 3, 5, 1])
    ),
    "Add of tensors": lambda n, x: n("Add", x, n("Relu", x)),
    "Add per channel": lambda n, x: n("Add", x, values(1, 6, 1, 1)),
    "Add of a number": lambda n, x: n("Add", number(0.7), x),
    "Add, broadcast": lambda n, x: n("Add", n("GlobalAveragePool", x), x),
    "AveragePool": lambda n, x: n("AveragePool", x, kernel_shape=[3, 2], strides=[2, 2]),
    "AveragePool, padding counted": lambda n, x: n(
        "AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1
    ),
    "AveragePool, padding left out": lambda n, x: n(
        "AveragePool", x, kernel_shape=[3, 2], pads=[1, 1, 1, 0], strides=[2, 1]
    ),
    "AveragePool, ceil_mode": lambda n, x: n("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "BatchNormalization": lambda n, x: n("BatchNormalization", x, values(6), values(6), values(6), values(6) ** 2),
    "Cast": lambda n, x: n("Cast", x, to=TensorProto.FLOAT),
    "Clip": lambda n, x: n("Clip", x, number(0), number(6)),
    "Clip without an end": lambda n, x: n("Clip", x, number(0)),
    "Clip on both sides": lambda n, x: n("Clip", x, number(-0.5), number(0.7)),
    "Clip from below": lambda n, x: n("Clip", x, number(-1)),
    "Clip from above": lambda n, x: n("Clip", x, "", number(0.3)),
    "Celu": lambda n, x: n("Celu", x, alpha=0.7),
    "Concat of flat maps": lambda n, x: n(
        "Gemm",
        n("Concat", n("Flatten", x), n("Flatten", n("MaxPool", x, kernel_shape=[3, 2])), axis=1),
        values(5, 726),
        values(5),
        transB=1,
    ),
    "Concat": lambda n, x: n("Concat", x, n("Relu", x), x, axis=1),
    "Conv, dilated and grouped": lambda n, x: n(
        "Conv", x, values(8, 3, 3, 2), group=2, dilations=[2, 3], pads=[2, 0, 1, 3]
    ),
    "Conv, padded by more than its kernel": lambda n, x: n("Conv", x, values(4, 6, 1, 1), values(4), pads=[1, 2, 0, 1]),
    "Conv, SAME_UPPER": lambda n, x: n("Conv", x, values(4, 6, 4, 3), auto_pad="SAME_UPPER", strides=[2, 3]),
    "Conv, SAME_LOWER": lambda n, x: n("Conv", x, values(4, 6, 4, 3), auto_pad="SAME_LOWER", strides=[2, 1]),
    "Conv, VALID": lambda n, x: n("Conv", x, values(4, 6, 3, 3), auto_pad="VALID"),
    "ConvTranspose": lambda n, x: n(
        "ConvTranspose", x, values(6, 4, 3, 3), values(4), strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    "ConvTranspose, grouped, one-sided": lambda n, x: n(
        "ConvTranspose", x, values(6, 2, 4, 3), group=3, strides=[2, 3], pads=[1, 0, 2, 1], output_padding=[1, 2]
    ),
    "ConvTranspose, dilated": lambda n, x: n(
        "ConvTranspose", x, values(6, 4, 3, 2), dilations=[2, 3], pads=[0, 1, 2, 0]
    ),
    "Div": lambda n, x: n("Div", x, 1 + values(1, 6, 1, 1) ** 2),
    "Div of tensors": lambda n, x: n("Div", x, n("Exp", x)),
    "Div, the inverse": lambda n, x: n("Div", number(3), n("Exp", x)),
    "Dropout": lambda n, x: n("Dropout", x),
    "Elu": lambda n, x: n("Elu", x, alpha=0.7),
    "Exp": lambda n, x: n("Exp", x),
    "Expand": lambda n, x: n("Add", n("Expand", n("GlobalAveragePool", x), integers(1, 6, 9, 8)), x),
    "Flatten": lambda n, x: n("Flatten", x),
    "Gather": lambda n, x: n("Gather", x, integers(2, 1, 0, 4, 4), axis=1),
    "Gather of rows": lambda n, x: n("Gather", n("Gather", x, integers(3, -1, 0), axis=2), integers(1, 0), axis=2),
    "Gather of halves": halves,
    "Gemm": lambda n, x: n("Gemm", n("Flatten", x), values(432, 5), values(5), alpha=0.5, beta=2.0),
    "Gemm, transposed": lambda n, x: n("Gemm", n("Flatten", x), values(5, 432), transB=1),
    "GlobalAveragePool": lambda n, x: n("GlobalAveragePool", x),
    "GlobalMaxPool": lambda n, x: n("GlobalMaxPool", x),
    "HardSigmoid": lambda n, x: n("HardSigmoid", x, alpha=0.3, beta=0.4),
    "HardSwish": lambda n, x: n("HardSwish", x),
    "Identity": lambda n, x: n("Relu", n("Identity", x)),
    "LRN": lambda n, x: n("LRN", x, size=3, alpha=0.3, beta=0.7, bias=1.5),
    "LeakyRelu": lambda n, x: n("LeakyRelu", x, alpha=0.2),
    "Log": lambda n, x: n("Log", n("Exp", x)),
    "MatMul": lambda n, x: n("Add", n("MatMul", n("Flatten", x), values(432, 5)), values(5)),
    "Max": lambda n, x: n("Max", x, n("Tanh", x), n("Add", x, values(1, 6, 1, 1))),
    "Max with a number": lambda n, x: n("Max", number(-0.3), x),
    "Max, a PReLU": lambda n, x: n("Max", n("Mul", x, values(1, 6, 1, 1) ** 2 / 30), x),
    "MaxPool, ceil_mode": lambda n, x: n("MaxPool", x, kernel_shape=[3, 3], strides=[2, 3], ceil_mode=1),
    "MaxPool, one-sided": lambda n, x: n("MaxPool", x, kernel_shape=[3, 2], pads=[1, 0, 0, 1], strides=[1, 2]),
    "Min": lambda n, x: n("Min", x, n("Neg", x)),
    "Min with a number": lambda n, x: n("Min", x, number(0.3)),
    "Mul of tensors": lambda n, x: n("Mul", n("Tanh", x), x),
    "Mul, one factor per channel": lambda n, x: n("Mul", n("Sigmoid", n("GlobalAveragePool", x)), x),
    "Mul, one factor per pixel": lambda n, x: n("Mul", x, n("Sigmoid", n("ReduceMean", x, axes=[1], keepdims=1))),
    "Mul per channel": lambda n, x: n("Mul", values(6, 1, 1), x),
    "Mul, swish": lambda n, x: n("Mul", n("Sigmoid", x), x),
    "Mul, two signs": lambda n, x: n("Mul", n("Mul", x, number(-1)), number(-1)),
    "Neg": lambda n, x: n("Neg", x),
    "PRelu per channel": lambda n, x: n("PRelu", x, values(6, 1, 1)),
    "Pow": lambda n, x: n("Pow", x, number(2)),
    "Pow of a root": lambda n, x: n("Pow", n("Add", n("Abs", x), number(0.01)), number(0.3)),
    "PRelu": lambda n, x: n("PRelu", x, np.full((6, 1, 1), 0.3, np.float32)),
    "Pad": lambda n, x: n("Pad", x, integers(0, 0, 1, 2, 0, 0, 3, 0)),
    "Pad of channels": lambda n, x: n("Pad", x, integers(0, 1, 1, 2, 0, 8, 3, 0)),
    "Pad with a number": lambda n, x: n("Pad", x, integers(0, 0, 1, 2, 0, 0, 3, 0), number(0.7)),
    "Pad, reflect": lambda n, x: n("Pad", x, integers(0, 0, 1, 2, 0, 0, 3, 0), mode="reflect"),
    "Pad, edge": lambda n, x: n("Pad", x, integers(0, 0, 1, 2, 0, 2, 3, 0), mode="edge"),
    "ReduceMean": lambda n, x: n("ReduceMean", x, axes=[2, 3], keepdims=0),
    "Reciprocal": lambda n, x: n("Reciprocal", n("Exp", x)),
    "ReduceL2": lambda n, x: n("ReduceL2", x, axes=[1], keepdims=1),
    "ReduceMax": lambda n, x: n("ReduceMax", x, axes=[1], keepdims=1),
    "ReduceMax over pixels": lambda n, x: n("ReduceMax", x, axes=[2, 3], keepdims=0),
    "ReduceMean over channels and rows": lambda n, x: n("ReduceMean", x, axes=[1, 2], keepdims=1),
    "ReduceMean over rows": lambda n, x: n("ReduceMean", x, axes=[2], keepdims=0),
    "ReduceMin": lambda n, x: n("ReduceMin", x, axes=[1, 3], keepdims=1),
    "ReduceSum": lambda n, x: n("ReduceSum", x, integers(2, 1), keepdims=1),
    "ReduceSum over pixels": lambda n, x: n("ReduceSum", x, integers(2, 3), keepdims=0),
    "ReduceMean, backwards": lambda n, x: n("ReduceMean", x, axes=[-1, -2], keepdims=1),
    "Relu": lambda n, x: n("Relu", x),
    "Reshape to columns": lambda n, x: n("Sigmoid", n("Reshape", x, integers(1, 6, -1))),
    "Reshape, rows of anchors": lambda n, x: n("Reshape", n("Transpose", x, perm=[0, 2, 3, 1]), integers(1, -1, 2)),
    "Reshape and Transpose": lambda n, x: n("Transpose", n("Reshape", x, integers(1, 6, -1)), perm=[0, 2, 1]),
    "Resize, half_pixel": lambda n, x: n("Resize", x, "", "", integers(1, 6, 13, 20), mode="linear"),
    "Resize, align_corners": lambda n, x: n(
        "Resize", x, "", "", integers(1, 6, 4, 20), mode="linear", coordinate_transformation_mode="align_corners"
    ),
    "Resize, nearest": lambda n, x: n(
        "Resize",
        x,
        "",
        np.array([1, 1, 3, 2], np.float32),
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    "Selu": lambda n, x: n("Selu", x),
    "Resize, nearest to a half": lambda n, x: n("Resize", x, "", np.array([1, 1, 0.5, 0.5], np.float32)),
    "Resize, nearest, align_corners": lambda n, x: n(
        "Resize",
        x,
        "",
        "",
        integers(1, 6, 4, 20),
        coordinate_transformation_mode="align_corners",
        nearest_mode="round_prefer_ceil",
    ),
    "Resize, nearest, ceil": lambda n, x: n(
        "Resize", x, "", "", integers(1, 6, 14, 5), coordinate_transformation_mode="asymmetric", nearest_mode="ceil"
    ),
    "Sigmoid": lambda n, x: n("Sigmoid", n("Mul", x, number(60))),
    "Slice": lambda n, x: n("Slice", x, integers(1, 0, 2), integers(6, -1, 99), integers(1, 2, 3), integers(2, 3, 1)),
    "Slice, backwards": lambda n, x: n("Slice", x, integers(-1, 6), integers(-99, 2), integers(2, 3), integers(-1, -2)),
    "Softmax": lambda n, x: n("Softmax", n("Flatten", n("GlobalAveragePool", x)), axis=1),
    "Softplus": lambda n, x: n("Softplus", x),
    "Softsign": lambda n, x: n("Softsign", x),
    "SpaceToDepth": lambda n, x: n("SpaceToDepth", n("Pad", x, integers(0, 0, 0, 0, 0, 0, 1, 0)), blocksize=2),
    "DepthToSpace": lambda n, x: n("DepthToSpace", n("Concat", x, x, axis=1), blocksize=2),
    "DepthToSpace, pixel shuffle": lambda n, x: n("DepthToSpace", n("Concat", x, x, axis=1), blocksize=2, mode="CRD"),
    "Split": lambda n, x: n("Split", x, integers(1, 2, 3), outputs=3, axis=1),
    "Sqrt": lambda n, x: n("Sqrt", n("Abs", x)),
    "Squeeze": lambda n, x: n("Squeeze", n("GlobalAveragePool", x), integers(2, 3)),
    "Sub": lambda n, x: n("Sub", x, values(1, 6, 1, 1)),
    "Sub from a constant": lambda n, x: n("Sub", values(1, 6, 1, 1), x),
    "Sub of tensors": lambda n, x: n("Sub", n("Tanh", x), n("GlobalAveragePool", x)),
    "Sum": lambda n, x: n("Sum", x, n("Tanh", x), values(1, 6, 1, 1), x),
    "Tanh": lambda n, x: n("Tanh", x),
    "Tile": lambda n, x: n("Tile", x, integers(1, 2, 1, 3)),
    "Transpose, channel shuffle": lambda n, x: n(
        "Reshape",
        n("Transpose", n("Reshape", x, integers(1, 3, 2, 9, 8)), perm=[0, 2, 1, 3, 4]),
        integers(1, 6, 9, 8),
    ),
    "Unsqueeze": lambda n, x: n("Relu", n("Unsqueeze", n("ReduceMean", x, axes=[2, 3], keepdims=0), integers(2, 3))),
}


def written(case: Callable[[Nodes, str], object], path: Path, opset: int = 17) -> Path:
    nodes = Nodes()
    case(nodes, image(nodes))
    return nodes.write(path / "small.onnx", opset, (1, 3, 9, 8))


def clipped_sum(n: Nodes, x: str, summand: float = 3) -> str:
    return n("Clip", n("Add", x, number(summand)), number(0), number(6))


GATES: dict[str, tuple[Callable[[Nodes, str], object], str]] = {
    "x clip(x + 3, 0, 6) / 6": (lambda n, x: n("Div", n("Mul", x, clipped_sum(n, x)), number(6)), "hard_swish"),
    "clip(x + 3, 0, 6) x * (1 / 6)": (
        lambda n, x: n("Mul", number(1 / 6), n("Mul", clipped_sum(n, x), x)),
        "hard_swish",
    ),
    "x (clip(x + 3, 0, 6) / 6)": (lambda n, x: n("Mul", x, n("Div", clipped_sum(n, x), number(6))), "hard_swish"),
    "clip(x + 2, 0, 6) / 6": (lambda n, x: n("Div", clipped_sum(n, x, 2), number(6)), "hard_sigmoid"),
}


@pytest.mark.parametrize("name", GATES)
def test_a_gate_in_parts_is_one_function(name: str, tmp_path: Path) -> None:
    """In four tensors of 8 bits, whose integers are rounded four times, PicoDet lost a quarter of its precision."""
    case, function = GATES[name]
    path = written(lambda n, x: case(n, n("Mul", x, number(4))), tmp_path)
    assert largest_difference(path) < 2e-6
    assert [each.function for each in import_onnx(path)[1].layers if isinstance(each, Function)] == [function]
    assert not [each for each in import_onnx(path)[1].layers if isinstance(each, Relu | Product)]


OTHER_GATES: dict[str, Callable[[Nodes, str], object]] = {
    "another summand": lambda n, x: n("Div", n("Mul", x, clipped_sum(n, x, 2)), number(6)),
    "another factor": lambda n, x: n("Div", n("Mul", x, clipped_sum(n, x)), number(5)),
    "another tensor": lambda n, x: n("Div", n("Mul", n("Tanh", x), clipped_sum(n, x)), number(6)),
}


@pytest.mark.parametrize("name", OTHER_GATES)
def test_another_gate_stays(name: str, tmp_path: Path) -> None:
    path = written(OTHER_GATES[name], tmp_path)
    assert largest_difference(path) < 2e-6
    assert any(isinstance(each, Product) for each in import_onnx(path)[1].layers)


@pytest.mark.parametrize("name", CASES)
def test_an_operator_equals_onnx_runtime(name: str, tmp_path: Path) -> None:
    assert largest_difference(written(CASES[name], tmp_path)) < 2e-6


def test_newer_operators(tmp_path: Path) -> None:
    """Mish is of opset 18, whose ReduceMean has its axes as an input."""
    nodes = Nodes()
    nodes("ReduceMean", nodes("Mish", image(nodes)), integers(2, 3))
    assert largest_difference(nodes.write(tmp_path / "small.onnx", 18, (1, 3, 9, 8))) < 2e-6


def test_groups(tmp_path: Path) -> None:
    """GroupNormalization has a factor for each channel from opset 21 on."""
    nodes = Nodes()
    nodes("GroupNormalization", image(nodes), values(6), values(6), num_groups=2, epsilon=1e-3)
    assert largest_difference(nodes.write(tmp_path / "small.onnx", 21, (1, 3, 9, 8))) < 2e-6


def test_axes_that_are_named(tmp_path: Path) -> None:
    """Of opset 18: Pad and Resize have axes, the others stay."""
    nodes = Nodes()
    x = nodes("Pad", image(nodes), integers(1, 2, 0, 3), number(0), integers(3, 2))
    x = nodes("Resize", x, "", np.array([2, 3], np.float32), axes=[2, 3], mode="linear")
    nodes("Resize", x, "", "", integers(7, 9), axes=[3, 2], mode="nearest")
    assert largest_difference(nodes.write(tmp_path / "small.onnx", 18, (1, 3, 9, 8))) < 2e-6


def test_older_operators(tmp_path: Path) -> None:
    """Upsample was replaced by Resize in opset 10; Pad and Clip had attributes."""
    nodes = Nodes()
    x = nodes("Upsample", image(nodes), np.array([1, 1, 2, 3], np.float32), mode="nearest")
    nodes("Clip", nodes("Pad", x, pads=[0, 0, 0, 1, 0, 0, 2, 0]), min=0.0, max=2.0)
    assert largest_difference(nodes.write(tmp_path / "small.onnx", 9, (1, 3, 9, 8))) < 2e-6


def test_every_operator_is_tried() -> None:
    tried = {name.split(",")[0].split()[0] for name in CASES}
    assert set(OPERATORS) - tried == {"GroupNormalization", "Mish", "Upsample"}


@pytest.mark.parametrize("shape", [(1, 8, 9, 3), (3, 8, 9)], ids=["channels last", "no axis of images"])
def test_other_forms_of_the_image(shape: tuple[int, ...], tmp_path: Path) -> None:
    """As tf2onnx has it, and where the file adds the first axis itself."""
    net = Nodes()
    first = net("Transpose", "x", perm=[0, 3, 1, 2]) if len(shape) == 4 else net("Unsqueeze", "x", integers(0))
    net("Relu", net("Conv", first, values(6, 3, 1, 1)))
    path = net.write(tmp_path / "small.onnx", shape=shape)
    network, made = import_onnx(path)
    pixels = np.random.default_rng(0).normal(0, 1, network.input_shape).astype(np.float32)
    given = pixels.transpose(0, 2, 3, 1) if network.input_order == "hwc" else pixels
    (wanted,) = expected(path, np.ascontiguousarray(given.reshape(shape)))
    (found,) = run(made, pixels).values()
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_size_that_is_left_open_is_given(tmp_path: Path) -> None:
    nodes = Nodes()
    nodes("GlobalAveragePool", nodes("Relu", "x"))
    path = nodes.write(tmp_path / "open.onnx", shape=("batch", 3, "height", "width"))
    with pytest.raises(ImportedFileError, match=r"open\.onnx: the input's height and width are left open: give --size"):
        import_onnx(path)
    graph, _ = import_onnx(path, (10, 12))
    assert graph.input_shape == (1, 3, 10, 12)


REFUSED: dict[str, tuple[Callable[[Nodes, str], object], str]] = {
    "an operator": (lambda n, x: n("Sin", x), "Sin 'node1': this operator is not supported"),
    "numbers of two axes": (
        lambda n, x: n("Gather", x, np.array([[0, 1]], np.int64), axis=1),
        r"Gather 'node1': numbers of shape \(1, 2\)",
    ),
    "a clip of nothing": (lambda n, x: n("Clip", x, number(1), number(1)), r"Clip 'node1': a clip to 1.0 \.\. 1.0"),
    "linear by parts of an element": (
        lambda n, x: n("Resize", x, "", np.array([1, 1, 0.5, 1], np.float32), mode="linear"),
        r"Resize 'node1': scales that give 4.5 of 9 elements",
    ),
    "cubic": (
        lambda n, x: n("Resize", x, "", "", integers(1, 6, 13, 20), mode="cubic"),
        "Resize 'node1': mode cubic",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_imported_is_named(name: str, tmp_path: Path) -> None:
    case, reason = REFUSED[name]
    with pytest.raises(ImportedFileError, match=rf"small\.onnx: 1 operation cannot be imported: {reason}"):
        import_onnx(written(case, tmp_path))


def test_all_of_them_are_named_at_once(tmp_path: Path) -> None:
    def case(n: Nodes, x: str) -> None:
        n("Concat", n("Relu", n("Sin", x)), n("Cos", x), axis=1)

    with pytest.raises(ImportedFileError, match=r"2 operations cannot be imported: Sin 'node1': .*; Cos 'node3': "):
        import_onnx(written(case, tmp_path))
