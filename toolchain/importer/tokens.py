"""Operations on tensors of any rank: what attention and its neighbours do with tokens, heads and windows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import (
    Add,
    BatchNorm,
    Concat,
    Constant,
    Conv,
    Function,
    GlobalAverage,
    LayerNorm,
    MatMul,
    Product,
    Rearrange,
    Slice,
    Softmax,
)
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.values import Axes, Map, Pixels, Value
from edgemeta.toolchain.importer.views import arranged, axes_of, natural, permuted, plain, reshaped, view_of

Convert = Callable[[Builder, Node], Value | tuple[Value, ...]]


def or_tokens(convert: Convert | None, tokens: Convert) -> Convert:
    """The first converter; where it has no layer for a node, or tokens are read, the second one."""

    def both(build: Builder, node: Node) -> Value | tuple[Value, ...]:
        read = [build.values.get(name) for name in node.inputs]
        if convert is None or any(isinstance(value, Axes) for value in read):
            return tokens(build, node)
        try:
            return convert(build, node)
        except UnsupportedError as error:
            try:
                return tokens(build, node)
            except UnsupportedError:
                raise error from None

    return both


def _view(build: Builder, node: Node, number: int = 0) -> Axes:
    """An input of any rank."""
    value = build.value(node, number)
    view = axes_of(value)
    if view is None:
        raise UnsupportedError("several maps, expected one")
    return view


def _map(build: Builder, view: Axes, columns: Sequence[int], channels: Sequence[int], rows: Sequence[int] = ()) -> Map:
    """The map with these axes as its positions and channels."""
    made = arranged(build, view, rows, columns, channels)
    if made is None:
        raise UnsupportedError(f"axes of a tensor of shape {view.shape} that split the map {view.map.shape} elsewhere")
    return made


def _tokens(build: Builder, view: Axes, last: int) -> tuple[Map, Axes]:
    """The map whose channels are one axis, the others its positions, and how it is seen as the tensor."""
    others = [axis for axis in range(len(view.axes)) if axis != last]
    made = _map(build, view, others, [last])
    return made, _seen(made, view, [*others, last])


def _seen(made: Map, view: Axes, order: Sequence[int], shape: Sequence[int] | None = None) -> Axes:
    """A map that has the axes of a view in this order, seen as that view; shape: of the axes, where it is another."""
    sides = view.shape if shape is None else shape
    seen = natural(made, [sides[axis] for axis in order])
    return permuted(seen, [list(order).index(axis) for axis in range(len(order))])


def reshape(build: Builder, node: Node) -> Value:
    """Reshape and its like: the same elements with other axes."""
    view, target = _view(build, node), build.shape(node.outputs[0])
    made = reshaped(view, target)
    if made is None:  # sides that lie elsewhere: in the order of the tensor all splits are possible
        plain = _map(build, view, (), range(len(view.axes)))
        made = reshaped(natural(plain, (prod(view.shape),)), target)
    if made is None:
        raise UnsupportedError(f"{view.shape} seen as {target}")
    return view_of(made)


def transpose(build: Builder, node: Node) -> Value:
    """Transpose: another view."""
    view = _view(build, node)
    order = tuple(node.attributes.get("perm", range(len(view.axes))[::-1]))
    return view_of(permuted(view, order))


def linear(build: Builder, node: Node) -> Value:
    """MatMul and Gemm: by a constant a convolution of 1x1, of two tensors a product for each head."""
    if not build.is_constant(node, 1):
        if node.op == "Gemm" or build.is_constant(node, 0):
            raise UnsupportedError("a constant times a tensor, expected the tensor first")
        return _matmul(build, node)
    weight = build.required(node, 1).astype(np.float64)
    if weight.ndim != 2 or node.attributes.get("transA", 0):
        raise UnsupportedError(f"a matrix of {weight.ndim} axes, expected a constant matrix of two")
    rows = (weight if node.attributes.get("transB", 0) else weight.T) * node.attributes.get("alpha", 1.0)
    given = build.constant(node, 2) if node.op == "Gemm" else None
    bias = None
    if given is not None:
        bias = float32(np.broadcast_to(given.ravel() * node.attributes.get("beta", 1.0), (len(rows),)))
    view = _view(build, node)
    source, seen = _tokens(build, view, len(view.axes) - 1)
    if source.shape[2] != rows.shape[1]:
        raise UnsupportedError(f"weights of shape {rows.shape} for {source.shape[2]} channels")
    made = build.add(Conv(node.outputs[0], source.tensor, weights=float32(rows[:, None, None, :]), bias=bias))
    return view_of(_seen(made, seen, range(len(seen.axes)), (*seen.shape[:-1], len(rows))))


def _matmul(build: Builder, node: Node) -> Value:
    """Of two tensors [..., M, K] and [..., K, N]: the leading axes are heads."""
    a, b = _view(build, node, 0), _view(build, node, 1)
    batch = list(range(len(a.axes) - 2))
    m, k, n = len(batch), len(batch) + 1, len(batch) + 1
    if len(a.axes) != len(b.axes) or a.shape[:-2] != b.shape[:-2] or not batch:
        raise UnsupportedError(f"a product of tensors of shapes {a.shape} and {b.shape}, expected equal leading axes")
    factor = a.factor * b.factor
    a, b = replace(a, factor=1.0), replace(b, factor=1.0)
    left = _map(build, a, [m], [*batch, k])
    is_transposed = _strides(b, n) >= _strides(b, m)
    right = _map(build, b, [n if is_transposed else m], [*batch, m if is_transposed else n])
    heads = prod(a.shape[:-2])
    made = build.add(
        MatMul(node.outputs[0], (left.tensor, right.tensor), heads=heads, transposed=is_transposed, factor=factor)
    )
    return view_of(_seen(made, a, [m, *batch, k], (*a.shape[:-1], b.shape[-1])))


def _strides(view: Axes, axis: int) -> int:
    """The distance of neighbours along an axis."""
    return min((stride for _, stride in view.axes[axis]), default=0)


def softmax(build: Builder, node: Node) -> Value:
    """Softmax along one axis."""
    view = _view(build, node)
    axis = node.attributes.get("axis", -1) % len(view.axes)
    channels = view.map.shape[2]
    others = [each for each in range(len(view.axes)) if each != axis]
    far = [each for each in others if all(stride >= channels for _, stride in view.axes[each]) and view.axes[each]]
    near = [each for each in others if each not in far]
    near.sort(key=lambda each: -_strides(view, each))
    far.sort(key=lambda each: -_strides(view, each))
    order = [*far, *near, axis]
    source = _map(build, view, far, [*near, axis])
    groups = source.shape[2] // view.shape[axis]
    made = build.add(Softmax(node.outputs[0], source.tensor, groups=groups))
    return view_of(_seen(made, view, order))


def layer_norm(build: Builder, node: Node) -> Value:
    """LayerNormalization over the last axis; of a recognized one, without factors, over the axes that it says."""
    view = _view(build, node)
    if "axes" in node.attributes:
        return _normalized(build, view, list(node.attributes["axes"]), node.outputs[0], node.attributes["epsilon"])
    last = len(view.axes) - 1
    if node.attributes.get("axis", -1) % len(view.axes) != last:
        raise UnsupportedError("a normalization over several axes, expected the last one")
    source, seen = _tokens(build, view, last)
    size = source.shape[2]
    given = build.constant(node, 2)
    gamma = float32(np.broadcast_to(build.required(node, 1).ravel(), (size,)))
    beta = np.zeros(size, np.float32) if given is None else float32(np.broadcast_to(given.ravel(), (size,)))
    eps = float(node.attributes.get("epsilon", 1e-5))
    made = build.add(LayerNorm(node.outputs[0], source.tensor, gamma=gamma, beta=beta, eps=eps))
    return view_of(replace(seen, map=made))


def _normalized(build: Builder, view: Axes, axes: list[int], name: str, eps: float) -> Value:
    whole = prod(view.shape[axis] for axis in axes) == prod(view.shape)
    if not whole and len(axes) != 1:
        raise UnsupportedError(f"a normalization over axes {axes}, expected one axis or the whole map")
    if whole:
        seen = plain(build, view)
        source = seen.map
    else:
        source, seen = _tokens(build, view, axes[0])
    ones = np.ones(source.shape[2], np.float32)
    made = build.add(LayerNorm(name, source.tensor, gamma=ones, beta=ones * 0, eps=eps, whole=whole))
    return view_of(replace(seen, map=made))


def instance_norm(build: Builder, node: Node) -> Value:
    """InstanceNormalization of one instance: GroupNorm of one group, whose factor and summand follow."""
    view = _view(build, node)
    gamma, beta = build.required(node, 1).ravel(), build.required(node, 2).ravel()
    if view.shape[:2] != (1, 1) or gamma.tolist() != [1.0] or beta.tolist() != [0.0]:
        raise UnsupportedError(f"a normalization of {view.shape[1]} groups, expected one without factors")
    axes = list(range(2, len(view.axes)))
    return _normalized(build, view, axes, node.outputs[0], float(node.attributes.get("epsilon", 1e-5)))


def batch_norm(build: Builder, node: Node) -> Value:
    """BatchNormalization of the second axis."""
    gamma, beta, mean, variance = (float32(build.required(node, number)) for number in (1, 2, 3, 4))
    source, seen = _tokens(build, _view(build, node), 1)
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
        view = plain(build, _view(build, node, 1))
        turned = build.add(Function(f"{node.outputs[0]}.inverse", view.map.tensor, "power", -1.0))
        return _joined(build, node.outputs[0], _view(build, node, 0), replace(view, map=turned), _product)
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
    a, b = _view(build, node, 0), _view(build, node, 1)
    if b.shape[-1] != 1 == a.shape[-1]:
        a, b = b, a
    return _joined(build, node.outputs[0], a, b, join)


def _joined(build: Builder, name: str, a: Axes, b: Axes, join: Callable[[str, str, str], Any]) -> Value:
    """Two tensors element by element; b may have one element along the last axis."""
    last = len(a.axes) - 1
    if b.shape == (*a.shape[:-1], 1) != a.shape:
        thin, _ = _tokens(build, b, last)
        ones = np.ones((a.shape[-1], 1, 1, 1), np.float32)
        wide = build.add(Conv(f"{name}.spread", thin.tensor, weights=ones))
        b = _seen(wide, b, range(last + 1), a.shape)
    if a.shape != b.shape:
        raise UnsupportedError(f"tensors of shapes {a.shape} and {b.shape}, expected equal ones")
    if a.axes == b.axes and a.map.shape == b.map.shape and a.factor == b.factor == 1:
        return view_of(replace(a, map=build.add(join(name, a.map.tensor, b.map.tensor))))
    one, seen = _tokens(build, a, last)
    other, _ = _tokens(build, b, last)
    if one.shape != other.shape:
        one, other = (_flat(build, each) for each in (one, other))
        seen = _seen(one, a, range(last + 1))
    made = build.add(join(name, one.tensor, other.tensor))
    return view_of(replace(seen, map=made))


def _flat(build: Builder, source: Map) -> Map:
    """The map with its positions in one row."""
    if source.shape[0] == 1:
        return source
    return build.add(
        Rearrange(f"{source.tensor}.row", source.tensor, sides=source.shape, order=(0, 1, 2), rows=0, columns=2)
    )


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
    view, name = _view(build, node, number), node.outputs[0]
    if constant.size == 1:
        factor, summand = affine(constant.reshape(()))
        if summand == 0 and factor > 0:
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
    given = build.add(Constant(f"{name}.constant", source.tensor, values=float32(sign * numbers)))
    return view_of(replace(view, map=build.add(join(name, source.tensor, given.tensor))))


def _in_map(values: NDArray[Any], view: Axes) -> NDArray[Any]:
    """Values of the view's shape as the map has them, [H, W, C]."""
    parts = [part for axis in view.axes for part in axis]
    split = np.ascontiguousarray(values).reshape([size for size, _ in parts])
    return split.transpose(np.argsort([-stride for _, stride in parts])).reshape(view.map.shape)


