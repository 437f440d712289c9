"""Convolutions and pools: those of ONNX, and the layers that both formats make of theirs."""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import AveragePool, Conv, GlobalAverage, MaxPool, Pad, Padding, Pair
from edgemeta.model.layers.operator import covered
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.values import Map, Value

_T = TypeVar("_T")


def conv(build: Builder, node: Node) -> Value:
    """Conv: the weights' channels last, padding of more than the kernel by a layer of its own."""
    source, weight, bias = build.map(node), build.required(node, 1), build.constant(node, 2)
    if weight.ndim != 4:
        raise UnsupportedError(f"a convolution over {weight.ndim - 2} axes, expected 1 or 2")
    dilation, stride = _pair(node, "dilations"), _pair(node, "strides")
    padding = _padding(node, source, covered((weight.shape[2], weight.shape[3]), dilation), stride)
    channels_last, groups = weight.transpose(0, 2, 3, 1), _attribute(node, "group", 1)
    return add_conv(build, source, node.outputs[0], channels_last, bias, stride, padding, groups, dilation)


def add_conv(
    build: Builder,
    source: Map,
    name: str,
    weight: NDArray[Any],
    bias: NDArray[Any] | None,
    stride: Pair,
    padding: Padding,
    groups: int,
    dilation: Pair,
) -> Map:
    """A convolution, weight [O, KH, KW, I / groups].

    A layer before it that only pads becomes part of it where the sum is less than the kernel covers; padding of as much
    as the kernel covers becomes a layer of its own.
    """
    sides = covered((weight.shape[1], weight.shape[2]), dilation) * 2
    before = build.layers.get(source.tensor)
    if isinstance(before, Pad) and before.spacing == (1, 1):
        top, left, bottom, right = (a + b for a, b in zip(before.padding, padding, strict=True))
        if all(amount < side for amount, side in zip((top, left, bottom, right), sides, strict=True)):
            source, padding = build.map_of(before.input), (top, left, bottom, right)
    if any(amount >= side for amount, side in zip(padding, sides, strict=True)):
        source = build.add(Pad(f"{name}.pad", source.tensor, padding=padding))
        padding = (0, 0, 0, 0)
    shift = None if bias is None else float32(bias)
    return build.add(
        Conv(
            name,
            source.tensor,
            weights=float32(weight),
            bias=shift,
            stride=stride,
            padding=padding,
            groups=groups,
            dilation=dilation,
        )
    )


def conv_transpose(build: Builder, node: Node) -> Value:
    """ConvTranspose: zeros between the elements, then a convolution with the kernel turned by half a turn.

    PyTorch's and ONNX's padding p is cut from the result, so (K - 1) * dilation - p zeros are around it.
    """
    source, weight, bias = build.map(node), build.required(node, 1), build.constant(node, 2)
    if weight.ndim != 4:
        raise UnsupportedError(f"a convolution over {weight.ndim - 2} axes, expected 2")
    if "output_shape" in node.attributes or _attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        raise UnsupportedError("the size of its output is given by output_shape or auto_pad, expected pads")
    groups, dilation = _attribute(node, "group", 1), _pair(node, "dilations")
    sides = covered((weight.shape[2], weight.shape[3]), dilation)
    cut, more = node.attributes.get("pads", (0, 0, 0, 0)), node.attributes.get("output_padding", (0, 0))
    around = [sides[i % 2] - 1 - cut[i] + (more[i - 2] if i >= 2 else 0) for i in range(4)]
    if min(around) < 0:
        raise UnsupportedError(f"pads {tuple(cut)} are more than its kernel covers")
    top, left, bottom, right = around
    name, spacing = node.outputs[0], _pair(node, "strides")
    parts = [part.transpose(1, 2, 3, 0) for part in np.split(weight, groups)]  # of [I, O / groups, KH, KW]
    around_it = (top, left, bottom, right)
    return add_transposed(build, source, name, np.concatenate(parts), bias, spacing, around_it, groups, dilation)


def add_transposed(
    build: Builder,
    source: Map,
    name: str,
    weight: NDArray[Any],
    bias: NDArray[Any] | None,
    spacing: Pair,
    around: Padding,
    groups: int,
    dilation: Pair,
) -> Map:
    """A transposed convolution, weight [O, KH, KW, I / groups]; around: zeros around the spread elements."""
    spread = build.add(Pad(f"{name}.spread", source.tensor, padding=around, spacing=spacing))
    turned, shift = float32(weight[:, ::-1, ::-1]), None if bias is None else float32(bias)
    return build.add(Conv(name, spread.tensor, weights=turned, bias=shift, groups=groups, dilation=dilation))


