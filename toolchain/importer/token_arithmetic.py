"""Sums, products and quotients of tensors of any rank, with numbers or with one another."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Add, BatchNorm, Function, Product
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.taking import require_size, taken
from edgemeta.toolchain.importer.token_maps import in_one_row, read_view, seen_as, tokens_of
from edgemeta.toolchain.importer.values import Axes, Value
from edgemeta.toolchain.importer.views import plain, view_of


def batch_norm(build: Builder, node: Node) -> Value:
    """BatchNormalization of the second axis."""
    gamma, beta, mean, variance = (float32(build.required(node, number)) for number in (1, 2, 3, 4))
    source, seen = tokens_of(build, read_view(build, node), 1)
    eps = float(node.attributes.get("epsilon", 1e-5))
    made = build.add(BatchNorm(node.outputs[0], source.tensor, gamma, beta, mean, variance, eps))
    return view_of(replace(seen, map=made))


def multiply(build: Builder, node: Node) -> Value:
    """Mul: by numbers, or of two tensors."""
    return _two(build, node, _product, lambda x: (x, np.zeros_like(x)))


def add(build: Builder, node: Node) -> Value:
    """Add: of numbers, or of two tensors."""
    return _two(build, node, lambda name, a, b: Add(name, (a, b)), lambda x: (np.ones_like(x), x))


def subtract(build: Builder, node: Node) -> Value:
    """Sub of numbers."""
    if not build.is_constant(node, 1):
        raise UnsupportedError("a difference of tokens, expected one constant")
    return _two(build, node, lambda name, a, b: Add(name, (a, b)), lambda x: (np.ones_like(x), -x), -1.0)


def divide(build: Builder, node: Node) -> Value:
    """Div by numbers, or by the inverse of a tensor."""
    if build.is_constant(node, 0):
        raise UnsupportedError("a constant divided by tokens, expected the tensor first")
    if not build.is_constant(node, 1):
        view = plain(build, read_view(build, node, 1))
        turned = build.add(Function(f"{node.outputs[0]}.inverse", view.map.tensor, "power", -1.0))
        return _joined(build, node.outputs[0], read_view(build, node, 0), replace(view, map=turned), _product)
    inverse = 1 / build.required(node, 1).astype(np.float64)
    return _by_constant(build, node, 0, inverse, _product, lambda x: (x, np.zeros_like(x)))


def _product(name: str, a: str, b: str) -> Product:
    return Product(name, (a, b))


def _two(
    build: Builder, node: Node, join: Callable[[str, str, str], Any], affine: Callable[[Any], Any], sign: float = 1.0
) -> Value:
    for number in (0, 1):
        if build.is_constant(node, number):
            constant = build.required(node, number).astype(np.float64)
            return _by_constant(build, node, 1 - number, constant, join, affine, sign)
    return _joined(build, node.outputs[0], read_view(build, node, 0), read_view(build, node, 1), join)


def expand(build: Builder, node: Node) -> Value:
    """Expand: elements repeated along axes of 1."""
    view, shape = read_view(build, node), build.shape(node.outputs[0])
    view = replace(view, axes=((),) * (len(shape) - len(view.axes)) + view.axes)
    return view_of(spread(build, node.outputs[0], view, shape))


def spread(build: Builder, name: str, view: Axes, shape: Sequence[int]) -> Axes:
    """The tensor, its elements repeated along axes of 1 that have more in a shape."""
    for axis, wanted in enumerate(shape):
        if view.shape[axis] != 1 or wanted == 1:
            continue
        thin, seen = tokens_of(build, view, axis)
        require_size((*thin.shape[:2], wanted))
        wide = taken(build, thin, f"{name}.spread", (None, None, np.zeros(wanted)))
        others = [each for each in range(len(shape)) if each != axis]
        view = seen_as(wide, seen, [*others, axis], [*seen.shape[:axis], wanted, *seen.shape[axis + 1 :]])
    return view


def _joined(build: Builder, name: str, a: Axes, b: Axes, join: Callable[[str, str, str], Any]) -> Value:
    """Two tensors element by element; one element along an axis counts for all."""
    last = len(a.axes) - 1
    if len(a.shape) == len(b.shape):
        a, b = spread(build, name, a, b.shape), spread(build, name, b, a.shape)
    if a.shape != b.shape:
        raise UnsupportedError(f"tensors of shapes {a.shape} and {b.shape}, expected equal ones")
    if a.axes == b.axes and a.map.shape == b.map.shape and a.factor == b.factor == 1:
        return view_of(replace(a, map=build.add(join(name, a.map.tensor, b.map.tensor))))
    one, seen = tokens_of(build, a, last)
    other, _ = tokens_of(build, b, last)
    if one.shape != other.shape:
        one, other = (in_one_row(build, each) for each in (one, other))
        seen = seen_as(one, a, range(last + 1))
    made = build.add(join(name, one.tensor, other.tensor))
    return view_of(replace(seen, map=made))


def _by_constant(
    build: Builder,
    node: Node,
    number: int,
    constant: NDArray[np.float64],
    join: Callable[[str, str, str], Any],
    affine: Callable[[Any], Any],
    sign: float = 1.0,
) -> Value:
    """A number for all, one for each channel, or a constant of the tensor's shape."""
    view, name = read_view(build, node, number), node.outputs[0]
    if constant.size == 1:
        factor, summand = affine(constant.reshape(()))
        if summand == 0 and factor > 0 and name not in build.graph.quantization:
            return replace(view, factor=view.factor * float(factor))
    target = np.broadcast_shapes(view.shape, constant.shape)
    if target != view.shape:
        raise UnsupportedError(f"a constant of shape {constant.shape} for a tensor of shape {view.shape}")
    view = plain(build, view)
    source = view.map
    numbers = _in_map(np.broadcast_to(constant, target), view)
    channels = numbers.reshape(-1, numbers.shape[2])
    zero = np.zeros(numbers.shape[2])
    if (channels == channels[0]).all():
        factor, summand = affine(channels[0])
        layer = BatchNorm(name, source.tensor, float32(factor), float32(summand), float32(zero), float32(zero + 1), 0.0)
        return view_of(replace(view, map=build.add(layer)))
    given = build.add_constant(node, 1 - number, source.tensor, sign * numbers)
    return view_of(replace(view, map=build.add(join(name, source.tensor, given.tensor))))


def _in_map(values: NDArray[Any], view: Axes) -> NDArray[Any]:
    """Values of the view's shape as the map has them, [H, W, C]."""
    parts = [part for axis in view.axes for part in axis]
    split = np.ascontiguousarray(values).reshape([size for size, _ in parts])
    return split.transpose(np.argsort([-stride for _, stride in parts])).reshape(view.map.shape)
