"""Weights of a layer with a chosen number of bits or binary bases: three schemes behind one interface.

Each maps real weights [O, ...] to an encoding of `edgemeta.model.weights`, and counts the bits that its size has in the
objective of a search: 64 for each real factor, as Kondo and Yamashita count them.
"""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Float32
from edgemeta.model.weights import FixedWeights, PowerOfTwoWeights, Weights
from edgemeta.toolchain.decompose.binary import Decomposition, decompose
from edgemeta.toolchain.decompose.integer import INT8_BITS, integer_form
from edgemeta.toolchain.quantize.exponents import least_exponents, nearest
from edgemeta.toolchain.quantize.weights import best_scales, rounded

WeightSchemeName = Literal["binary", "fixed", "power-of-two"]
Scales = NDArray[np.float64]

_FACTOR_BITS = 64


class WeightScheme(Protocol):
    """How weights become integers. widths: the numbers of bits, or of bases, that it has."""

    name: WeightSchemeName
    widths: tuple[int, ...]

    def integers(self, weight: Float32, width: int, per_channel: bool, least_scale: Scales) -> Weights:
        """Weights [O, ...] as integers, one scale per output channel or one for all, none below least_scale [O]."""
        ...

    def size(self, shape: tuple[int, ...], width: int) -> int:
        """Bits that weights of a shape [O, ...] take, their factors included."""
        ...

    def packed(self, shape: tuple[int, ...], width: int) -> int:
        """The same without a channel's one scale, which requantization multiplies by in any case."""
        ...


class Binary:
    """w ~ sum of `width` binary vectors with a factor for each output channel.

    integer_bits: that the weights have as integers, 8 .. 16 (`decompose.integer`).
    """

    name: WeightSchemeName = "binary"
    widths: tuple[int, ...] = tuple(range(2, 9))

    def __init__(self, integer_bits: int = INT8_BITS) -> None:
        self._integer_bits = integer_bits
        self._known: dict[tuple[int, int], tuple[Float32, Decomposition]] = {}

    def with_integer_bits(self, integer_bits: int) -> "Binary":
        """The same decompositions with integers of another size."""
        other = Binary(integer_bits)
        other._known = self._known
        return other

    def decomposition(self, weight: Float32, width: int) -> Decomposition:
        """The decomposition of a layer's weights [O, ...], computed once for as long as this object lives."""
        key = id(weight), width
        if key not in self._known:  # the array is kept beside it, so that its id stays its own
            self._known[key] = weight, decompose(weight.reshape(len(weight), -1), width)
        return self._known[key][1]

    def integers(self, weight: Float32, width: int, per_channel: bool, least_scale: Scales) -> Weights:
        """As WeightScheme."""
        found = self.decomposition(weight, width)
        return integer_form(weight, found, per_channel, least_scale, self._integer_bits)

    def size(self, shape: tuple[int, ...], width: int) -> int:
        """One bit for each entry of M, 64 for each of c."""
        return width * int(np.prod(shape)) + _FACTOR_BITS * width * shape[0]

    def packed(self, shape: tuple[int, ...], width: int) -> int:
        """All of `size`: the factors are part of the weights."""
        return self.size(shape, width)


class Fixed:
    """Symmetric integers of `width` bits."""

    name: WeightSchemeName = "fixed"
    widths: tuple[int, ...] = tuple(range(2, 9))

    def integers(self, weight: Float32, width: int, per_channel: bool, least_scale: Scales) -> FixedWeights:
        """As WeightScheme; the scale of least square error."""
        least = least_scale if per_channel else least_scale.max(keepdims=True)
        return rounded(weight, np.maximum(best_scales(weight, per_channel, width), least), None, width)

    def size(self, shape: tuple[int, ...], width: int) -> int:
        """`width` bits for each weight, 64 for each scale."""
        return width * int(np.prod(shape)) + _FACTOR_BITS * shape[0]

    def packed(self, shape: tuple[int, ...], width: int) -> int:
        """`width` bits for each weight."""
        return width * int(np.prod(shape))


class PowerOfTwo:
    """0 or +-2**k with 2**(b - 2) exponents k in a row for b = `width` bits, those of least square error (`exponents`).

    As incremental quantization has them (Yamamoto et al.), without its retraining.
    """

    name: WeightSchemeName = "power-of-two"
    widths: tuple[int, ...] = (3, 4, 5)

    def integers(self, weight: Float32, width: int, per_channel: bool, least_scale: Scales) -> PowerOfTwoWeights:
        """As WeightScheme; each weight takes the nearest value, at a tie the one of greater magnitude."""
        rows = weight.reshape(len(weight) if per_channel else 1, -1).astype(np.float64)
        least = least_scale if per_channel else least_scale.max(keepdims=True)
        bottom = least_exponents(rows, width, "mse")
        bottom = np.maximum(bottom, np.ceil(np.log2(np.maximum(least, 2.0**-1000))).astype(np.int64))
        found = nearest(rows, width, bottom)
        codes = found | np.where((rows < 0) & (found > 0), 1 << (width - 1), 0)
        return PowerOfTwoWeights(codes.astype(np.uint8).reshape(weight.shape), width, np.ldexp(1.0, bottom))

    def size(self, shape: tuple[int, ...], width: int) -> int:
        """`width` bits for each weight, 64 for each scale."""
        return width * int(np.prod(shape)) + _FACTOR_BITS * shape[0]

    def packed(self, shape: tuple[int, ...], width: int) -> int:
        """`width` bits for each weight."""
        return width * int(np.prod(shape))


def weight_scheme(name: WeightSchemeName) -> WeightScheme:
    """The scheme of a name, with nothing computed yet."""
    schemes: dict[WeightSchemeName, type[Binary | Fixed | PowerOfTwo]] = {
        "binary": Binary,
        "fixed": Fixed,
        "power-of-two": PowerOfTwo,
    }
    return schemes[name]()
