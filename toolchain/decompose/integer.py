"""The integer form of a decomposition: `BinaryWeights`, whose factors are whole numbers of one step per channel.

With 8 bits, the factors of a channel add up to at most 127, so that every weight that they make fits int8 and each
backend's int8 kernels run it. All sums of a channel's factors are even, or all are odd, so they lie two steps or more
from each other: a channel's greatest weight / 63 is the finest grid that it can have, which a channel with one weight
far from the others feels. The factors are found for the step of least error; where each channel has its own, single
units are then moved from factor to factor while the error falls. With the integer factors fixed, the basis is chosen
anew, exactly: each weight takes the nearest sum. With 9 to 16 bits the factors add up to at most 2**(bits - 1) - 1. The
step is then so fine that the real decomposition itself is stored: its basis, and its factors rounded.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.weights import BinaryWeights
from edgemeta.toolchain.decompose.binary import Decomposition, nearest_basis
from edgemeta.toolchain.decompose.levels import Channel, Real

INT8_BITS, MOST_BITS = 8, 16
REACH = 127
_LESS, _MOST_MOVES = 1 - 1e-9, 200
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

    With 8 bits, the step of least square error is taken for each channel, or of those tried the best for all; with
    more, the least one. least_scale [O]: a step is at least so great.
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
    channels = [Channel(row) for row in rows]
    steps = np.maximum(full[:, None] * _FRACTIONS, least_scale[:, None])  # [O or 1, tried]
    tried = _integers(factors[:, None], steps)
    errors = np.stack([one.errors(each) for one, each in zip(channels, tried * steps[..., None], strict=True)])
    if not per_channel:
        step = steps[:, errors.sum(0).argmin()]
        integers = _integers(factors, step)
    else:
        best = errors.argmin(1)
        starts = zip(channels, tried[np.arange(len(rows)), best], steps[np.arange(len(rows)), best], strict=True)
        found = [_improved(*each, least) for each, least in zip(starts, least_scale, strict=True)]
        integers, step = np.stack([each for each, _ in found]), np.array([each for _, each in found])
    basis = nearest_basis(rows / step[:, None], integers)
    return BinaryWeights(basis.reshape(-1, *weights.shape), integers.astype(np.int16), step)


def _improved(channel: Channel, integers: Real, step: float, least_step: float) -> tuple[Real, float]:
    """Integers [B] and step of a channel from which no unit more, less or elsewhere, and no other step, has less error.

    It begins with these, and with factors 1, 2, 4 .. of the range, and takes the better end.
    """
    places = np.arange(len(integers))
    powers = np.where(places < REACH.bit_length(), 2.0**places, 0.0)  # more would add up to more than the reach
    even = np.floor(REACH / powers.sum()) * powers
    ends = [
        _descended(channel, integers, step, least_step),
        _descended(channel, even, max(step * integers.sum() / even.sum(), least_step), least_step),
    ]
    integers, step, _ = min(ends, key=lambda end: end[2])
    return integers, step


def _descended(channel: Channel, integers: Real, step: float, least_step: float) -> tuple[Real, float, float]:
    """Integers, step and error where the descent from these ends."""
    error = float(channel.errors(integers[None] * step)[0])
    moves = _moves(len(integers))
    for _ in range(_MOST_MOVES):
        step = max(step * float(channel.scales(integers[None] * step)[0]), least_step)
        near = integers + moves
        near = near[(near.min(1) >= 0) & (near.sum(1) <= REACH)]
        errors = channel.errors(near * step)
        if not errors.min() < error * _LESS:
            break
        integers, error = near[errors.argmin()], float(errors.min())
    return integers, step, error


@lru_cache
def _moves(bases: int) -> Real:
    """No unit, one more, one less, and one from a factor to another one, [moves, B]."""
    unit = np.eye(bases)
    exchanged = (unit[:, None] - unit[None]).reshape(-1, bases)
    return np.concatenate([unit, -unit, np.unique(exchanged, axis=0)])


def _least_steps(factors: Real, reach: int) -> Real:
    """Least step of each channel [O] for which its rounded factors add up to at most `reach`.

    Rounding adds at most 1/2 to each of B factors, hence sum / (reach - B / 2) is enough. A channel of zeros gets 1.
    """
    total = factors.sum(1)
    steps: Real = np.where(total > 0, total, 1.0) / (reach - factors.shape[1] / 2)
    return steps


def _integers(factors: Real, step: Real) -> Real:
    """Factors [..., B] in steps [...], rounded half up, as float64."""
    rounded: Real = np.floor(factors / step[..., None] + 0.5)
    return rounded
