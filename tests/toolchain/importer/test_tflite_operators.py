"""TFLite's operators one by one, float and int8: equal to LiteRT's reference kernels, or refused by name."""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.tflite_network import TFLITE_OPERATORS, import_tflite
from tests.toolchain.importer.litert import integer_steps, largest_float_difference
from tests.toolchain.importer.tflite_cases import (
    MAP_SCALE,
    OUT_SCALE,
    RELU,
    RELU6,
    RELU_N1_TO_1,
    RNG,
    SAME,
    SHAPE,
    VALID,
    C,
    Case,
    H,
    W,
    bias,
    conv,
    dense,
    enlarged,
    int8_conv,
    int8_dense,
    int8_depthwise,
    integers,
    mean,
    mirrored,
    pad,
    pool,
    pool_of_one,
    reduced,
    relu,
    reshaped_by_shape,
    shuffled,
    sigmoid,
    sliced,
    spread,
    transposed,
    values,
    weights,
    window,
    written,
    written_int8,
)
from tests.toolchain.importer.tflite_writer import Scale, TfliteNet


def tokens_of(n: TfliteNet, x: int) -> int:
    """[1, H W, C]."""
    return n("RESHAPE", [x, n.constant(integers(1, H * W, C))], (1, H * W, C))


def linear(n: TfliteNet, x: int, count: int) -> int:
    """Of each token."""
    weight, shift = n.constant(values(count, C)), n.constant(values(count))
    return n("FULLY_CONNECTED", [x, weight, shift], (1, H * W, count), "FullyConnectedOptions", KeepNumDims=True)


