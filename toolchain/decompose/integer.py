"""The integer form of a decomposition: `BinaryWeights`, whose factors are whole numbers of one step per channel.

With 8 bits, the factors of a channel add up to at most 127, so that every weight that they make fits int8 and each
backend's int8 kernels run it. With the integer factors fixed, the basis is chosen anew, exactly: each weight takes the
nearest sum. With 9 to 16 bits the factors add up to at most 2**(bits - 1) - 1. The step is then so fine that the real
decomposition itself is stored: its basis, and its factors rounded.
"""

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.weights import BinaryWeights
from edgemeta.toolchain.decompose.binary import Decomposition, Real, nearest_basis

INT8_BITS, MOST_BITS = 8, 16
REACH = 127
_FRACTIONS = np.linspace(1.0, 1.5, 26)
"""Steps that are tried, as multiples of the least one with which the factors stay within `REACH`."""


def integer_form(
    weights: NDArray[np.floating],
    decomposition: Decomposition,
    per_channel: bool,
    least_scale: Real,
    bits: int = INT8_BITS,
) -> BinaryWeights:
    """Weights [O, ...] as integers of at most `bits` bits, 8 .. 16, with a step for each channel, or one for all.

    With 8 bits, the step of least square error of those tried is taken for each channel (or for all); with more, the
    least one. least_scale [O]: a step is at least so great.
    """
    assert INT8_BITS <= bits <= MOST_BITS
    rows = weights.reshape(len(weights), -1).astype(np.float64)
    factors = decomposition.factors
    full = _least_steps(factors, (1 << (bits - 1)) - 1)
    if not per_channel:
        full, least_scale = full.max(keepdims=True), least_scale.max(keepdims=True)
    if bits > INT8_BITS:
        step = np.maximum(full, least_scale)
        basis = decomposition.basis.reshape(-1, *weights.shape)
        return BinaryWeights(basis, _integers(factors, step).astype(np.int16), step)
    best, error = full, np.full(len(full), np.inf)
    for fraction in _FRACTIONS:
        step = np.maximum(full * fraction, least_scale)
        integers = _integers(factors, step)
        decoded = np.einsum("bon,ob->on", nearest_basis(rows / step[:, None], integers), integers, optimize=True)
        off = np.square(rows - decoded * step[:, None]).sum(1)
        off = off if per_channel else off.sum(keepdims=True)
        best, error = np.where(off < error, step, best), np.minimum(off, error)
    integers = _integers(factors, best)
    basis = nearest_basis(rows / best[:, None], integers)
    return BinaryWeights(basis.reshape(-1, *weights.shape), integers.astype(np.int16), best)


def _least_steps(factors: Real, reach: int) -> Real:
    """Least step of each channel [O] for which its rounded factors add up to at most `reach`.

    Rounding adds at most 1/2 to each of B factors, hence sum / (reach - B / 2) is enough. A channel of zeros gets 1.
    """
    total = factors.sum(1)
    steps: Real = np.where(total > 0, total, 1.0) / (reach - factors.shape[1] / 2)
    return steps


def _integers(factors: Real, step: Real) -> Real:
    """Factors [O, B] in steps [O] or [1], rounded half up, as float64."""
    rounded: Real = np.floor(factors / step[:, None] + 0.5)
    return rounded
