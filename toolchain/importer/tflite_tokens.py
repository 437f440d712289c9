"""TFLite's operators on tensors of any rank, as attention has them: the same layers as those of ONNX, by its views."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from edgemeta.toolchain.importer import token_parts, tokens
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.tflite_operators import activated
from edgemeta.toolchain.importer.token_arithmetic import add, divide, multiply, subtract
from edgemeta.toolchain.importer.token_maps import read_view
from edgemeta.toolchain.importer.token_parts import concat, part_of, split
from edgemeta.toolchain.importer.tokens import Convert, matmul_of
from edgemeta.toolchain.importer.values import Value
from edgemeta.toolchain.importer.views import permuted, view_of


def _as(convert: Convert, **attributes: object) -> Convert:
    """A converter of ONNX's node, with attributes that TFLite's has not."""
    return lambda build, node: convert(build, replace(node, attributes={**node.attributes, **attributes}))


def transpose(build: Builder, node: Node) -> Value:
    """TRANSPOSE: another view."""
    return view_of(permuted(read_view(build, node), [int(axis) for axis in build.required(node, 1)]))


def fully_connected(build: Builder, node: Node) -> Value:
    """FULLY_CONNECTED of the last axis, weights [outputs, inputs]."""
    return tokens.linear(build, replace(node, op="Gemm", attributes={"transB": 1}))


def batch_matmul(build: Builder, node: Node) -> Value:
    """BATCH_MATMUL of two tensors, each perhaps with its last two axes exchanged; by a constant as FULLY_CONNECTED."""
    flags = [bool(node.attributes.get(name, False)) for name in ("adj_x", "adj_y")]
    if build.is_constant(node, 1):
        if flags[0]:
            raise UnsupportedError("a tensor whose axes are exchanged, times a constant")
        return tokens.linear(build, replace(node, op="MatMul", attributes={"transB": int(flags[1])}))
    if build.is_constant(node, 0):
        raise UnsupportedError("a constant times a tensor, expected the tensor first")
    views = [read_view(build, node, number) for number in (0, 1)]
    order = [*range(len(views[0].axes) - 2), -1, -2]
    a, b = (permuted(view, order) if flag else view for view, flag in zip(views, flags, strict=True))
    return matmul_of(build, node.outputs[0], a, b)


def reduced(convert: Convert) -> Convert:
    """MEAN and SUM."""
    return lambda build, node: _as(convert, keepdims=int(bool(node.attributes.get("keep_dims", False))))(build, node)


def split_along(build: Builder, node: Node) -> tuple[Value, ...]:
    """SPLIT: the axis, then the tensor."""
    axis = int(build.required(node, 0).ravel()[0])
    return split(build, replace(node, inputs=node.inputs[1:], attributes={"axis": axis}))


def unpack(build: Builder, node: Node) -> tuple[Value, ...]:
    """UNPACK: each element of an axis by itself."""
    view = read_view(build, node)
    axis = node.attributes.get("axis", 0) % len(view.axes)
    values = []
    for at, name in enumerate(node.outputs):
        one = part_of(build, view, axis, at, at + 1, name)
        values.append(view_of(replace(one, axes=(*one.axes[:axis], *one.axes[axis + 1 :]))))
    return tuple(values)


def strided_slice(build: Builder, node: Node) -> Value:
    """STRIDED_SLICE of adjacent elements; axes of which one element is taken may go."""
    starts, ends, steps = (build.required(node, number).tolist() for number in (1, 2, 3))
    view, masks = read_view(build, node), {name: node.attributes.get(f"{name}_mask", 0) for name in _MASKS}
    if masks["ellipsis"] or masks["new_axis"] or any(step != 1 for step in steps):
        raise UnsupportedError("a slice by steps, or one that adds axes")
    for axis, (start, end) in enumerate(zip(starts, ends, strict=True)):
        side = view.shape[axis]
        first = None if masks["begin"] >> axis & 1 else start
        last = None if masks["end"] >> axis & 1 else end
        begin, stop, _ = slice(first, last).indices(side)
        if masks["shrink_axis"] >> axis & 1:
            begin = start % side
            stop = begin + 1
        view = part_of(build, view, axis, begin, stop, node.outputs[0])
    gone = [axis for axis in range(len(starts)) if masks["shrink_axis"] >> axis & 1]
    return view_of(replace(view, axes=tuple(each for axis, each in enumerate(view.axes) if axis not in gone)))


_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def reshape(build: Builder, node: Node) -> Value:
    """RESHAPE, EXPAND_DIMS, SQUEEZE."""
    if prod(build.shape(node.inputs[0])) != prod(build.shape(node.outputs[0])):
        raise UnsupportedError(f"{build.shape(node.inputs[0])} seen as {build.shape(node.outputs[0])}")
    return tokens.reshape(build, node)


def gather(build: Builder, node: Node) -> Value:
    """GATHER without leading axes that both share."""
    if node.attributes.get("batch_dims", 0):
        raise UnsupportedError("batch_dims above 0")
    return token_parts.gather(build, node)


TFLITE_TOKENS: Mapping[str, Callable[[Builder, Node], Value | tuple[Value, ...]]] = {
    "ADD": activated(add),
    "BATCH_MATMUL": batch_matmul,
    "CONCATENATION": activated(concat),
    "DIV": activated(divide),
    "EXPAND_DIMS": reshape,
    "FULLY_CONNECTED": activated(fully_connected),
    "GATHER": gather,
    "LayerNormalization": activated(tokens.layer_norm),
    "MEAN": reduced(tokens.reduce_mean),
    "MUL": activated(multiply),
    "RESHAPE": reshape,
    "SOFTMAX": _as(tokens.softmax, axis=-1),
    "SPLIT": split_along,
    "SQUEEZE": reshape,
    "STRIDED_SLICE": strided_slice,
    "SUB": activated(subtract),
    "SUM": reduced(tokens.reduce_sum),
    "TRANSPOSE": transpose,
    "UNPACK": unpack,
}
"""By TFLite's name; LayerNormalization: as `patterns.py` recognizes it."""
