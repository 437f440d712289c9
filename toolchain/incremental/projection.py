"""The nearest power of two of a weight, with the format and the rounding of the simulator."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.number_formats.formats import PowerOfTwo
from edgemeta.toolchain.number_formats.rounding import round_to_grid
from edgemeta.toolchain.quantize.exponents import ExponentChoice, least_exponents
from edgemeta.toolchain.quantize.types import encoded


class Projection:
    """0 or +-2**k for k = n2 .. n1 = n2 - 1 + 2**(b - 2), with b bits, for one layer: `exponents.least_exponents`.

    The exponents are those of the weights that it is made from, and stay when these are trained on. A weight becomes
    the nearest value; halfway between two powers the greater one, halfway between 0 and 2**n2 it becomes 0; beyond
    2**n1 it becomes 2**n1. `greatest` is 2**n1, `least` 2**n2.
    """

    def __init__(self, weights: Tensor, bits: int, exponents: ExponentChoice) -> None:
        self._grid = PowerOfTwo(bits=bits).grid
        row = weights.detach().double().reshape(1, -1).numpy()
        self.bits = bits
        self.least = 2.0 ** int(least_exponents(row, bits, exponents)[0])
        self.greatest = self.least / 2.0**self._grid.quantum

    def __call__(self, weights: Tensor) -> Tensor:
        """The value of each weight, float32 of the same shape; exact, as scales are powers of two."""
        scaled = weights.detach().float() / self.greatest
        return round_to_grid(scaled, self._grid, "nearest_even") * self.greatest

    def stored(self, values: NDArray[np.float32]) -> PowerOfTwoWeights:
        """Values [O, ...] of this format as the model file has them."""
        return encoded(np.rint(values.astype(np.float64) / self.least).astype(np.int64), self.bits, self.least)
