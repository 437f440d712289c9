"""What a taught model takes over from another model: its layers up to a few tensors, for an input of any size.

A convolution has no fixed input size: the same weights give a greater map for a greater image. What is proved of every
accumulator holds for any size of the map, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Layer, Shape
from edgemeta.model.require import shown
from edgemeta.toolchain.errors import TeachError

KEY = "teach"
"""Key of a model's provenance under which it may say how it serves best: {"side": pixels, "grids": {tensor: cells}}."""
MIN_SIDE, MAX_SIDE = 24, 224
"""Sides of the image, pixels."""
ENLARGED = 64
"""Pixels of a side to which the image of a backbone is enlarged, at most twofold."""
_FINE, _COARSE, _TAPS, _LEAST = 8, 4, 3, 4
"""Most cells of a side of the grid for all tensors but the last; for the last; how many tensors; least rows of one."""


@dataclass(frozen=True)
class Plan:
    """Which tensors of a backbone are looked at, and how.

    shape: of the image (H, W, C). grids: cells of a side of the grid over which each tensor is averaged, by its name;
    the greatest is a multiple of all others.
    """

    shape: Shape
    grids: Mapping[str, int]

    @property
    def cells(self) -> int:
        """Cells of a side of the finest grid."""
        return max(self.grids.values())


def make_plan(model: Model, side: int | None = None) -> Plan:
    """The plan that the file states in its provenance, else the computed one; side: of the image, if another one.

    Computed: the image of a small network is enlarged, up to twofold, to ENLARGED pixels. Of every size of map with at
    least 4 rows the last tensor, and of these the last three, each on a grid of at most 8 x 8 cells, the smallest map
    of at most 4 x 4, a power of two with at least two rows in each cell. Raises TeachError.
    """
    stated = model.provenance.get(KEY)
    wanted = stated if isinstance(stated, Mapping) else {}
    own = wanted.get("side")
    height, width, channels = model.input.shape
    if side is None and isinstance(own, int):
        side = own
    elif side is None and max(height, width) < ENLARGED:
        side = min(ENLARGED, 2 * min(height, width))
    if side is not None:
        if not MIN_SIDE <= side <= MAX_SIDE:
            raise TeachError(f"the side of the image is {side}, expected {MIN_SIDE} .. {MAX_SIDE} pixels")
        height, width = side, side
    shapes = _shapes(model, (height, width, channels))
    grids = wanted.get("grids")
    if isinstance(grids, Mapping):
        return Plan((height, width, channels), _stated_grids(model, grids, shapes))
    return Plan((height, width, channels), _computed_grids(model, shapes))


def layers_for(model: Model, plan: Plan) -> tuple[Layer, ...]:
    """The layers that compute the plan's tensors, with the shapes that its image gives."""
    shapes = _shapes(model, plan.shape)
    wanted = set(plan.grids)
    for layer in reversed(model.layers):
        if layer.name in wanted:
            wanted |= set(layer.sources)
    kept = [layer for layer in model.layers if layer.name in wanted]
    return tuple(replace(layer, output=replace(layer.output, shape=shapes[layer.name])) for layer in kept)


def _shapes(model: Model, shape: Shape) -> dict[str, Shape]:
    """Shapes of all tensors that an image of this shape gives; those after a layer that it does not fit are absent."""
    shapes = {INPUT: shape}
    for layer in model.layers:
        if all(name in shapes for name in layer.sources):
            try:
                shapes[layer.name] = layer.shape(*(shapes[name] for name in layer.sources))
            except ModelError:  # such as a dense layer, which has one input size
                continue
    return shapes


def _computed_grids(model: Model, shapes: Mapping[str, Shape]) -> dict[str, int]:
    last: dict[tuple[int, int], str] = {}
    places = {}
    for place, layer in enumerate(model.layers):
        is_map = min(layer.output.shape[:2]) >= _LEAST and layer.name in shapes and layer.output.bits <= 8
        if is_map and min(shapes[layer.name][:2]) >= _LEAST:
            last[shapes[layer.name][:2]] = layer.name
            places[layer.name] = place
    names = sorted(last.values(), key=lambda name: places[name])[-_TAPS:]
    if not names:
        raise TeachError(f"model {model.name}: has no map of at least 4 x 4 elements, expected a network with some")
    sides = {name: min(shapes[name][:2]) for name in names}
    return {name: _cells(sides[name], _COARSE if name == names[-1] else _FINE) for name in names}


def _cells(side: int, most: int) -> int:
    """The greatest power of two, at most `most`, that leaves two rows for each cell."""
    cells = most
    while cells > 1 and side < 2 * cells:
        cells //= 2
    return cells


def _stated_grids(model: Model, grids: Mapping[object, object], shapes: Mapping[str, Shape]) -> dict[str, int]:
    """The grids of a file's provenance, checked: anybody may have written it."""
    checked: dict[str, int] = {}
    for name, cells in grids.items():
        if not isinstance(name, str) or name not in shapes or name == INPUT:
            raise TeachError(
                f"model {model.name}: its provenance names the tensor {shown(name)}, which it does not have"
            )
        side = min(shapes[name][:2])
        if type(cells) is not int or not 1 <= cells <= side:
            raise TeachError(f"model {model.name}: its provenance states {shown(cells)} cells for a map of {side} rows")
        checked[name] = cells
    finest = max(checked.values(), default=0)
    if not checked or any(finest % cells for cells in checked.values()):
        raise TeachError(f"model {model.name}: its provenance states grids of which the finest is no multiple of all")
    return checked
