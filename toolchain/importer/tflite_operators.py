"""TFLite's operators as layers. Maps are seen [1, H, W, C]; the layers are made where those of ONNX are made."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from edgemeta.model.layers import AveragePool, DepthToSpace, Function, MaxPool, Padding, Pair, ResizeBilinear, real
from edgemeta.model.layers.operator import covered
from edgemeta.toolchain.importer import elementwise, rearranging, reducing, sizing
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.taking import nearest
from edgemeta.toolchain.importer.values import Map, Pixels, Value
from edgemeta.toolchain.importer.windows import add_conv, add_transposed, averaged, same_padding

Convert = Callable[[Builder, Node], Value]
SAME, VALID = 0, 1
_ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}
_CLIPS: dict[str, tuple[float, float | None]] = {"RELU": (0, None), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}


def activated(convert: Convert) -> Convert:
    """The operator with its fused activation as a layer behind it."""

    def whole(build: Builder, node: Node) -> Value:
        kind = node.attributes.get("act", 0)
        if kind == 0:
            return convert(build, node)
        if kind not in _ACTIVATIONS:
            raise UnsupportedError(f"the fused activation {kind}, expected one of {', '.join(_ACTIVATIONS.values())}")
        name = node.outputs[0]
        return _activation(build, convert(build, replace(node, outputs=(f"{name}.linear",))), name, _ACTIVATIONS[kind])

    return whole


def activation(kind: str) -> Convert:
    """An activation as an operator of its own."""
    return lambda build, node: _activation(build, build.value(node), node.outputs[0], kind)


def _activation(build: Builder, value: Value, name: str, kind: str) -> Value:
    if kind in _CLIPS:
        return elementwise.clipped(build, value, name, *_CLIPS[kind])
    return build.each(value, name, lambda final, source: Function(final, source.tensor, "tanh"))


def gelu(build: Builder, node: Node) -> Value:
    """GELU, exact or by tanh."""
    kind = "tanh" if node.attributes.get("approximate", False) else "none"
    return elementwise.gelu(build, replace(node, attributes={"approximate": kind}))


def local_response(build: Builder, node: Node) -> Value:
    """LOCAL_RESPONSE_NORMALIZATION: `radius` channels on each side, `alpha` of each square instead of of their mean."""
    size = 2 * int(node.attributes["radius"]) + 1
    given = {**node.attributes, "size": size, "alpha": size * node.attributes["alpha"]}
    return reducing.local_response(build, replace(node, attributes=given))


def conv(build: Builder, node: Node) -> Value:
    """CONV_2D, weights [O, KH, KW, I / groups]."""
    source, weight = build.pixels(node), build.required(node, 1)
    groups = source.shape[2] // weight.shape[3]
    return _conv(build, node, weight, groups)


def depthwise_conv(build: Builder, node: Node) -> Value:
    """DEPTHWISE_CONV_2D, weights [1, KH, KW, O]: every channel gives O / I of the outputs, one after the other."""
    weight = build.required(node, 1)
    return _conv(build, node, weight.transpose(3, 1, 2, 0), build.pixels(node).shape[2])


def _conv(build: Builder, node: Node, weight: Any, groups: int) -> Value:
    source = build.pixels(node)
    dilation, stride = _pair(node, "dilation_{}_factor"), _pair(node, "stride_{}")
    padding = _padding(node, source.shape[:2], covered((weight.shape[1], weight.shape[2]), dilation), stride)
    bias = build.constant(node, 2)
    return Pixels(add_conv(build, source, node.outputs[0], weight, bias, stride, padding, groups, dilation))


def transpose_conv(build: Builder, node: Node) -> Value:
    """TRANSPOSE_CONV: inputs are the size of its output, weights [O, KH, KW, I], the map and the bias."""
    _, *size, _ = (int(each) for each in build.required(node, 0))
    is_same = node.attributes["padding"] == SAME
    return _transposed(
        build, node, build.pixels(node, 2), build.required(node, 1), build.constant(node, 3), size, is_same
    )


def transpose_conv_bias(build: Builder, node: Node) -> Value:
    """MediaPipe's Convolution2DTransposeBias: inputs are the map, weights [O, KH, KW, I] and the bias."""
    size, is_same = build.shape(node.outputs[0])[1:3], node.attributes["padding_of_c"] == 1
    weight, bias = build.required(node, 1), build.constant(node, 2)
    return _transposed(build, node, build.pixels(node), weight, bias, list(size), is_same)


def _transposed(
    build: Builder, node: Node, source: Map, weight: Any, bias: Any, size: list[int], is_same: bool
) -> Value:
    stride, kernel = _pair(node, "stride_{}"), (weight.shape[1], weight.shape[2])
    before, after = [], []
    for side, out, step, taps in zip(source.shape[:2], size, stride, kernel, strict=True):
        cut = max((side - 1) * step + taps - out, 0) // 2 if is_same else 0
        before.append(taps - 1 - cut)
        after.append(out - 1 - (side - 1) * step + cut)
    if min(before + after) < 0:
        raise UnsupportedError(f"an output of {size} rows and columns, which the kernel {kernel} does not fill")
    around = (before[0], before[1], after[0], after[1])
    return Pixels(add_transposed(build, source, node.outputs[0], weight, bias, stride, around, 1, (1, 1)))


def fully_connected(build: Builder, node: Node) -> Value:
    """FULLY_CONNECTED, weights [outputs, inputs]."""
    weight, bias = build.required(node, 1), build.constant(node, 2)
    if node.attributes.get("weights_format", 0) or weight.ndim != 2:
        raise UnsupportedError("shuffled weights, expected [outputs, inputs]")
    return rearranging.dense(build, build.flat(node), node.outputs[0], weight, bias)


