"""Small TFLite networks, float and int8, of which each test tries one operation."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.toolchain.importer.tflite_writer import Scale, TfliteNet

RNG = np.random.default_rng(4)
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


def written(case: Case, path: Path) -> Path:
    """A network of an image of three channels, a map of six and the case."""
    net = TfliteNet()
    image = net.tensor((1, H, W, 3))
    first = [image, net.constant(values(C, 1, 1, 3)), net.constant(values(C))]
    x = net("CONV_2D", first, SHAPE, "Conv2DOptions", StrideW=1, StrideH=1)
    case(net, x)
    return net.write(path / "small.tflite", image, net.operations[-1][2])


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


def written_int8(case: Case, path: Path) -> Path:
    """The same in int8: the image is 3 channels of pixel - 128, as cameras give it."""
    net = TfliteNet()
    image = net.tensor((1, H, W, 3), "int8", INPUT_SCALE)
    weight = weights(net, C, 1, 1, 3)
    first = [image, weight, bias(net, weight, INPUT_SCALE)]
    x = net("CONV_2D", first, SHAPE, "Conv2DOptions", MAP_SCALE, StrideW=1, StrideH=1)
    case(net, x)
    return net.write(path / "small.tflite", image, net.operations[-1][2])
