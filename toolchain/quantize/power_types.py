"""Powers of two: types of tensors with such scales, of 8 bits with zero point 0, and the codes of such weights."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType
from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.float_model.graph import Add, Conv, Dense, GlobalAverage, Pool, Shape
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.ranges import Histogram

_NARROWER = 6
"""Exponents that are tried below the least one that covers all values."""


def power_types(
    shapes: Mapping[str, Shape], blocks: Sequence[Block], histograms: Mapping[str, Histogram]
) -> dict[str, TensorType]:
    """Block -> type of its output, for the blocks that compute one; the others keep that of their input.

    Averages are signed: their table has no bias, so half of its entries are for sums below 0 in any case.
    """
    return {
        block.name: power_type(histograms[block.after], shapes[block.after], signed=_is_average(block))
        for block in blocks
        if _is_average(block) or isinstance(block.core, Conv | Dense | Add)
    }


def power_type(histogram: Histogram, shape: Shape, *, signed: bool = False) -> TensorType:
    """8 bits with zero point 0 and the scale 2**e whose expected square error is least.

    uint8 for a tensor without numbers below 0, unless `signed`; else int8. The error is scale**2 / 12 for a value
    inside and the square distance for one beyond the least or greatest. At equal errors the greater scale. A tensor
    that is 0 everywhere has the scale 1.
    """
    plain = TensorType(shape, signed=signed or histogram.least < 0)
    reach = max(histogram.least / plain.lo if plain.lo else 0.0, histogram.greatest / plain.hi)
    if reach == 0:
        return plain
    centres, counts = histogram.centres, histogram.counts.astype(np.float64)
    covering = math.ceil(math.log2(reach))
    best, least_error = covering, math.inf
    for exponent in range(covering, covering - _NARROWER - 1, -1):
        step = 2.0**exponent
        beyond = np.maximum(centres - plain.hi * step, 0) + np.maximum(plain.lo * step - centres, 0)
        error = float((counts * np.where(beyond > 0, np.square(beyond), step**2 / 12)).sum())
        if error < least_error:
            best, least_error = exponent, error
    return replace(plain, scale=2.0**best)


def _is_average(block: Block) -> bool:
    core = block.core
    return isinstance(core, GlobalAverage) or (isinstance(core, Pool) and core.kind == "average")


def encoded(steps: NDArray[np.int64], bits: int, scale: float | NDArray[np.float64]) -> PowerOfTwoWeights:
    """Integers 0 or +-2**j [O, ...] as codes of `bits` bits: the sign, then j + 1 or 0. scale: of the integer 1."""
    magnitude = np.abs(steps)
    exponents = np.where(magnitude > 0, np.log2(np.maximum(magnitude, 1)) + 1, 0).astype(np.uint8)
    codes = exponents | ((steps < 0).astype(np.uint8) << bits - 1)
    return PowerOfTwoWeights(np.ascontiguousarray(codes, np.uint8), bits, np.atleast_1d(np.float64(scale)))