def concat(build: Builder, node: Node) -> Value:
    """Concat along any axis; constants, as a class token, are layers."""
    shapes = [build.shape(name) for name in node.inputs]
    axis = node.attributes["axis"] % len(shapes[0])
    others = [each for each in range(len(shapes[0])) if each != axis]
    parts = []
    for number, shape in enumerate(shapes):
        if build.is_constant(node, number):
            values = float32(build.required(node, number).transpose([*others, axis]).reshape(1, -1, shape[axis]))
            parts.append(build.add(Constant(f"{node.outputs[0]}.constant", INPUT, values=values)))
        else:
            parts.append(_flat(build, _map(build, _view(build, node, number), others, [axis])))
    made = build.add(Concat(node.outputs[0], tuple(each.tensor for each in parts)))
    sides = [*shapes[0][:axis], made.shape[2], *shapes[0][axis + 1 :]]
    seen = natural(made, [sides[each] for each in (*others, axis)])
    order = [*others, axis]
    return view_of(permuted(seen, [order.index(each) for each in range(len(order))]))


def pad(build: Builder, node: Node) -> Value:
    """Pad behind the last axis with one number."""
    view, amounts, fill = _view(build, node), build.required(node, 1).ravel().tolist(), build.constant(node, 2)
    last = len(view.axes) - 1
    if node.attributes.get("mode", "constant") != "constant" or any(amounts[:-1]) or amounts[-1] < 0:
        raise UnsupportedError(f"amounts {amounts}, expected those behind the last axis only")
    source = _flat(build, _tokens(build, view, last)[0])
    number = 0.0 if fill is None or not fill.size else float(fill.reshape(()))
    values = np.full((1, source.shape[1], amounts[-1]), number, np.float32)
    given = build.add(Constant(f"{node.outputs[0]}.constant", source.tensor, values=values))
    made = build.add(Concat(node.outputs[0], (source.tensor, given.tensor)))
    return view_of(natural(made, (*view.shape[:-1], made.shape[2])))


