"""TFLite's operators one by one, float and int8: equal to LiteRT's reference kernels, or refused by name."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.layers import Conv
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.integer_network import integer_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.importer.tflite_network import TFLITE_OPERATORS, import_tflite
from tests.toolchain.importer.litert import ReferenceKernels, integer_steps, largest_float_difference
from tests.toolchain.importer.tflite_writer import Scale, TfliteNet
from tests.toolchain.importer.views import run

RNG = np.random.default_rng(4)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(4).bit_generator.state


H, W, C = 9, 8, 6
SHAPE = (1, H, W, C)
SAME, VALID = 0, 1
RELU, RELU_N1_TO_1, RELU6, TANH = 1, 2, 3, 4
INPUT_SCALE, MAP_SCALE, OUT_SCALE = Scale((0.02,), (3,)), Scale((0.03,), (-11,)), Scale((0.0413,), (7,))

Case = Callable[[TfliteNet, int], int]


def values(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(0, 1, shape).astype(np.float32)


def integers(*numbers: Any) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int32)


def window(n: TfliteNet, op: str, options: str, x: int, shape: tuple[int, ...], weight: Any, **more: Any) -> int:
    """A convolution with a bias for each output."""
    outputs = shape[3]
    attributes = {"Padding": SAME, "StrideW": 1, "StrideH": 1} | more
    inputs = [x, n.constant(weight), n.constant(values(outputs))]
    return n(op, inputs, shape, options, **attributes)


def conv(n: TfliteNet, x: int, shape: tuple[int, ...], *kernel: int, **more: Any) -> int:
    groups = C // kernel[2] if len(kernel) > 2 else 1
    weight = values(shape[3], kernel[0], kernel[1], C // groups)
    dilation = {"DilationWFactor": 1, "DilationHFactor": 1} | more
    return window(n, "CONV_2D", "Conv2DOptions", x, shape, weight, **dilation)


def pool(n: TfliteNet, op: str, x: int, shape: tuple[int, ...], **more: Any) -> int:
    attributes = {"Padding": VALID, "StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 3} | more
    return n(op, [x], shape, "Pool2DOptions", **attributes)


def relu(n: TfliteNet, x: int) -> int:
    return n("RELU", [x], n.tensors[x][1])


def mean(n: TfliteNet, x: int, keep: bool = True) -> int:
    shape = (1, 1, 1, C) if keep else (1, C)
    return n("MEAN", [x, n.constant(integers(1, 2))], shape, "ReducerOptions", KeepDims=keep)


def reduced(n: TfliteNet, x: int, op: str, shape: tuple[int, ...], *axes: int) -> int:
    return n(op, [x, n.constant(integers(*axes))], shape, "ReducerOptions", KeepDims=True)


def mirrored(n: TfliteNet, x: int, mode: int) -> int:
    amounts = n.constant(integers([0, 0], [1, 2], [3, 0], [0, 0]))
    return n("MIRROR_PAD", [x, amounts], (1, 12, 11, C), "MirrorPadOptions", Mode=mode)


def dense(n: TfliteNet, x: int, inputs: int, act: int = 0) -> int:
    weights = [x, n.constant(values(5, inputs)), n.constant(values(5))]
    return n("FULLY_CONNECTED", weights, (1, 5), "FullyConnectedOptions", FusedActivationFunction=act)


def sliced(n: TfliteNet, x: int) -> int:
    options = {"BeginMask": 0b0101, "EndMask": 0b0010}
    ranges = [n.constant(integers(*row)) for row in ((0, 1, 3, 1), (1, 5, 8, 5), (1, 3, 2, 2))]
    return n("STRIDED_SLICE", [x, *ranges], (1, 3, 4, 2), "StridedSliceOptions", **options)


def shuffled(n: TfliteNet, x: int) -> int:
    grouped = n("RESHAPE", [x, n.constant(integers(1, H, W, 2, 3))], (1, H, W, 2, 3))
    turned = n("TRANSPOSE", [grouped, n.constant(integers(0, 1, 2, 4, 3))], (1, H, W, 3, 2))
    return n("RESHAPE", [turned, n.constant(integers(*SHAPE))], SHAPE)


def enlarged(op: str, shape: tuple[int, ...], **flags: bool) -> Case:
    record = {"RESIZE_BILINEAR": "ResizeBilinearOptions", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions"}[op]
    return lambda n, x: n(op, [x, n.constant(integers(shape[1], shape[2]))], shape, record, **flags)


def transposed(n: TfliteNet, x: int, shape: tuple[int, ...], padding: int, stride: int) -> int:
    inputs = [n.constant(integers(*shape)), n.constant(values(shape[3], 3, 4, C)), x, n.constant(values(shape[3]))]
    options = {"Padding": padding, "StrideW": stride, "StrideH": stride}
    return n("TRANSPOSE_CONV", inputs, shape, "TransposeConvOptions", **options)


def spread(n: TfliteNet, x: int, *behind: str, cut: int = 1) -> int:
    """A convolution with dilation 2 as TensorFlow writes it: in four images of every other row and column."""
    block = n.constant(integers(2, 2))
    apart = n("SPACE_TO_BATCH_ND", [x, block, n.constant(integers([2, 3], [2, 2]))], (4, 7, 6, C))
    weight, shift = n.constant(values(8, 3, 3, C)), n.constant(values(8))
    made = n("CONV_2D", [apart, weight, shift], (4, 5, 4, 8), "Conv2DOptions", Padding=VALID, StrideW=1, StrideH=1)
    for op in behind:
        made = n(op, [made, n.constant(values(8))][: 1 + (op == "ADD")], (4, 5, 4, 8))
    edges = n.constant(integers([0, cut], [0, 0]))
    return n("BATCH_TO_SPACE_ND", [made, block, edges], (1, 10 - cut, W, 8))


def reshaped_by_shape(n: TfliteNet, x: int) -> int:
    """A shape that is computed, as converters write it for a batch left open: [batch, H * W, C]."""
    shape = n("SHAPE", [x], (4,), "ShapeOptions", Scale(()), "int32", OutType=2)
    places = [n.constant(integers(*row)) for row in ((0,), (1,), (1,))]
    batch = n("STRIDED_SLICE", [shape, *places], (), "StridedSliceOptions", ShrinkAxisMask=1)
    sides = [batch, n.constant(np.int32(H * W)), n.constant(np.int32(C))]
    packed = n("PACK", sides, (3,), "PackOptions", ValuesCount=3, Axis=0)
    return relu(n, n("RESHAPE", [x, packed], (1, H * W, C)))


def pad(n: TfliteNet, x: int) -> int:
    return n("PAD", [x, n.constant(integers([0, 0], [1, 2], [0, 3], [0, 0]))], (1, 12, 11, C))


FLOAT: dict[str, Case] = {
    "ADD": lambda n, x: n("ADD", [x, relu(n, x)], SHAPE, "AddOptions", FusedActivationFunction=RELU6),
    "ABS": lambda n, x: n("ABS", [x], SHAPE),
    "ADD_N": lambda n, x: n("ADD_N", [x, relu(n, x), x], SHAPE),
    "ADD of a constant": lambda n, x: n("ADD", [x, n.constant(values(C))], SHAPE, "AddOptions"),
    "AVERAGE_POOL_2D": lambda n, x: pool(n, "AVERAGE_POOL_2D", x, (1, 4, 4, C)),
    "AVERAGE_POOL_2D, SAME": lambda n, x: pool(n, "AVERAGE_POOL_2D", x, (1, 5, 4, C), Padding=SAME),
    "BROADCAST_TO": lambda n, x: n("BROADCAST_TO", [mean(n, x), n.constant(integers(*SHAPE))], SHAPE),
    "CONCATENATION": lambda n, x: n("CONCATENATION", [x, relu(n, x)], (1, H, W, 12), "ConcatenationOptions", Axis=3),
    "CONV_2D, SAME": lambda n, x: conv(n, x, (1, 5, 4, 8), 3, 4, StrideW=2, StrideH=2, FusedActivationFunction=RELU),
    "CONV_2D, dilated": lambda n, x: conv(n, x, (1, 5, 6, 8), 3, 3, Padding=VALID, DilationHFactor=2),
    "CONV_2D, grouped": lambda n, x: conv(n, x, (1, H, W, 4), 3, 3, 3),
    "CONV_2D, RELU_N1_TO_1": lambda n, x: conv(n, x, (1, H, W, 4), 1, 1, FusedActivationFunction=RELU_N1_TO_1),
    "CONV_2D, behind PAD": lambda n, x: conv(n, pad(n, x), (1, 10, 9, 4), 3, 3, Padding=VALID),
    "DEPTHWISE_CONV_2D": lambda n, x: window(
        n,
        "DEPTHWISE_CONV_2D",
        "DepthwiseConv2DOptions",
        x,
        (1, 5, 4, 12),
        values(1, 3, 3, 12),
        StrideW=2,
        StrideH=2,
        DepthMultiplier=2,
        DilationWFactor=1,
        DilationHFactor=1,
    ),
    "DIV": lambda n, x: n("DIV", [x, n.constant(1 + values(C) ** 2)], SHAPE, "DivOptions"),
    "DIV of tensors": lambda n, x: n("DIV", [x, n("EXP", [x], SHAPE)], SHAPE, "DivOptions"),
    "ELU": lambda n, x: n("ELU", [x], SHAPE),
    "EXP": lambda n, x: n("EXP", [x], SHAPE),
    "EXPAND_DIMS": lambda n, x: n("EXPAND_DIMS", [mean(n, x, keep=False), n.constant(integers(1))], (1, 1, C)),
    "FULLY_CONNECTED": lambda n, x: dense(n, x, H * W * C),
    "FULLY_CONNECTED, RELU": lambda n, x: dense(n, mean(n, x, keep=False), C, RELU),
    "GATHER": lambda n, x: n("GATHER", [x, n.constant(integers(2, 0, 5))], (1, H, W, 3), "GatherOptions", Axis=3),
    "GELU": lambda n, x: n("GELU", [x], SHAPE, "GeluOptions", Approximate=False),
    "GELU by tanh": lambda n, x: n("GELU", [x], SHAPE, "GeluOptions", Approximate=True),
    "HARD_SWISH": lambda n, x: n("HARD_SWISH", [x], SHAPE),
    "L2_NORMALIZATION": lambda n, x: n("L2_NORMALIZATION", [x], SHAPE, "L2NormOptions"),
    "L2_NORMALIZATION of a vector": lambda n, x: n(
        "L2_NORMALIZATION", [mean(n, x, keep=False)], (1, C), "L2NormOptions"
    ),
    "LEAKY_RELU": lambda n, x: n("LEAKY_RELU", [x], SHAPE, "LeakyReluOptions", Alpha=0.2),
    "LOCAL_RESPONSE_NORMALIZATION": lambda n, x: n(
        "LOCAL_RESPONSE_NORMALIZATION",
        [x],
        SHAPE,
        "LocalResponseNormalizationOptions",
        Radius=2,
        Bias=1.5,
        Alpha=0.3,
        Beta=0.7,
    ),
    "LOG": lambda n, x: n("LOG", [n("EXP", [x], SHAPE)], SHAPE),
    "LOGISTIC": lambda n, x: n("LOGISTIC", [x], SHAPE),
    "MAXIMUM": lambda n, x: n("MAXIMUM", [x, n("NEG", [x], SHAPE)], SHAPE),
    "MAX_POOL_2D": lambda n, x: pool(n, "MAX_POOL_2D", x, (1, 5, 4, C), Padding=SAME),
    "MEAN": mean,
    "MEAN without axes": lambda n, x: mean(n, x, keep=False),
    "MEAN over channels": lambda n, x: reduced(n, x, "MEAN", (1, H, W, 1), 3),
    "MINIMUM": lambda n, x: n("MINIMUM", [x, n("TANH", [x], SHAPE)], SHAPE),
    "MIRROR_PAD": lambda n, x: mirrored(n, x, 0),
    "MIRROR_PAD, symmetric": lambda n, x: mirrored(n, x, 1),
    "MUL": lambda n, x: n("MUL", [x, n("TANH", [x], SHAPE)], SHAPE, "MulOptions"),
    "MUL, swish": lambda n, x: n("MUL", [x, n("LOGISTIC", [x], SHAPE)], SHAPE, "MulOptions"),
    "MUL, one factor per channel": lambda n, x: n("MUL", [mean(n, x), x], SHAPE, "MulOptions"),
    "MUL by a constant": lambda n, x: n("MUL", [x, n.constant(values(C))], SHAPE, "MulOptions"),
    "NEG": lambda n, x: n("NEG", [x], SHAPE),
    "POW": lambda n, x: n("POW", [x, n.constant(np.array(3, np.float32))], SHAPE),
    "PRELU per channel": lambda n, x: n("PRELU", [x, n.constant(values(1, 1, C))], SHAPE),
    "PAD": pad,
    "PAD of channels": lambda n, x: n("PAD", [x, n.constant(integers([0, 0], [0, 0], [0, 0], [0, 10]))], (1, H, W, 16)),
    "PADV2 with a number": lambda n, x: n(
        "PADV2",
        [x, n.constant(integers([0, 0], [1, 2], [0, 3], [0, 0])), n.constant(np.full(1, 0.7, np.float32))],
        (1, 12, 11, C),
    ),
    "PADV2": lambda n, x: n(
        "PADV2",
        [x, n.constant(integers([0, 0], [1, 2], [0, 3], [0, 0])), n.constant(np.zeros(1, np.float32))],
        (1, 12, 11, C),
    ),
    "PRELU": lambda n, x: n("PRELU", [x, n.constant(np.full((1, 1, C), 0.3, np.float32))], SHAPE),
    "REDUCE_MAX": lambda n, x: reduced(n, x, "REDUCE_MAX", (1, H, W, 1), 3),
    "REDUCE_MIN": lambda n, x: reduced(n, x, "REDUCE_MIN", (1, 1, 1, C), 1, 2),
    "RELU": relu,
    "RELU6": lambda n, x: n("RELU6", [x], SHAPE),
    "RELU_N1_TO_1": lambda n, x: n("RELU_N1_TO_1", [x], SHAPE),
    "RESHAPE": lambda n, x: n("RESHAPE", [x, n.constant(integers(1, H * W * 3, 2))], (1, H * W * 3, 2)),
    "RESHAPE to one row": lambda n, x: dense(
        n, n("RESHAPE", [x, n.constant(integers(1, H * W * C))], (1, H * W * C)), H * W * C
    ),
    "RESHAPE, channel shuffle": shuffled,
    "RESIZE_BILINEAR": enlarged("RESIZE_BILINEAR", (1, 13, 20, C), HalfPixelCenters=True),
    "RESIZE_BILINEAR, align_corners": enlarged("RESIZE_BILINEAR", (1, 13, 20, C), AlignCorners=True),
    "RESIZE_BILINEAR, neither": enlarged("RESIZE_BILINEAR", (1, 13, 20, C)),
    "RESIZE_NEAREST_NEIGHBOR": enlarged("RESIZE_NEAREST_NEIGHBOR", (1, 18, 24, C)),
    "RESIZE_NEAREST_NEIGHBOR, half pixels": enlarged("RESIZE_NEAREST_NEIGHBOR", (1, 27, 16, C), HalfPixelCenters=True),
    "RSQRT": lambda n, x: n("RSQRT", [n("EXP", [x], SHAPE)], SHAPE),
    "RESIZE_NEAREST_NEIGHBOR, any size": enlarged("RESIZE_NEAREST_NEIGHBOR", (1, 13, 5, C)),
    "RESIZE_NEAREST_NEIGHBOR, align_corners": enlarged("RESIZE_NEAREST_NEIGHBOR", (1, 13, 5, C), AlignCorners=True),
    "SLICE": lambda n, x: n(
        "SLICE", [x, n.constant(integers(0, 1, 0, 2)), n.constant(integers(1, 4, -1, 3))], (1, 4, W, 3)
    ),
    "SOFTMAX": lambda n, x: n("SOFTMAX", [mean(n, x, keep=False)], (1, C), "SoftmaxOptions", Beta=1.0),
    "DEPTH_TO_SPACE": lambda n, x: n(
        "DEPTH_TO_SPACE",
        [n("CONCATENATION", [x, x], (1, H, W, 2 * C), "ConcatenationOptions", Axis=3)],
        (1, 2 * H, 2 * W, C // 2),
        "DepthToSpaceOptions",
        BlockSize=2,
    ),
    "SPACE_TO_DEPTH": lambda n, x: n(
        "SPACE_TO_DEPTH",
        [n("PAD", [x, n.constant(integers([0, 0], [1, 0], [0, 0], [0, 0]))], (1, 10, W, C))],
        (1, 5, 4, 24),
        "SpaceToDepthOptions",
        BlockSize=2,
    ),
    "SPLIT": lambda n, x: n("SPLIT", [n.constant(integers(3)), x], [(1, H, W, 3)] * 2, "SplitOptions", NumSplits=2),
    "SPLIT_V": lambda n, x: n(
        "SPLIT_V",
        [x, n.constant(integers(4, 5)), n.constant(integers(1))],
        [(1, 4, W, C), (1, 5, W, C)],
        "SplitVOptions",
        NumSplits=2,
    ),
    "SHAPE": reshaped_by_shape,
    "SPACE_TO_BATCH_ND": spread,
    "SPACE_TO_BATCH_ND, more inside": lambda n, x: spread(n, x, "ADD", "RELU", cut=0),
    "SQRT": lambda n, x: n("SQRT", [n("ABS", [x], SHAPE)], SHAPE),
    "SQUARE": lambda n, x: n("SQUARE", [x], SHAPE),
    "SQUEEZE": lambda n, x: n("SQUEEZE", [mean(n, x)], (1, C), "SqueezeOptions", SqueezeDims=[1, 2]),
    "STRIDED_SLICE": sliced,
    "SUB": lambda n, x: n("SUB", [x, n.constant(values(C))], SHAPE, "SubOptions"),
    "SUB from a constant": lambda n, x: n("SUB", [n.constant(values(C)), x], SHAPE, "SubOptions"),
    "SUB of tensors": lambda n, x: n("SUB", [x, n("TANH", [x], SHAPE)], SHAPE, "SubOptions"),
    "SUM": lambda n, x: reduced(n, x, "SUM", (1, H, 1, C), 2),
    "TANH": lambda n, x: n("TANH", [x], SHAPE),
    "TILE": lambda n, x: n("TILE", [x, n.constant(integers(1, 2, 1, 2))], (1, 2 * H, W, 2 * C)),
    "TRANSPOSE": lambda n, x: n("TRANSPOSE", [x, n.constant(integers(0, 3, 1, 2))], (1, C, H, W)),
    "TRANSPOSE_CONV, SAME": lambda n, x: transposed(n, x, (1, 18, 16, 4), SAME, 2),
    "TRANSPOSE_CONV, VALID": lambda n, x: transposed(n, x, (1, 27, 25, 4), VALID, 3),
}


def written(case: Case, path: Path) -> Path:
    """A network of an image of three channels, a map of six and the case."""
    net = TfliteNet()
    image = net.tensor((1, H, W, 3))
    first = [image, net.constant(values(C, 1, 1, 3)), net.constant(values(C))]
    x = net("CONV_2D", first, SHAPE, "Conv2DOptions", StrideW=1, StrideH=1)
    case(net, x)
    return net.write(path / "small.tflite", image, net.operations[-1][2])


NOT_BY_REFERENCE = ("ELU", "LOCAL_RESPONSE_NORMALIZATION")
"""The reference kernels have no ELU, and leave out the last channel of a local response."""


@pytest.mark.parametrize("name", FLOAT)
def test_a_float_operator_equals_litert(name: str, tmp_path: Path) -> None:
    kernels = "AUTO" if name in NOT_BY_REFERENCE else "BUILTIN_REF"
    assert largest_float_difference(written(FLOAT[name], tmp_path), kernels) < 2e-6


def test_float16_weights_are_dequantized_constants(tmp_path: Path) -> None:
    net = TfliteNet()
    image, half = net.tensor((1, H, W, 3)), net.constant(values(C, 1, 1, 3).astype(np.float16))
    real = net.tensor((C, 1, 1, 3))
    net.operations.append(("DEQUANTIZE", [half], [real], None, {}))
    net("CONV_2D", [image, real, net.constant(values(C))], SHAPE, "Conv2DOptions", StrideW=1, StrideH=1)
    path = net.write(tmp_path / "half.tflite", image, net.operations[-1][2])
    assert largest_float_difference(path) < 2e-6


def weights(n: TfliteNet, *shape: int, axis: int = 0) -> int:
    scales = tuple(RNG.uniform(0.005, 0.02, shape[axis]).tolist())
    return n.constant(RNG.integers(-127, 128, shape).astype(np.int8), Scale(scales, axis=axis))


def bias(n: TfliteNet, weight: int, source: Scale) -> int:
    known = n.tensors[weight][4]
    assert known is not None
    scales = tuple(source.scale[0] * each for each in known.scale)
    outputs = max(len(scales), n.tensors[weight][1][0])
    return n.constant(RNG.integers(-2000, 2000, outputs).astype(np.int32), Scale(scales))


def int8_conv(n: TfliteNet, x: int, outputs: int, act: int = 0, stride: int = 1) -> int:
    weight = weights(n, outputs, 3, 3, n.tensors[x][1][3])
    known = n.tensors[x][4]
    assert known is not None
    shape = (1, -(-n.tensors[x][1][1] // stride), -(-n.tensors[x][1][2] // stride), outputs)
    inputs = [x, weight, bias(n, weight, known)]
    options = {"StrideW": stride, "StrideH": stride, "FusedActivationFunction": act}
    return n("CONV_2D", inputs, shape, "Conv2DOptions", OUT_SCALE, **options)


def int8_depthwise(n: TfliteNet, x: int) -> int:
    weight = weights(n, 1, 3, 3, C, axis=3)
    inputs = [x, weight, bias(n, weight, MAP_SCALE)]
    options = {"StrideW": 1, "StrideH": 1, "DepthMultiplier": 1}
    return n("DEPTHWISE_CONV_2D", inputs, SHAPE, "DepthwiseConv2DOptions", OUT_SCALE, **options)


def int8_dense(n: TfliteNet, x: int) -> int:
    weight = n.constant(RNG.integers(-127, 128, (5, H * W * C)).astype(np.int8), Scale((0.001,)))
    inputs = [x, weight, bias(n, weight, MAP_SCALE)]
    return n("FULLY_CONNECTED", inputs, (1, 5), "FullyConnectedOptions", OUT_SCALE)


def pool_of_one(n: TfliteNet, x: int) -> int:
    """The greatest of three elements that lie side by side, with the same integers."""
    return pool(n, "MAX_POOL_2D", x, SHAPE, Padding=SAME, StrideW=1, StrideH=1)


def sigmoid(n: TfliteNet, x: int) -> int:
    return n("LOGISTIC", [x], SHAPE, None, Scale((1 / 256,), (-128,)))


INT8: dict[str, Case] = {
    "ADD": lambda n, x: n("ADD", [x, int8_conv(n, x, C)], SHAPE, "AddOptions", Scale((0.05,), (1,))),
    "ADD, RELU": lambda n, x: n(
        "ADD", [x, int8_conv(n, x, C)], SHAPE, "AddOptions", OUT_SCALE, FusedActivationFunction=RELU
    ),
    "AVERAGE_POOL_2D": lambda n, x: pool(n, "AVERAGE_POOL_2D", x, (1, 4, 4, C)),
    "AVERAGE_POOL_2D, SAME": lambda n, x: pool(n, "AVERAGE_POOL_2D", x, (1, 5, 4, C), Padding=SAME),
    "CONCATENATION": lambda n, x: n("CONCATENATION", [x, x], (1, H, W, 12), "ConcatenationOptions", Axis=3),
    "CONV_2D": lambda n, x: int8_conv(n, x, 8, stride=2),
    "CONV_2D, RELU": lambda n, x: int8_conv(n, x, 8, RELU),
    "CONV_2D, RELU6": lambda n, x: int8_conv(n, x, 8, RELU6),
    "CONV_2D, RELU_N1_TO_1": lambda n, x: int8_conv(n, x, 8, RELU_N1_TO_1),
    "DEPTHWISE_CONV_2D": int8_depthwise,
    "FULLY_CONNECTED": int8_dense,
    "HARD_SWISH": lambda n, x: n("HARD_SWISH", [x], SHAPE, None, OUT_SCALE),
    "LEAKY_RELU": lambda n, x: n("LEAKY_RELU", [x], SHAPE, "LeakyReluOptions", OUT_SCALE, Alpha=0.2),
    "LOGISTIC": sigmoid,
    "LOGISTIC in another scale": lambda n, x: n("QUANTIZE", [sigmoid(n, x)], SHAPE, None, Scale((0.02,), (-100,))),
    "MAX_POOL_2D": lambda n, x: pool(n, "MAX_POOL_2D", x, (1, 5, 4, C), Padding=SAME),
    "MAXIMUM": lambda n, x: n("MAXIMUM", [x, pool_of_one(n, x)], SHAPE),
    "MEAN": mean,
    "MINIMUM": lambda n, x: n("MINIMUM", [x, pool_of_one(n, x)], SHAPE),
    "MIRROR_PAD": lambda n, x: mirrored(n, x, 0),
    "MUL": lambda n, x: n("MUL", [x, int8_conv(n, x, C)], SHAPE, "MulOptions", Scale((0.05,), (1,))),
    "MUL by a constant": lambda n, x: n(
        "MUL",
        [x, n.constant(RNG.integers(-127, 128, C).astype(np.int8), Scale((0.01,)))],
        SHAPE,
        "MulOptions",
        OUT_SCALE,
    ),
    "MUL, swish": lambda n, x: n("MUL", [x, sigmoid(n, x)], SHAPE, "MulOptions", OUT_SCALE),
    "PAD": pad,
    "PRELU per channel": lambda n, x: n(
        "PRELU",
        [x, n.constant(RNG.integers(-127, 128, (1, 1, C)).astype(np.int8), Scale((0.004,)))],
        SHAPE,
        None,
        OUT_SCALE,
    ),
    "REDUCE_MAX": lambda n, x: reduced(n, x, "REDUCE_MAX", (1, H, W, 1), 3),
    "SUB": lambda n, x: n("SUB", [x, int8_conv(n, x, C)], SHAPE, "SubOptions", Scale((0.05,), (1,))),
    "QUANTIZE": lambda n, x: n("QUANTIZE", [x], SHAPE, None, OUT_SCALE),
    "QUANTIZE to uint8": lambda n, x: n("QUANTIZE", [x], SHAPE, None, Scale((0.03,), (117,)), "uint8"),
    "RELU": lambda n, x: n("RELU", [x], SHAPE, None, OUT_SCALE),
    "RESHAPE": lambda n, x: n("RESHAPE", [x, n.constant(integers(1, H * W * 3, 2))], (1, H * W * 3, 2)),
    "RESIZE_BILINEAR": enlarged("RESIZE_BILINEAR", (1, 13, 20, C), HalfPixelCenters=True),
    "RESIZE_NEAREST_NEIGHBOR": enlarged("RESIZE_NEAREST_NEIGHBOR", (1, 18, 24, C)),
    "STRIDED_SLICE": sliced,
    "TANH": lambda n, x: n("TANH", [x], SHAPE, None, Scale((1 / 128,), (0,))),
}


def written_int8(case: Case, path: Path) -> Path:
    """The same in int8: the image is 3 channels of pixel - 128, as cameras give it."""
    net = TfliteNet()
    image = net.tensor((1, H, W, 3), "int8", INPUT_SCALE)
    weight = weights(net, C, 1, 1, 3)
    first = [image, weight, bias(net, weight, INPUT_SCALE)]
    x = net("CONV_2D", first, SHAPE, "Conv2DOptions", MAP_SCALE, StrideW=1, StrideH=1)
    case(net, x)
    return net.write(path / "small.tflite", image, net.operations[-1][2])


@pytest.mark.parametrize("name", INT8)
def test_an_int8_operator_is_within_one_step_of_litert(name: str, tmp_path: Path) -> None:
    images = RNG.integers(-128, 128, (6, H, W, 3)).astype(np.int8)
    images[0], images[1] = -128, 127
    steps = integer_steps(written_int8(INT8[name], tmp_path), images)
    assert len(steps.layers) <= 2 + (name == "RESIZE_BILINEAR")  # LiteRT's places are multiples of 2**-10
    assert steps.layers[1:].sum() <= 0.15 * steps.layers.sum()


def test_a_bias_whose_scales_lie_along_an_axis_that_it_has_not(tmp_path: Path) -> None:
    """TFLite Micro's own files have the weights' axis, 3, there; LiteRT refuses them."""

    def case(n: TfliteNet, x: int, axis: int) -> int:
        weight = weights(n, 1, 3, 3, C, axis=3)
        values = bias(n, weight, MAP_SCALE)
        name, shape, kind, array, scale = n.tensors[values]
        assert scale is not None
        n.tensors[values] = name, shape, kind, array, replace(scale, axis=axis)
        options = {"StrideW": 1, "StrideH": 1, "DepthMultiplier": 1}
        return n("DEPTHWISE_CONV_2D", [x, weight, values], SHAPE, "DepthwiseConv2DOptions", OUT_SCALE, **options)

    path = written_int8(lambda n, x: case(n, x, 3), tmp_path)
    network, imported = import_tflite(path)
    layer = integer_network(network, imported, imported.tensors, path).layers[-1]
    assert isinstance(layer, Conv)
    stored = network.quantization[imported.origins[layer.name].inputs[2]].values
    np.testing.assert_array_equal(layer.bias, stored)


def test_activations_of_16_bits_are_a_float_network(tmp_path: Path) -> None:
    """16x8: int16 activations without zero point, int8 weights, an int64 bias."""
    net, scale, out = TfliteNet(), Scale((0.0001,)), Scale((0.0005,))
    image = net.tensor((1, H, W, 3), "int16", scale)
    weight = weights(net, C, 1, 1, 3)
    known = net.tensors[weight][4]
    assert known is not None
    steps = Scale(tuple(scale.scale[0] * each for each in known.scale))
    shift = net.constant(RNG.integers(-200_000, 200_000, C), steps)
    net("CONV_2D", [image, weight, shift], SHAPE, "Conv2DOptions", out, StrideW=1, StrideH=1)
    path = net.write(tmp_path / "wide.tflite", image, net.operations[-1][2])
    kernels = ReferenceKernels(path)
    assert not kernels.imported.quantized
    assert "16 bits" in kernels.imported.notes[0]
    integers16 = RNG.integers(-32767, 32768, (1, H, W, 3)).astype(np.int16)
    kernels(integers16)
    (name,) = kernels.network.outputs
    found = run(kernels.imported, (integers16 * np.float32(scale.scale[0])).transpose(0, 3, 1, 2))[name]
    steps_off = found / np.float32(out.scale[0]) - kernels.tensor(name)
    assert np.abs(kernels.tensor(name)).max() > 1000
    assert np.abs(steps_off).max() <= 1.01


def written_uint8(path: Path) -> Path:
    """A convolution of pixels whose weights are uint8 from a zero point of 160 on, one channel beyond int8."""
    net, image_scale = TfliteNet(), Scale((1 / 128,), (128,))
    image = net.tensor((1, H, W, 3), "uint8", image_scale)
    stored = RNG.integers(40, 256, (C, 3, 3, 3)).astype(np.uint8)
    stored[2, 1, 1] = 0, 3, 20
    weight = net.constant(stored, Scale((0.004,), (160,)))
    inputs = [image, weight, bias(net, weight, image_scale)]
    net("CONV_2D", inputs, SHAPE, "Conv2DOptions", Scale((0.05,), (121,)), StrideW=1, StrideH=1)
    return net.write(path / "small.tflite", image, net.operations[-1][2])


def test_uint8_weights_are_kept_where_int8_holds_them(tmp_path: Path) -> None:
    path = written_uint8(tmp_path)
    made = ReferenceKernels(path)
    layer = integer_network(made.network, made.imported, made.imported.tensors, path).layers[0]
    assert isinstance(layer, Conv)
    known = made.network.quantization[next(name for name in made.network.constants if name == "t1")]
    assert known.values is not None
    wanted, fits = known.values.astype(int) - 160, np.arange(C) != 2
    np.testing.assert_array_equal(layer.weights.decode()[fits], wanted[fits])
    step = layer.weights.scale[2] / layer.weights.scale[0]
    assert 160 / 128 <= step <= 320 / 128
    assert np.abs(layer.weights.decode()[2] * step - wanted[2]).max() <= step / 2 + 1e-9
    steps = integer_steps(path, RNG.integers(0, 256, (6, H, W, 3)).astype(np.uint8))
    assert steps.layers[2:].sum() <= 0.01 * steps.layers.sum()


@pytest.mark.parametrize(
    ("scale", "zero", "kind", "wanted"),
    [
        (1 / 255, -128, "int8", "--mean 0 --std 255"),
        (2 / 255, -1, "int8", "--mean 127.5 --std 127.5"),
        (1 / 128, 128, "uint8", "--mean 127.5 --std 127.5"),
        (0.0187, -20, "int8", "--mean 108 --std 53.48"),
    ],
)
def test_an_input_of_another_range_names_numbers_that_fit(
    scale: float, zero: int, kind: str, wanted: str, tmp_path: Path
) -> None:
    net, known = TfliteNet(), Scale((scale,), (zero,))
    image = net.tensor((1, H, W, 3), kind, known)
    weight = weights(net, C, 1, 1, 3)
    inputs = [image, weight, bias(net, weight, known)]
    mean(net, net("CONV_2D", inputs, SHAPE, "Conv2DOptions", OUT_SCALE, StrideW=1, StrideH=1), keep=False)
    path, out = net.write(tmp_path / "small.tflite", image, net.operations[-1][2]), tmp_path / "model.safetensors"
    embedding = TaskSettings(task="embedding")
    with pytest.raises(ImportedFileError, match=f"in this range, such as {wanted}$"):
        import_network(path, out, Pixels((0.0,), (1.0,)), embedding)
    centre, deviation = (float(number) for number in re.findall(r"[\d.]+", wanted))
    import_network(path, out, Pixels((centre,), (deviation,)), embedding)


def test_a_file_for_an_accelerator_is_refused_by_that_name(tmp_path: Path) -> None:
    net = TfliteNet()
    image = net.tensor((1, H, W, 3), "int8", INPUT_SCALE)
    net("CUSTOM ethos-u", [image], (1, 5))
    with pytest.raises(ImportedFileError, match=r"is compiled for an accelerator \(custom operator ethos-u\)"):
        import_tflite(net.write(tmp_path / "small.tflite", image, net.operations[-1][2]))


def test_every_operator_is_tried() -> None:
    tried = {name.split(",")[0].split()[0] for name in (*FLOAT, *INT8)}
    elsewhere = {name for name in TFLITE_OPERATORS if name.startswith("CUSTOM ")}  # test_mediapipe_operators.py
    assert set(TFLITE_OPERATORS) - tried - elsewhere == {"DEQUANTIZE"}


def test_the_page_names_every_operator(repository: Path) -> None:
    page = (repository / "docs" / "import.md").read_text("utf-8").split("| TFLite | as |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]+) \|[^|]+\|[^|]*\|$", page, re.M)
    assert sorted(name for row in rows for name in re.findall(r"`([\w ]+)`", row)) == sorted(TFLITE_OPERATORS)


REFUSED: dict[str, tuple[Case, str]] = {
    "an operator": (lambda n, x: n("SIN", [x], SHAPE), r"SIN '1 \(t4\)': this operator is not supported"),
    "a softmax inside": (
        lambda n, x: relu(n, n("SOFTMAX", [mean(n, x, keep=False)], (1, C), "SoftmaxOptions", Beta=1.0)),
        "SOFTMAX '2 .*: a softmax inside the network",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_imported_is_named(name: str, tmp_path: Path) -> None:
    case, reason = REFUSED[name]
    with pytest.raises(ImportedFileError, match=rf"small\.tflite: 1 operation cannot be imported: .*{reason}"):
        import_tflite(written(case, tmp_path))


def test_an_int8_file_becomes_a_model_that_runs(tmp_path: Path) -> None:
    path, out = written_int8(int8_dense, tmp_path), tmp_path / "model.safetensors"
    pixels = Pixels((131.0,), (50.0,))  # the input's steps are 1 / 50, its zero point 3
    result = import_network(path, out, pixels, TaskSettings(labels=("a", "b", "c", "d", "e")))
    assert result.path.exists()
    assert result.layers == {"Conv": 1, "Dense": 1}


def test_pixels_that_the_input_cannot_hold_are_refused(tmp_path: Path) -> None:
    path = written_int8(int8_dense, tmp_path)
    with pytest.raises(ImportedFileError, match=r"its input holds -2\.62 to 2\.48, of which pixels by --mean and "):
        import_network(path, tmp_path / "model.safetensors", Pixels())


def test_an_impossible_zero_point_of_the_input_is_refused(tmp_path: Path) -> None:
    net = TfliteNet()
    image = net.tensor((1, H, W, 3), "int8", Scale((0.02,), (13172,)))
    weight = weights(net, C, 1, 1, 3)
    first = [image, weight, bias(net, weight, INPUT_SCALE)]
    net("CONV_2D", first, SHAPE, "Conv2DOptions", MAP_SCALE, StrideW=1, StrideH=1)
    path = net.write(tmp_path / "small.tflite", image, net.operations[-1][2])
    network, imported = import_tflite(path)
    with pytest.raises(ImportedFileError, match=r"cannot be kept: a zero point of 13172, expected -128 \.\. 127"):
        integer_network(network, imported, imported.tensors, path)


def test_a_network_that_is_quantized_in_part_is_refused_by_name(tmp_path: Path) -> None:
    def case(n: TfliteNet, x: int) -> int:
        number = int8_conv(n, x, C)
        n.tensors[number] = (*n.tensors[number][:4], None)
        return n("TANH", [number], SHAPE, None, Scale((1 / 128,), (0,)))

    path = written_int8(case, tmp_path)
    network, imported = import_tflite(path)
    with pytest.raises(ImportedFileError, match=r"cannot be kept: CONV_2D '1 \(.*\)': its result is not quantized"):
        integer_network(network, imported, imported.tensors, path)


def test_an_activation_behind_a_last_layer_without_integers_is_refused(tmp_path: Path) -> None:
    def case(n: TfliteNet, x: int) -> int:
        number = int8_conv(n, x, C, RELU)
        n.tensors[number] = (*n.tensors[number][:4], None)
        return number

    path = written_int8(case, tmp_path)
    network, imported = import_tflite(path)
    with pytest.raises(ImportedFileError, match=r"cannot be kept: CONV_2D '1 \(.*\)': its result is not quantized"):
        integer_network(network, imported, imported.tensors, path)
