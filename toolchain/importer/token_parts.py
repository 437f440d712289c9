"""Parts of tensors of any rank, and what joins them: slices, splits, gathers, concatenations, paddings."""

from dataclasses import replace

import numpy as np

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Concat, Constant, Slice
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.taking import require_size
from edgemeta.toolchain.importer.token_maps import in_one_row, map_with, read_view, seen_as, tokens_of
from edgemeta.toolchain.importer.values import Axes, Pixels, Value
from edgemeta.toolchain.importer.views import natural, permuted, plain, view_of


def concat(build: Builder, node: Node) -> Value:
    """Concat along any axis; constants, as a class token, are layers."""
    shapes = [build.shape(name) for name in node.inputs]
    axis = node.attributes["axis"] % len(shapes[0])
    others = [each for each in range(len(shapes[0])) if each != axis]
    parts = []
    for number, shape in enumerate(shapes):
        if build.is_constant(node, number):
            values = build.required(node, number).transpose([*others, axis]).reshape(1, -1, shape[axis])
            parts.append(build.add_constant(node, number, INPUT, values))
        else:
            parts.append(in_one_row(build, map_with(build, read_view(build, node, number), others, [axis])))
    made = build.add(Concat(node.outputs[0], tuple(each.tensor for each in parts)))
    sides = [*shapes[0][:axis], made.shape[2], *shapes[0][axis + 1 :]]
    seen = natural(made, [sides[each] for each in (*others, axis)])
    order = [*others, axis]
    return view_of(permuted(seen, [order.index(each) for each in range(len(order))]))


def pad(build: Builder, node: Node) -> Value:
    """Pad before and behind one axis with one number."""
    view, amounts, fill = read_view(build, node), build.required(node, 1).ravel().tolist(), build.constant(node, 2)
    rank = len(view.axes)
    axes = [axis for axis in range(rank) if amounts[axis] or amounts[axis + rank]]
    if not axes:
        return view_of(view)
    if node.attributes.get("mode", "constant") != "constant" or len(axes) != 1 or min(amounts) < 0:
        raise UnsupportedError(f"amounts {amounts}, expected those of one axis, none below 0")
    source = in_one_row(build, tokens_of(build, view, axes[0])[0])
    require_size((1, source.shape[1], source.shape[2] + sum(amounts)))
    number = 0.0 if fill is None or not fill.size else float(fill.reshape(()))

    def constant(count: int) -> list[str]:
        require_size((1, source.shape[1], count))
        values = np.full((1, source.shape[1], count), number, np.float32)
        return [build.add(Constant(f"{node.outputs[0]}.constant", source.tensor, values=values)).tensor] * bool(count)

    before, behind = constant(amounts[axes[0]]), constant(amounts[axes[0] + rank])
    made = build.add(Concat(node.outputs[0], (*before, source.tensor, *behind)))
    others = [axis for axis in range(rank) if axis not in axes]
    sides = [made.shape[2] if axis in axes else view.shape[axis] for axis in range(rank)]
    return view_of(seen_as(made, view, [*others, *axes], sides))


def part_of(build: Builder, view: Axes, axis: int, start: int, stop: int, name: str) -> Axes:
    """Elements start .. stop - 1 along an axis: channels if it begins those, else a part of the others."""
    view = plain(build, view)
    source = view.map
    height, width, channels = source.shape
    size = view.shape[axis]
    if (start, stop) == (0, size):
        return view
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
    moved = map_with(build, view, far, [axis, *near])
    again = seen_as(moved, view, order)
    if again.axes[axis] != ((size, moved.shape[2] // size),):
        raise UnsupportedError(f"a part of axis {axis} of a tensor of shape {view.shape}")
    return part_of(build, again, axis, start, stop, name)


def split(build: Builder, node: Node) -> tuple[Value, ...]:
    """Split along any axis."""
    view = read_view(build, node)
    axis = node.attributes.get("axis", 0) % len(view.axes)
    given = build.constant(node, 1) if len(node.inputs) > 1 else node.attributes.get("split")
    size = view.shape[axis]
    each = -(-size // len(node.outputs))
    sizes = [each] * len(node.outputs) if given is None else [int(part) for part in np.ravel(given)]
    values, at = [], 0
    for part, output in zip(sizes, node.outputs, strict=True):
        values.append(view_of(part_of(build, view, axis, at, min(at + part, size), output)))
        at += part
    return tuple(values)


def gather(build: Builder, node: Node) -> Value:
    """Gather of one index, which takes the axis away, or of adjacent ones."""
    view, index = read_view(build, node), build.required(node, 1)
    if index.ndim > 1:
        raise UnsupportedError(f"numbers of shape {index.shape}, expected one or a list")
    axis = node.attributes.get("axis", 0) % len(view.axes)
    numbers = np.ravel(index).astype(np.int64) % view.shape[axis]
    if not np.array_equal(numbers, numbers[0] + np.arange(len(numbers))):
        raise UnsupportedError("a gather of indices that are not adjacent")
    part = part_of(build, view, axis, int(numbers[0]), int(numbers[-1]) + 1, node.outputs[0])
    if index.ndim == 0:
        part = replace(part, axes=(*part.axes[:axis], *part.axes[axis + 1 :]))
    return view_of(part)


def slice_of(build: Builder, node: Node) -> Value:
    """Slice along any axes; by steps of [1, H, W, C]."""
    view = read_view(build, node)
    starts, ends, axes, steps = (build.constant(node, number) for number in (1, 2, 3, 4))
    if starts is None or ends is None:
        raise UnsupportedError("its starts or ends are missing")
    along = range(len(np.ravel(starts))) if axes is None else np.ravel(axes).tolist()
    if steps is not None and (np.ravel(steps) != 1).any():
        if len(view.axes) != 4 or view.shape[0] != 1 or np.ravel(steps).min() < 1:
            raise UnsupportedError("a slice by steps, expected adjacent elements")
        source = map_with(build, view, (2,), (3,), (1,))
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
            view = part_of(build, view, axis % len(view.axes), first, last, node.outputs[0])
    return view_of(view)