def _part(build: Builder, view: Axes, axis: int, start: int, stop: int, name: str) -> Axes:
    """Elements start .. stop - 1 along an axis: channels if it begins those, else a part of the others."""
    view = plain(build, view)
    source = view.map
    height, width, channels = source.shape
    size = view.shape[axis]
    if view.axes[axis] == ((size, channels // size),):
        inner = channels // size
        begin, end = (0, 0, start * inner), (height, width, stop * inner)
        made = build.add(Slice(name, source.tensor, start=begin, stop=end))
        ratio = (stop - start, size)
        axes = tuple(
            tuple((part, stride if stride < channels else stride // ratio[1] * ratio[0]) for part, stride in each)
            for each in view.axes
        )
        kept = () if stop - start == 1 else ((stop - start, inner),)
        return replace(view, map=made, axes=(*axes[:axis], kept, *axes[axis + 1 :]))
    if height == 1 and view.axes[axis] == ((width, channels),):
        made = build.add(Slice(name, source.tensor, start=(0, start, 0), stop=(1, stop, channels)))
        kept = () if stop - start == 1 else ((stop - start, channels),)
        return replace(view, map=made, axes=(*view.axes[:axis], kept, *view.axes[axis + 1 :]))
    far = [each for each in range(len(view.axes)) if each != axis and all(st >= channels for _, st in view.axes[each])]
    near = [each for each in range(len(view.axes)) if each != axis and each not in far]
    order = [*far, axis, *near]
    moved = _map(build, view, far, [axis, *near])
    again = _seen(moved, view, order)
    if again.axes[axis] != ((size, moved.shape[2] // size),):
        raise UnsupportedError(f"a part of axis {axis} of a tensor of shape {view.shape}")
    return _part(build, again, axis, start, stop, name)


def split(build: Builder, node: Node) -> tuple[Value, ...]:
    """Split along any axis."""
    view = _view(build, node)
    axis = node.attributes.get("axis", 0) % len(view.axes)
    given = build.constant(node, 1) if len(node.inputs) > 1 else node.attributes.get("split")
    size = view.shape[axis]
    each = -(-size // len(node.outputs))
    sizes = [each] * len(node.outputs) if given is None else [int(part) for part in np.ravel(given)]
    values, at = [], 0
    for part, output in zip(sizes, node.outputs, strict=True):
        values.append(view_of(_part(build, view, axis, at, min(at + part, size), output)))
        at += part
    return tuple(values)


def gather(build: Builder, node: Node) -> Value:
    """Gather of one index, which takes the axis away, or of adjacent ones."""
    view, index = _view(build, node), build.required(node, 1)
    if index.ndim > 1:
        raise UnsupportedError(f"numbers of shape {index.shape}, expected one or a list")
    axis = node.attributes.get("axis", 0) % len(view.axes)
    numbers = np.ravel(index).astype(np.int64) % view.shape[axis]
    if not np.array_equal(numbers, numbers[0] + np.arange(len(numbers))):
        raise UnsupportedError("a gather of indices that are not adjacent")
    part = _part(build, view, axis, int(numbers[0]), int(numbers[-1]) + 1, node.outputs[0])
    if index.ndim == 0:
        part = replace(part, axes=(*part.axes[:axis], *part.axes[axis + 1 :]))
    return view_of(part)


def slice_of(build: Builder, node: Node) -> Value:
    """Slice along any axes; by steps of [1, H, W, C]."""
    view = _view(build, node)
    starts, ends, axes, steps = (build.constant(node, number) for number in (1, 2, 3, 4))
    if starts is None or ends is None:
        raise UnsupportedError("its starts or ends are missing")
    along = range(len(np.ravel(starts))) if axes is None else np.ravel(axes).tolist()
    if steps is not None and (np.ravel(steps) != 1).any():
        if len(view.axes) != 4 or view.shape[0] != 1 or np.ravel(steps).min() < 1:
            raise UnsupportedError("a slice by steps, expected adjacent elements")
        source = _map(build, view, (2,), (3,), (1,))
        spans = [slice(0, side, 1) for side in view.shape]
        for axis, begin, stop, step in zip(
            along, *(np.ravel(each).tolist() for each in (starts, ends, steps)), strict=True
        ):
            spans[axis] = slice(*slice(begin, stop, step).indices(view.shape[axis]))
        at, to, by = ((a, b, c) for a, b, c in zip(*((s.start, s.stop, s.step) for s in spans[1:]), strict=True))
        return Pixels(build.add(Slice(node.outputs[0], source.tensor, start=at, stop=to, step=by)))
    for axis, start, end in zip(along, np.ravel(starts).tolist(), np.ravel(ends).tolist(), strict=True):
        first, last, _ = slice(start, end).indices(view.shape[axis])
        if last <= first:
            raise UnsupportedError("a slice without elements")
        if (first, last) != (0, view.shape[axis]):
            view = _part(build, view, axis % len(view.axes), first, last, node.outputs[0])
    return view_of(view)


def reduce_mean(build: Builder, node: Node) -> Value:
    """ReduceMean over axes that are positions of a map: the mean over all of them."""
    view = _view(build, node)
    given = build.constant(node, 1) if len(node.inputs) > 1 else node.attributes.get("axes")
    axes = sorted(int(axis) % len(view.axes) for axis in np.ravel(given if given is not None else []))
    others = [axis for axis in range(len(view.axes)) if axis not in axes]
    if not axes:
        raise UnsupportedError("a mean over all axes, expected some")
    source = _map(build, view, axes, others)
    made = build.add(GlobalAverage(node.outputs[0], source.tensor))
    seen = natural(made, [view.shape[axis] for axis in others])
    if not node.attributes.get("keepdims", 1):
        return view_of(seen)
    kept = iter(seen.axes)
    return view_of(replace(seen, axes=tuple(() if axis in axes else next(kept) for axis in range(len(view.axes)))))


TOKENS: Mapping[str, Convert] = {
    "Add": add,
    "BatchNormalization": batch_norm,
    "Concat": concat,
    "Div": divide,
    "Flatten": reshape,
    "Gather": gather,
    "Gemm": linear,
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "MatMul": linear,
    "Mul": multiply,
    "Pad": pad,
    "ReduceMean": reduce_mean,
    "Reshape": reshape,
    "Slice": slice_of,
    "Softmax": softmax,
    "Split": split,
    "Squeeze": reshape,
    "Sub": subtract,
    "Transpose": transpose,
    "Unsqueeze": reshape,
}
"""By ONNX's name."""
