"""A resize between neighbouring elements."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import floor
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.fixedpoint import rounding_shift
from edgemeta.model.layers.bilinear import BILINEAR_BITS, BilinearAxis, bilinear_axis, bilinear_places
from edgemeta.model.layers.operator import Homogeneous
from edgemeta.model.layers.types import Coordinates, Float32, Shape, Tensor, TensorType
from edgemeta.model.require import require


@dataclass(frozen=True)
class ResizeBilinear(Homogeneous):
    """y = round(sum of wy * wx * x over two rows and two columns, 22), weights in units of 2**-11.

    Output row i is at p rows of the input, clamped to 0 .. H - 1, with p exactly ((2 i + 1) H - H') / (2 H') for
    "half_pixel", i (H - 1) / (H' - 1) for "align_corners" (0 if H' is 1), i H / H' for "asymmetric". The lower row is
    floor(p), the upper one the next, at most H - 1, and weighs floor((p - floor(p)) * 2**11 + 1/2); the lower one has
    the rest of 2**11. Columns alike. The output has the input's quantization; in a float network it is `types.real`,
    and the weights are exact.
    """

    kind = "resize_bilinear"

    name: str
    input: str
    output: TensorType
    _: KW_ONLY
    coordinates: Coordinates

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`: the height and width are those of the output."""
        require(
            self.coordinates in get_args(Coordinates),
            f"coordinates is {self.coordinates!r}, expected one of {list(get_args(Coordinates))}",
        )
        return *self.output.shape[:2], inputs[0][2]

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        sums = values[0].astype(np.int64)
        for axis in (1, 2):
            neighbours = bilinear_axis(sums.shape[axis], self.output.shape[axis - 1], self.coordinates)
            sums = _between(sums, neighbours, axis)
        return rounding_shift(sums, 2 * BILINEAR_BITS).astype(values[0].dtype)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`: one axis after the other, in float32."""
        x = values[0]
        for axis in (1, 2):
            shape = [1] * x.ndim
            shape[axis] = -1
            places = bilinear_places(x.shape[axis], self.output.shape[axis - 1], self.coordinates)
            lower = np.array([floor(place) for place in places])
            upper = np.minimum(lower + 1, x.shape[axis] - 1)
            share = np.array([float(place - floor(place)) for place in places], np.float32).reshape(shape)
            x = x.take(lower, axis) * (1 - share) + x.take(upper, axis) * share
        return x


def _between(x: NDArray[np.int64], axis: BilinearAxis, number: int) -> NDArray[np.int64]:
    """Weighted sum of the two elements that each output position lies between, along axis `number`."""
    shape = [1] * x.ndim
    shape[number] = -1
    upper = axis.weight.reshape(shape)
    one = 1 << BILINEAR_BITS
    first, second = (x.take(places.astype(np.intp, copy=False), number) for places in (axis.lower, axis.upper))
    return first * (one - upper) + second * upper
