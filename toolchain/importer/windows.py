"""Convolutions and pools of ONNX."""

from typing import Literal, TypeVar

import numpy as np

from edgemeta.toolchain.float_model.graph import Conv, GlobalAverage, Pad, Padding, Pair, Pool
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32
from edgemeta.toolchain.importer.onnx_file import Node
from edgemeta.toolchain.importer.values import Map, Value

_T = TypeVar("_T")


def conv(build: Builder, node: Node) -> Value:
    """Conv: the weights' channels last, padding of more than the kernel by a layer of its own."""
    source, weight, bias = build.map(node), build.required(node, 1), build.constant(node, 2)
    if weight.ndim != 4:
        raise UnsupportedError(f"a convolution over {weight.ndim - 2} axes, expected 2")
    dilation, stride = _pair(node, "dilations"), _pair(node, "strides")
    covered = _covered((weight.shape[2], weight.shape[3]), dilation)
    padding = _padding(node, source, covered, stride)
    if any(amount >= side for amount, side in zip(padding, covered * 2, strict=True)):
        source = build.add(Pad(f"{node.outputs[0]}.pad", source.tensor, padding))
        padding = (0, 0, 0, 0)
    channels_last = float32(weight.transpose(0, 2, 3, 1))
    shift = None if bias is None else float32(bias)
    groups = _attribute(node, "group", 1)
    return build.add(Conv(node.outputs[0], source.tensor, channels_last, shift, stride, padding, groups, dilation))


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
    covered = _covered((weight.shape[2], weight.shape[3]), dilation)
    cut, more = node.attributes.get("pads", (0, 0, 0, 0)), node.attributes.get("output_padding", (0, 0))
    around = [covered[i % 2] - 1 - cut[i] + (more[i - 2] if i >= 2 else 0) for i in range(4)]
    if min(around) < 0:
        raise UnsupportedError(f"pads {tuple(cut)} are more than its kernel covers")
    top, left, bottom, right = around
    name, spacing = node.outputs[0], _pair(node, "strides")
    spread = build.add(Pad(f"{name}.spread", source.tensor, (top, left, bottom, right), spacing))
    turned = weight[:, :, ::-1, ::-1]  # [I, O / groups, KH, KW]
    parts = [part.transpose(1, 2, 3, 0) for part in np.split(turned, groups)]
    channels_last, shift = float32(np.concatenate(parts)), None if bias is None else float32(bias)
    return build.add(Conv(name, spread.tensor, channels_last, shift, groups=groups, dilation=dilation))


def max_pool(build: Builder, node: Node) -> Value:
    """MaxPool."""
    return _pool(build, node, "max")


def average_pool(build: Builder, node: Node) -> Value:
    """AveragePool: the mean over the whole kernel, so padding must not be left out of the count."""
    return _pool(build, node, "average")


def global_average(build: Builder, node: Node) -> Value:
    """GlobalAveragePool."""
    return build.add(GlobalAverage(node.outputs[0], build.map(node).tensor))


def global_max(build: Builder, node: Node) -> Value:
    """GlobalMaxPool."""
    source = build.map(node)
    sides = source.shape[:2]
    return build.add(Pool(node.outputs[0], source.tensor, "max", sides, sides))


def _pool(build: Builder, node: Node, kind: Literal["max", "average"]) -> Value:
    source = build.map(node)
    kernel = tuple(node.attributes["kernel_shape"])
    if len(kernel) != 2 or _pair(node, "dilations") != (1, 1):
        raise UnsupportedError(f"a pool of kernel {kernel} and dilation {_pair(node, 'dilations')}")
    stride = _pair(node, "strides")
    top, left, bottom, right = _padding(node, source, kernel, stride)
    is_counted = bool(_attribute(node, "count_include_pad", 0))
    if kind == "average" and not is_counted and any((top, left, bottom, right)):
        raise UnsupportedError("an average that leaves out the padding, expected count_include_pad 1 or no padding")
    if _attribute(node, "ceil_mode", 0):
        missing = [
            -(side + before + after - size) % step
            for side, before, after, size, step in zip(
                source.shape[:2], (top, left), (bottom, right), kernel, stride, strict=True
            )
        ]
        if kind == "average" and any(missing):
            raise UnsupportedError("an average that leaves out the padding of ceil_mode")
        bottom, right = bottom + missing[0], right + missing[1]
    padding = (top, left, bottom, right)
    return build.add(Pool(node.outputs[0], source.tensor, kind, kernel, stride, padding))


def _attribute(node: Node, name: str, default: _T) -> _T:
    value: _T = node.attributes.get(name, default)
    return value


def _pair(node: Node, name: str) -> Pair:
    first, second = node.attributes.get(name, (1, 1))
    return first, second


def _covered(kernel: Pair, dilation: Pair) -> Pair:
    return (kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1


def _padding(node: Node, source: Map, covered: Pair, stride: Pair) -> Padding:
    """`pads`, or what `auto_pad` means for the size of the input."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        top, left, bottom, right = node.attributes.get("pads", (0, 0, 0, 0))
        return top, left, bottom, right
    if mode == "VALID":
        return 0, 0, 0, 0
    total = [
        max((-(-side // step) - 1) * step + size - side, 0)
        for side, size, step in zip(source.shape[:2], covered, stride, strict=True)
    ]
    less, more = [each // 2 for each in total], [each - each // 2 for each in total]
    first, last = (less, more) if mode == "SAME_UPPER" else (more, less)
    return first[0], first[1], last[0], last[1]
