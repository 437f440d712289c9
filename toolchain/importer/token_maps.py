"""Tensors of any rank as maps: which axes become positions and which channels."""

from collections.abc import Sequence

from edgemeta.model.layers import Concat, Rearrange
from edgemeta.toolchain.importer.builder import Builder, UnsupportedError
from edgemeta.toolchain.importer.network import Node
from edgemeta.toolchain.importer.values import Axes, Columns, Map, Rows
from edgemeta.toolchain.importer.views import arranged, axes_of, natural, permuted, reshaped


def read_view(build: Builder, node: Node, number: int = 0) -> Axes:
    """An input of any rank."""
    value = build.value(node, number)
    if isinstance(value, Columns | Rows) and len(value.maps) > 1:
        value = build.values[node.inputs[number]] = _one_map(build, value, f"{node.inputs[number]}.joined")
    view = axes_of(value)
    if view is None:
        raise UnsupportedError("several maps, expected one")
    shape = build.graph.shapes.get(node.inputs[number], view.shape)
    return view if shape == view.shape else reshaped(view, shape) or view


def _one_map(build: Builder, value: Columns | Rows, name: str) -> Axes:
    """Pixels of maps one after the other, as one map whose channels they are."""
    parts = []
    for each in value.maps:
        view = axes_of(Columns((each,)) if isinstance(value, Columns) else Rows((each,), value.width))
        assert view is not None
        last = 2 if isinstance(value, Columns) else 1
        parts.append(in_one_row(build, map_with(build, view, [3 - last], [last])))
    made = build.add(Concat(name, tuple(each.tensor for each in parts)))
    seen = natural(made, (1, made.shape[1], made.shape[2]))
    return seen if isinstance(value, Columns) else permuted(seen, (0, 2, 1))


def map_with(
    build: Builder, view: Axes, columns: Sequence[int], channels: Sequence[int], rows: Sequence[int] = ()
) -> Map:
    """The map with these axes as its positions and channels."""
    made = arranged(build, view, rows, columns, channels)
    if made is None:
        raise UnsupportedError(f"axes of a tensor of shape {view.shape} that split the map {view.map.shape} elsewhere")
    return made


def tokens_of(build: Builder, view: Axes, last: int) -> tuple[Map, Axes]:
    """The map whose channels are one axis, the others its positions, and how it is seen as the tensor."""
    others = [axis for axis in range(len(view.axes)) if axis != last]
    made = map_with(build, view, others, [last])
    return made, seen_as(made, view, [*others, last])


def seen_as(made: Map, view: Axes, order: Sequence[int], shape: Sequence[int] | None = None) -> Axes:
    """A map that has the axes of a view in this order, seen as that view; shape: of the axes, where it is another."""
    sides = view.shape if shape is None else shape
    seen = natural(made, [sides[axis] for axis in order])
    return permuted(seen, [list(order).index(axis) for axis in range(len(order))])


def in_one_row(build: Builder, source: Map) -> Map:
    """The map with its positions in one row."""
    if source.shape[0] == 1:
        return source
    return build.add(
        Rearrange(f"{source.tensor}.row", source.tensor, sides=source.shape, order=(0, 1, 2), rows=0, columns=2)
    )
