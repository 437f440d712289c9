"""Operations on tensors of any rank: what attention and its neighbours do with tokens, heads and windows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from edgemeta.model.layers import BatchNorm, Conv, GlobalAverage, LayerNorm, MatMul, Softmax
from edgemeta.model.layers.operator import MAX_SIDE
from edgemeta.toolchain.importer import windows
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError, float32
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.rearranging import rows_of
from edgemeta.toolchain.importer.token_arithmetic import add, batch_norm, divide, expand, multiply, subtract
from edgemeta.toolchain.importer.token_maps import in_one_row, map_with, read_view, seen_as, tokens_of
from edgemeta.toolchain.importer.token_parts import concat, gather, pad, slice_of, split
from edgemeta.toolchain.importer.values import Axes, Map, Value
from edgemeta.toolchain.importer.views import axes_of, natural, permuted, plain, reshaped, view_of

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


def reshape(build: Builder, node: Node) -> Value:
    """Reshape and its like: the same elements with other axes."""
    view, target = read_view(build, node), build.shape(node.outputs[0])
    made = reshaped(view, target)
    if made is None:  # sides that lie elsewhere: in the order of the tensor all splits are possible
        plain = map_with(build, view, (), range(len(view.axes)))
        made = reshaped(natural(plain, (prod(view.shape),)), target)
    if made is None:
        raise UnsupportedError(f"{view.shape} seen as {target}")
    return view_of(made)


def transpose(build: Builder, node: Node) -> Value:
    """Transpose: another view."""
    view = read_view(build, node)
    order = tuple(node.attributes.get("perm", range(len(view.axes))[::-1]))
    return view_of(permuted(view, order))


def linear(build: Builder, node: Node) -> Value:
    """MatMul and Gemm: by a constant a convolution of 1x1, of two tensors a product for each head."""
    if not build.is_constant(node, 1):
        if node.op == "Gemm" or build.is_constant(node, 0):
            raise UnsupportedError("a constant times a tensor, expected the tensor first")
        return matmul_of(build, node.outputs[0], read_view(build, node, 0), read_view(build, node, 1))
    rows = rows_of(build, node)
    given = build.constant(node, 2) if node.op == "Gemm" else None
    bias = None
    if given is not None:
        bias = float32(np.broadcast_to(given.ravel() * node.attributes.get("beta", 1.0), (len(rows),)))
    view = read_view(build, node)
    source, seen = tokens_of(build, view, len(view.axes) - 1)
    if source.shape[2] != rows.shape[1]:
        raise UnsupportedError(f"weights of shape {rows.shape} for {source.shape[2]} channels")
    made = build.add(Conv(node.outputs[0], source.tensor, weights=float32(rows[:, None, None, :]), bias=bias))
    return view_of(seen_as(made, seen, range(len(seen.axes)), (*seen.shape[:-1], len(rows))))


def matmul_of(build: Builder, name: str, a: Axes, b: Axes) -> Value:
    """Of two tensors [..., M, K] and [..., K, N]: the leading axes are heads."""
    batch = list(range(len(a.axes) - 2))
    m, k, n = len(batch), len(batch) + 1, len(batch) + 1
    shared = [axis for axis in batch if len(b.axes) == len(a.axes) and b.shape[axis] == 1]  # one b for all of a
    heads = [axis for axis in batch if axis not in shared]
    if len(a.axes) != len(b.axes) or any(a.shape[axis] != b.shape[axis] for axis in heads) or not batch:
        raise UnsupportedError(f"a product of tensors of shapes {a.shape} and {b.shape}, expected equal leading axes")
    factor = a.factor * b.factor
    a, b = replace(a, factor=1.0), replace(b, factor=1.0)
    left = map_with(build, a, [*shared, m], [*heads, k])
    is_transposed = _strides(b, n) >= _strides(b, m)
    right = map_with(build, b, [n if is_transposed else m], [*heads, m if is_transposed else n])
    count = prod(a.shape[axis] for axis in heads)
    made = build.add(MatMul(name, (left.tensor, right.tensor), heads=count, transposed=is_transposed, factor=factor))
    return view_of(seen_as(made, a, [*shared, m, *heads, k], (*a.shape[:-1], b.shape[-1])))


def _strides(view: Axes, axis: int) -> int:
    """The distance of neighbours along an axis."""
    return min((stride for _, stride in view.axes[axis]), default=0)


def conv(build: Builder, node: Node) -> Value:
    """Conv; of one axis as that of a map of one row."""
    view, weight = read_view(build, node), build.required(node, 1)
    if weight.ndim != 3:
        return windows.conv(build, node)
    source = in_one_row(build, map_with(build, view, [2], [1]))
    (before, behind), (stride,), (dilation,) = (
        node.attributes.get(name, usual) for name, usual in (("pads", (0, 0)), ("strides", (1,)), ("dilations", (1,)))
    )
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise UnsupportedError("a convolution over 1 axis with auto_pad, expected pads")
    rows, padding = weight.transpose(0, 2, 1)[:, np.newaxis], (0, before, 0, behind)
    bias, groups = build.constant(node, 2), node.attributes.get("group", 1)
    made = windows.add_conv(build, source, node.outputs[0], rows, bias, (1, stride), padding, groups, (1, dilation))
    return view_of(permuted(natural(made, (1, *made.shape[1:])), (0, 2, 1)))


def softmax(build: Builder, node: Node) -> Value:
    """Softmax along one axis."""
    view = read_view(build, node)
    axis = node.attributes.get("axis", -1) % len(view.axes)
    channels = view.map.shape[2]
    others = [each for each in range(len(view.axes)) if each != axis]
    far = [each for each in others if all(stride >= channels for _, stride in view.axes[each]) and view.axes[each]]
    near = [each for each in others if each not in far]
    near.sort(key=lambda each: -_strides(view, each))
    far.sort(key=lambda each: -_strides(view, each))
    if prod(view.shape[each] for each in (*near, axis)) > MAX_SIDE:  # more channels than a map may have
        far, near = [*far, *near], []
    order = [*far, *near, axis]
    source = map_with(build, view, far, [*near, axis])
    groups = source.shape[2] // view.shape[axis]
    made = build.add(Softmax(node.outputs[0], source.tensor, groups=groups))
    return view_of(seen_as(made, view, order))


def layer_norm(build: Builder, node: Node) -> Value:
    """LayerNormalization over the last axis; of a recognized one, without factors, over the axes that it says."""
    view = read_view(build, node)
    if "axes" in node.attributes:
        return _normalized(build, view, list(node.attributes["axes"]), node.outputs[0], node.attributes["epsilon"])
    last = len(view.axes) - 1
    if node.attributes.get("axis", -1) % len(view.axes) != last:
        raise UnsupportedError("a normalization over several axes, expected the last one")
    source, seen = tokens_of(build, view, last)
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
        source, seen = tokens_of(build, view, axes[0])
    return view_of(replace(seen, map=_layer_norm_of(build, source, name, eps, whole=whole)))


def instance_norm(build: Builder, node: Node) -> Value:
    """InstanceNormalization: of each channel of the one image."""
    return _by_groups(build, node, read_view(build, node), float(node.attributes.get("epsilon", 1e-5)))


def group_norm(build: Builder, node: Node) -> Value:
    """GroupNormalization: of equal groups of channels; a factor and a summand for each group or channel."""
    view, groups = read_view(build, node), int(node.attributes["num_groups"])
    parted = reshaped(view, (1, groups, prod(view.shape) // groups))
    if parted is None:
        raise UnsupportedError(f"{groups} groups of a tensor of shape {view.shape}")
    return _by_groups(build, node, parted, float(node.attributes.get("epsilon", 1e-5)))


def _by_groups(build: Builder, node: Node, view: Axes, eps: float) -> Value:
    """Each element of the second axis normalized by itself, then factors and summands for parts of the channels."""
    name, shape = node.outputs[0], build.shape(node.inputs[0])
    gamma, beta = (build.required(node, number).ravel() for number in (1, 2))
    if view.shape[:2] == (1, 1):
        made = replace(view := plain(build, view), map=_layer_norm_of(build, view.map, name, eps, whole=True))
    else:
        axes = range(2, len(view.axes))
        source = map_with(build, view, [1], axes)
        made = seen_as(_layer_norm_of(build, source, name, eps), view, [0, 1, *axes])
    seen = reshaped(made, shape)
    if seen is None:
        raise UnsupportedError(f"a normalization of a tensor of shape {shape}")
    if (gamma == 1).all() and not beta.any():
        return view_of(seen)
    source, seen = tokens_of(build, seen, 1)
    channels = source.shape[2]
    if channels % len(gamma):
        raise UnsupportedError(f"{len(gamma)} factors for {channels} channels")
    factor, summand = (float32(np.repeat(each, channels // len(each))) for each in (gamma, beta))
    zero = np.zeros(channels, np.float32)
    layer = BatchNorm(f"{name}.scaled", source.tensor, factor, summand, zero, zero + 1, 0.0)
    return view_of(replace(seen, map=build.add(layer)))


def _layer_norm_of(build: Builder, source: Map, name: str, eps: float, *, whole: bool = False) -> Map:
    ones = np.ones(source.shape[2], np.float32)
    return build.add(LayerNorm(name, source.tensor, gamma=ones, beta=ones * 0, eps=eps, whole=whole))


def reduce_sum(build: Builder, node: Node) -> Value:
    """ReduceSum: the mean, times how many there are."""
    made = reduce_mean(build, node)
    view = axes_of(made)
    if view is None:
        raise UnsupportedError("a sum over several maps, expected one")
    return replace(view, factor=view.factor * prod(build.shape(node.inputs[0])) / prod(view.shape))


def reduce_mean(build: Builder, node: Node) -> Value:
    """ReduceMean over axes that are positions of a map: the mean over all of them."""
    view = read_view(build, node)
    given = build.constant(node, 1) if len(node.inputs) > 1 else node.attributes.get("axes")
    axes = sorted(int(axis) % len(view.axes) for axis in np.ravel(given if given is not None else []))
    others = [axis for axis in range(len(view.axes)) if axis not in axes]
    if not axes:
        raise UnsupportedError("a mean over all axes, expected some")
    source = map_with(build, view, axes, others)
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
    "Conv": conv,
    "Div": divide,
    "Expand": expand,
    "Flatten": reshape,
    "Gather": gather,
    "Gemm": linear,
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "MatMul": linear,
    "Mul": multiply,
    "Pad": pad,
    "ReduceMean": reduce_mean,
    "ReduceSum": reduce_sum,
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