def pool(kind: type[MaxPool] | type[AveragePool]) -> Convert:
    """MAX_POOL_2D and AVERAGE_POOL_2D; an average does not count the padding."""

    def convert(build: Builder, node: Node) -> Value:
        source = build.pixels(node)
        kernel, stride = (node.attributes["filter_height"], node.attributes["filter_width"]), _pair(node, "stride_{}")
        padding = _padding(node, source.shape[:2], kernel, stride)
        if kind is AveragePool:
            return Pixels(averaged(build, source, node.outputs[0], kernel, stride, padding))
        return Pixels(build.add(kind(node.outputs[0], source.tensor, kernel=kernel, stride=stride, padding=padding)))

    return convert


def transpose(build: Builder, node: Node) -> Value:
    """TRANSPOSE."""
    return rearranging.transposed(build, node, tuple(int(axis) for axis in build.required(node, 1)))


def pad(build: Builder, node: Node) -> Value:
    """PAD, PADV2 and MIRROR_PAD: [axes, 2], before and behind each axis."""
    amounts, fill = build.required(node, 1), build.constant(node, 2)
    value = 0.0 if fill is None else float(fill.ravel()[0])
    mode = {0: "reflect", 1: "symmetric"}.get(node.attributes.get("mode", -1), "constant")
    return sizing.padded(build, node, [int(amount) for amount in amounts.T.ravel()], value, mode)


def slice_of(build: Builder, node: Node) -> Value:
    """SLICE: a start and a size for each axis, -1 for all that is left."""
    starts, sizes = ([int(each) for each in build.required(node, number)] for number in (1, 2))
    ends = [start + size if size >= 0 else _END for start, size in zip(starts, sizes, strict=True)]
    return rearranging.sliced(build, node, starts, ends, list(range(len(starts))), [1] * len(starts))


def strided_slice(build: Builder, node: Node) -> Value:
    """STRIDED_SLICE forwards, with masks for whole beginnings and ends."""
    starts, ends, steps = ([int(each) for each in build.required(node, number)] for number in (1, 2, 3))
    if any(node.attributes.get(f"{name}_mask", 0) for name in ("ellipsis", "new_axis", "shrink_axis")):
        raise UnsupportedError("a slice that adds or removes axes")
    count, masks = len(starts), [node.attributes.get(f"{name}_mask", 0) for name in ("begin", "end")]
    starts = [0 if masks[0] >> axis & 1 else starts[axis] for axis in range(count)]
    ends = [_END if masks[1] >> axis & 1 else ends[axis] for axis in range(count)]
    return rearranging.sliced(build, node, starts, ends, list(range(count)), steps)


_END = 1 << 31


def split(build: Builder, node: Node) -> tuple[Value, ...]:
    """SPLIT: the axis, then the map."""
    return rearranging.split_along(build, node, int(build.required(node, 0).ravel()[0]), None, number=1)


def split_v(build: Builder, node: Node) -> tuple[Value, ...]:
    """SPLIT_V: the map, the sizes, the axis."""
    sizes = [int(size) for size in build.required(node, 1)]
    return rearranging.split_along(build, node, int(build.required(node, 2).ravel()[0]), sizes)


def depth_to_space(build: Builder, node: Node) -> Value:
    """DEPTH_TO_SPACE."""
    source, block = build.pixels(node), node.attributes["block_size"]
    return Pixels(build.add(DepthToSpace(node.outputs[0], source.tensor, block=block)))


def space_to_depth(build: Builder, node: Node) -> Value:
    """SPACE_TO_DEPTH."""
    return Pixels(rearranging.blocks(build, build.pixels(node), node.outputs[0], node.attributes["block_size"]))


def resize_bilinear(build: Builder, node: Node) -> Value:
    """RESIZE_BILINEAR."""
    source, size = build.pixels(node), _size(build, node)
    is_half = node.attributes.get("half_pixel_centers", False)
    places: Literal["half_pixel", "align_corners", "asymmetric"] = "half_pixel" if is_half else "asymmetric"
    if node.attributes.get("align_corners", False):
        places = "align_corners"
    return Pixels(build.add(ResizeBilinear(node.outputs[0], source.tensor, real(*size), coordinates=places)))


def resize_nearest(build: Builder, node: Node) -> Value:
    """RESIZE_NEAREST_NEIGHBOR."""
    source, size = build.pixels(node), _size(build, node)
    places, rounding = "asymmetric", "floor"
    if node.attributes.get("align_corners", False):
        places, rounding = "align_corners", "round_prefer_ceil"
    elif node.attributes.get("half_pixel_centers", False):
        places, rounding = "half_pixel", "round_prefer_ceil"
    rows, columns = (
        nearest(side, out, out / side, places, rounding) for side, out in zip(source.shape[:2], size, strict=True)
    )
    return Pixels(sizing.enlarged(build, source, node.outputs[0], rows, columns))


def _size(build: Builder, node: Node) -> Pair:
    height, width = (int(each) for each in build.required(node, 1))
    return height, width


def _pair(node: Node, name: str) -> Pair:
    return node.attributes.get(name.format("h"), 1), node.attributes.get(name.format("w"), 1)


def _padding(node: Node, sides: Pair, sizes: Pair, stride: Pair) -> Padding:
    if min(stride) < 1:
        raise UnsupportedError(f"a stride of {stride}")
    if "pads" in node.attributes:
        top, left, bottom, right = node.attributes["pads"]
        return top, left, bottom, right
    if node.attributes["padding"] == VALID:
        return 0, 0, 0, 0
    return same_padding(sides, sizes, stride)