def attention(n: TfliteNet, x: int) -> int:
    """Of two heads, as converters write it: heads apart by RESHAPE and TRANSPOSE, products by BATCH_MATMUL."""
    tokens, sides = tokens_of(n, x), (1, H * W, 2, C // 2)

    def heads(source: int) -> int:
        seen = n("RESHAPE", [source, n.constant(integers(*sides))], sides)
        return n("TRANSPOSE", [seen, n.constant(integers(0, 2, 1, 3))], (1, 2, H * W, C // 2))

    q, k, v = (heads(linear(n, tokens, C)) for _ in range(3))
    scores = n("BATCH_MATMUL", [q, k], (1, 2, H * W, H * W), "BatchMatMulOptions", AdjX=False, AdjY=True)
    scaled = n("MUL", [scores, n.constant(np.array(0.5, np.float32))], (1, 2, H * W, H * W), "MulOptions")
    shares = n("SOFTMAX", [scaled], (1, 2, H * W, H * W), "SoftmaxOptions", Beta=1.0)
    made = n("BATCH_MATMUL", [shares, v], (1, 2, H * W, C // 2), "BatchMatMulOptions", AdjX=False, AdjY=False)
    turned = n("TRANSPOSE", [made, n.constant(integers(0, 2, 1, 3))], sides)
    return n(
        "ADD",
        [tokens, n("RESHAPE", [turned, n.constant(integers(1, H * W, C))], (1, H * W, C))],
        (1, H * W, C),
        "AddOptions",
    )


def layer_norm(n: TfliteNet, x: int, keras: bool, act: int = 0) -> int:
    """As Keras writes it, or as PyTorch's converter does."""
    tokens, one, whole = tokens_of(n, x), (1, H * W, 1), (1, H * W, C)
    axis, eps = n.constant(integers(2)), n.constant(np.array(1e-3, np.float32))
    middle = n("MEAN", [tokens, axis], one, "ReducerOptions", KeepDims=True)
    if keras:
        square = n("SQUARED_DIFFERENCE", [tokens, middle], whole)
    else:
        less = n("SUB", [tokens, middle], whole, "SubOptions")
        square = n("MUL", [less, less], whole, "MulOptions")
    variance = n("MEAN", [square, axis], one, "ReducerOptions", KeepDims=True)
    root = n("RSQRT", [n("ADD", [variance, eps], one, "AddOptions")], one)
    gamma, beta = n.constant(values(C)), n.constant(values(C))
    if not keras:
        scaled = n("MUL", [n("MUL", [less, root], whole, "MulOptions"), gamma], whole, "MulOptions")
        return n("ADD", [scaled, beta], whole, "AddOptions")
    factor = n("MUL", [root, gamma], whole, "MulOptions")
    shift = n("SUB", [beta, n("MUL", [middle, factor], whole, "MulOptions")], whole, "SubOptions")
    scaled = n("MUL", [tokens, factor], whole, "MulOptions")
    return n("ADD", [scaled, shift], whole, "AddOptions", FusedActivationFunction=act)


def unpacked(n: TfliteNet, x: int) -> list[int]:
    """Both halves of the channels of each token."""
    sides, half = (1, H * W, 2, C // 2), (1, H * W, C // 2)
    first = n(
        "UNPACK", [n("RESHAPE", [x, n.constant(integers(*sides))], sides)], [half, half], "UnpackOptions", Axis=2, Num=2
    )
    return [first, first + 1]


def first_token(n: TfliteNet, x: int) -> int:
    """One of the tokens, its axis taken away."""
    spans = [n.constant(integers(*each)) for each in ((0, 1, 0), (1, 2, C), (1, 1, 1))]
    return n(
        "STRIDED_SLICE",
        [tokens_of(n, x), *spans],
        (1, C),
        "StridedSliceOptions",
        ShrinkAxisMask=2,
        BeginMask=5,
        EndMask=5,
    )


FLOAT: dict[str, Case] = {
    "BATCH_MATMUL, attention": attention,
    "LayerNormalization of Keras": lambda n, x: layer_norm(n, x, keras=True),
    "LayerNormalization of Keras, RELU": lambda n, x: layer_norm(n, x, keras=True, act=RELU),
    "LayerNormalization of PyTorch": lambda n, x: layer_norm(n, x, keras=False),
    "STRIDED_SLICE of a token": first_token,
    "UNPACK": lambda n, x: n("ADD", unpacked(n, x), (1, H * W, C // 2), "AddOptions", FusedActivationFunction=RELU),
    "SOFTMAX inside": lambda n, x: relu(n, n("SOFTMAX", [x], SHAPE, "SoftmaxOptions", Beta=1.0)),
    "MEAN of tokens": lambda n, x: n("MEAN", [tokens_of(n, x), n.constant(integers(1))], (1, C), "ReducerOptions"),
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


TOKENS = (1, H * W, C)
SHARE, SCORES = Scale((1 / 256,), (-128,)), Scale((0.02,), (5,))


def int8_attention(n: TfliteNet, x: int) -> int:
    """As `attention`, with a constant token in front."""
    first = n.constant(RNG.integers(-127, 128, (1, 1, C)).astype(np.int8), MAP_SCALE)
    count = H * W + 1
    joined, sides = (1, count, C), (1, count, 2, C // 2)
    tokens = n("CONCATENATION", [first, tokens_of(n, x)], joined, "ConcatenationOptions", MAP_SCALE, "int8", Axis=1)

    def heads(source: int) -> int:
        weight = weights(n, C, C)
        inputs = [source, weight, bias(n, weight, MAP_SCALE)]
        made = n("FULLY_CONNECTED", inputs, joined, "FullyConnectedOptions", MAP_SCALE, KeepNumDims=True)
        seen = n("RESHAPE", [made, n.constant(integers(*sides))], sides)
        return n("TRANSPOSE", [seen, n.constant(integers(0, 2, 1, 3))], (1, 2, count, C // 2))

    q, k, v = (heads(tokens) for _ in range(3))
    square = (1, 2, count, count)
    scores = n("BATCH_MATMUL", [q, k], square, "BatchMatMulOptions", SCORES, AdjX=False, AdjY=True)
    shares = n("SOFTMAX", [scores], square, "SoftmaxOptions", SHARE, Beta=1.0)
    made = n(
        "BATCH_MATMUL", [shares, v], (1, 2, count, C // 2), "BatchMatMulOptions", MAP_SCALE, AdjX=False, AdjY=False
    )
    turned = n("TRANSPOSE", [made, n.constant(integers(0, 2, 1, 3))], sides)
    return n("RESHAPE", [turned, n.constant(integers(*joined))], joined)


def int8_layer_norm(n: TfliteNet, x: int, apart: bool = False) -> int:
    """As Keras writes it; apart: with real numbers between integers, as older converters leave them."""
    tokens, one, whole = tokens_of(n, x), (1, H * W, 1), (1, H * W, C)
    axis, eps = n.constant(integers(2)), n.constant(np.array([127], np.int8), Scale((EPS / 127,)))
    spread, root = Scale((0.2,), (-128,)), Scale((EPS**-0.5 / 255,), (-128,))

    def real(number: int) -> int:
        shape = n.tensors[number][1]
        return n("DEQUANTIZE", [number], shape, None, Scale(()), "float32") if apart else number

    def part(op: str, inputs: list[int], shape: tuple[int, ...], scale: Scale) -> int:
        if not apart:
            return n(op, inputs, shape, None, scale)
        made = n(op, [real(each) for each in inputs], shape, None, Scale(()), "float32")
        return n("QUANTIZE", [made], shape, None, scale, "int8")

    middle = n("MEAN", [tokens, axis], one, "ReducerOptions", MAP_SCALE, KeepDims=True)
    square = part("SQUARED_DIFFERENCE", [tokens, middle], whole, spread)
    variance = n("MEAN", [square, axis], one, "ReducerOptions", Scale((0.07,), (-128,)), KeepDims=True)
    total = n("ADD", [variance, eps], one, "AddOptions", Scale((0.07,), (-128,)))
    gamma, beta = (n.constant(RNG.integers(-127, 128, C).astype(np.int8), Scale((0.01,))) for _ in range(2))
    factor = n("MUL", [part("RSQRT", [total], one, root), gamma], whole, "MulOptions", Scale((0.02,)))
    shift = n("MUL", [middle, factor], whole, "MulOptions", OUT_SCALE)
    scaled = n("MUL", [tokens, factor], whole, "MulOptions", OUT_SCALE)
    return n("ADD", [scaled, n("SUB", [beta, shift], whole, "SubOptions", OUT_SCALE)], whole, "AddOptions", OUT_SCALE)


EPS = 0.5


INT8: dict[str, Case] = {
    "attention": int8_attention,
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


@pytest.mark.parametrize("name", INT8)
def test_an_int8_operator_is_within_one_step_of_litert(name: str, tmp_path: Path) -> None:
    images = RNG.integers(-128, 128, (6, H, W, 3)).astype(np.int8)
    images[0], images[1] = -128, 127
    steps = integer_steps(written_int8(INT8[name], tmp_path), images)
    assert len(steps.layers) <= 2 + (name == "RESIZE_BILINEAR")  # LiteRT's places are multiples of 2**-10
    assert steps.layers[1:].sum() <= 0.15 * steps.layers.sum()


@pytest.mark.parametrize("apart", [False, True])
def test_an_int8_layer_norm_is_one_layer(apart: bool, tmp_path: Path) -> None:
    """LiteRT rounds each of its parts, so it is some steps further from real numbers than ours."""
    _, made = import_tflite(written_int8(lambda n, x: int8_layer_norm(n, x, apart), tmp_path))
    assert [type(layer).__name__ for layer in made.layers] == ["Conv", "LayerNorm"]
    assert "layer norms are computed as a whole" in made.notes[0]
    steps = integer_steps(tmp_path / "small.tflite", RNG.integers(-128, 128, (6, H, W, 3)).astype(np.int8))
    assert (steps.layers * np.arange(len(steps.layers))).sum() <= 1.5 * steps.layers.sum()
    assert len(steps.layers) <= 8


def test_every_operator_is_tried() -> None:
    tried = {name.split(",")[0].split()[0] for name in (*FLOAT, *INT8)}
    elsewhere = {name for name in TFLITE_OPERATORS if name.startswith("CUSTOM ")}  # test_mediapipe_operators.py
    assert set(TFLITE_OPERATORS) - tried - elsewhere == {"DEQUANTIZE"}


REFUSED: dict[str, tuple[Case, str]] = {
    "an operator": (lambda n, x: n("SIN", [x], SHAPE), r"SIN '1 \(t4\)': this operator is not supported"),
    "a constant in front": (
        lambda n, x: n("BATCH_MATMUL", [n.constant(values(1, 5, H * W)), tokens_of(n, x)], (1, 5, C)),
        "BATCH_MATMUL '2 .*: a constant times a tensor, expected the tensor first",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_imported_is_named(name: str, tmp_path: Path) -> None:
    case, reason = REFUSED[name]
    with pytest.raises(ImportedFileError, match=rf"small\.tflite: 1 operation cannot be imported: .*{reason}"):
        import_tflite(written(case, tmp_path))
