"""Feature maps of few bits: shifted to the minimum 0 and quantized to Q bits (Kondo and Yamashita's sub-layer).

The integers are unsigned, 0 .. 2**Q - 1; the zero point is the integer of the real number 0, which stays exact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.toolchain.float_model.graph import FloatModel, Shape
from edgemeta.toolchain.float_model.pixel_table import pixel_table
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.image import image_table, image_type
from edgemeta.toolchain.quantize.ranges import Histogram
from edgemeta.toolchain.quantize.tensor_types import Sharing, sharing_of, tensor_types

_FRACTIONS = np.geomspace(0.1, 1.0, 24)
"""Parts of the observed range that are tried, on each side of 0."""

Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def shifted_type(least: float, greatest: float, shape: Shape, bits: int) -> TensorType:
    """The unsigned type of so many bits for a range around 0; its step is the range's width over 2**bits - 1."""
    if least == greatest:
        return TensorType(shape, bits, signed=False)
    step = (greatest - least) / ((1 << bits) - 1)
    return TensorType(shape, bits, signed=False, zero_point=int(np.floor(-least / step + 0.5)), scale=step)


def least_error_type(histogram: Histogram, shape: Shape, bits: int, function: Function | None = None) -> TensorType:
    """The shifted type of least square error for a tensor, over a grid of both ends of its range.

    function: what a lookup table computes from the tensor, if nothing else reads it; then its result's error counts.
    """
    filled = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[filled], histogram.counts[filled].astype(np.float64)
    wanted = centres if function is None else function(centres)
    best, least_error = shifted_type(histogram.least, histogram.greatest, shape, bits), np.inf
    for least in _ends(histogram.least):
        for greatest in _ends(histogram.greatest):
            if least == greatest:
                continue
            kind = shifted_type(least, greatest, shape, bits)
            integers = np.clip(np.floor(centres / kind.scale + 0.5) + kind.zero_point, 0, kind.hi).astype(np.int64)
            levels = kind.scale * (np.arange(1 << bits, dtype=np.float64) - kind.zero_point)
            found = levels if function is None else function(levels)
            error = float((counts * np.square(found[integers] - wanted)).sum())
            if error < least_error:
                best, least_error = kind, error
    return best


def _ends(end: float) -> list[float]:
    return (end * _FRACTIONS).tolist() if end else [0.0]


@dataclass(frozen=True)
class ImageOfBits:
    """The image tensor's type of so many bits, and the table that gives it for pixels."""

    kind: TensorType
    table: NDArray[np.int8] | NDArray[np.uint8]


def image_of_bits(model: FloatModel, bits: int) -> ImageOfBits:
    """At 8 bits the image as every scheme takes it; with fewer, over the range of all channels, 0 included."""
    if bits == 8:
        return ImageOfBits(image_type(model), image_table(model))
    mean, scale = np.array(model.mean), np.array(model.scale)
    least, greatest = min(0.0, (-mean / scale).min()), max(0.0, ((255 - mean) / scale).max())
    kind = shifted_type(float(least), float(greatest), model.input_shape, bits)
    return ImageOfBits(kind, pixel_table(kind, model.mean, model.scale))


class FeatureMaps:
    """The feature maps that a network's layers with weights read, and the types of all tensors for their bits.

    of_layer: layer -> the map that it reads, by the name of the first tensor that has its type (layers that read the
    same map, or maps that share a type, have the same name here). sizes: layer -> elements of its map.
    """

    def __init__(
        self, model: FloatModel, shapes: Mapping[str, Shape], blocks: Sequence[Block], statistics: Statistics
    ) -> None:
        self._model, self._shapes, self._blocks, self._statistics = model, shapes, blocks, statistics
        self._sharing: Sharing = sharing_of(blocks, statistics, "mse")
        made = {INPUT: model.input_shape} | {block.name: shapes[block.after] for block in blocks}
        readers = [block for block in blocks if block.has_weights]
        self.of_layer = {block.name: self._sharing.representative(block.inputs[0]) for block in readers}
        self.sizes = {block.name: int(np.prod(made[block.inputs[0]])) for block in readers}
        self._plain = tensor_types(image_type(model), shapes, blocks, statistics, "mse")
        self._known: dict[tuple[str, int], TensorType] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Every map once, in the order of the layers that read them."""
        return tuple(dict.fromkeys(self.of_layer.values()))

    def is_read(self, name: str) -> bool:
        """Whether a layer with weights reads this tensor, or one of its type."""
        return self._sharing.representative(name) in self.names

    def types(self, bits: Mapping[str, int]) -> dict[str, TensorType]:
        """Types of every block's output and of "input". bits: of each map; tensors that no such layer reads have 8."""
        types = dict(self._plain)
        for name, kind in self._plain.items():
            root = self._sharing.representative(name)
            if root in bits:
                types[name] = replace(self._type(root, bits[root]), shape=kind.shape)
        return types

    def _type(self, root: str, bits: int) -> TensorType:
        if (root, bits) not in self._known:
            if root == INPUT:
                kind = image_of_bits(self._model, bits).kind
            else:
                block = self._sharing.decides[root]
                histogram = self._statistics.histograms[block.after]
                kind = least_error_type(histogram, (0, 0, 0), bits, self._sharing.functions.get(block.name))
            self._known[root, bits] = kind
        return self._known[root, bits]