def max_pool(build: Builder, node: Node) -> Value:
    """MaxPool."""
    return _pool(build, node, MaxPool)


def average_pool(build: Builder, node: Node) -> Value:
    """AveragePool: the mean over the whole kernel, or over what of it lies in the map."""
    return _pool(build, node, AveragePool)


def global_average(build: Builder, node: Node) -> Value:
    """GlobalAveragePool."""
    return build.add(GlobalAverage(node.outputs[0], build.map(node).tensor))


def global_max(build: Builder, node: Node) -> Value:
    """GlobalMaxPool."""
    source = build.map(node)
    sides = source.shape[:2]
    return build.add(MaxPool(node.outputs[0], source.tensor, kernel=sides, stride=sides))


def _pool(build: Builder, node: Node, kind: type[MaxPool] | type[AveragePool]) -> Value:
    source = build.map(node)
    kernel = tuple(node.attributes["kernel_shape"])
    if len(kernel) != 2 or _pair(node, "dilations") != (1, 1):
        raise UnsupportedError(f"a pool of kernel {kernel} and dilation {_pair(node, 'dilations')}")
    stride = _pair(node, "strides")
    top, left, bottom, right = _padding(node, source, kernel, stride)
    is_counted = bool(_attribute(node, "count_include_pad", 0))
    if _attribute(node, "ceil_mode", 0):
        missing = [
            -(side + before + after - size) % step
            for side, before, after, size, step in zip(
                source.shape[:2], (top, left), (bottom, right), kernel, stride, strict=True
            )
        ]
        if kind is AveragePool and is_counted and any(missing):
            raise UnsupportedError("an average that counts the padding, but leaves out that of ceil_mode")
        bottom, right = bottom + missing[0], right + missing[1]
    padding = (top, left, bottom, right)
    if kind is AveragePool:
        return averaged(build, source, node.outputs[0], (kernel[0], kernel[1]), stride, padding, not is_counted)
    return build.add(kind(node.outputs[0], source.tensor, kernel=kernel, stride=stride, padding=padding))


def averaged(
    build: Builder, source: Map, name: str, kernel: Pair, stride: Pair, padding: Padding, inside: bool = True
) -> Map:
    """An average; inside: it leaves out the padding. Raises UnsupportedError where its integers would leave int32."""
    layer = AveragePool(
        name, source.tensor, kernel=kernel, stride=stride, padding=padding, inside=inside and any(padding)
    )
    if layer.inside and (area := layer.area(source.shape)) > _MOST_SHARES:
        raise UnsupportedError(
            f"an average without its padding, of a kernel of {kernel}: {area} is the least number that all counts of "
            f"its elements divide, expected at most {_MOST_SHARES}"
        )
    return build.add(layer)


_MOST_SHARES = (1 << 31) // 256
"""By so much an int32 sum of differences of bytes is divided at most."""


def _attribute(node: Node, name: str, default: _T) -> _T:
    value: _T = node.attributes.get(name, default)
    return value


def _pair(node: Node, name: str) -> Pair:
    first, second = node.attributes.get(name, (1, 1))
    return first, second


def _padding(node: Node, source: Map, size: Pair, stride: Pair) -> Padding:
    """`pads`, or what `auto_pad` means for the size of the input."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        top, left, bottom, right = node.attributes.get("pads", (0, 0, 0, 0))
        return top, left, bottom, right
    if mode == "VALID":
        return 0, 0, 0, 0
    return same_padding(source.shape[:2], size, stride, is_upper=mode == "SAME_UPPER")


def same_padding(sides: Pair, sizes: Pair, stride: Pair, *, is_upper: bool = True) -> Padding:
    """Padding with which the result has 1 / stride of the size, rounded up; an odd rest goes below and right."""
    total = [
        max((-(-side // step) - 1) * step + size - side, 0)
        for side, size, step in zip(sides, sizes, stride, strict=True)
    ]
    less, more = [each // 2 for each in total], [each - each // 2 for each in total]
    first, last = (less, more) if is_upper else (more, less)
    return first[0], first[1], last[0], last[1]
