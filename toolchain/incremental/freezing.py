"""Which weights are frozen, and which are released again: the arithmetic of incremental quantization, in NumPy.

A weight is frozen at its power of two and no longer trained. Yamamoto, Kuroki and Numa freeze those with the largest
quantization error first, while the rest is still trained; INQ (Zhou et al., 2017) those of greatest magnitude first.
"""

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Rule = Literal["error", "magnitude", "random"]
RULES: tuple[Rule, ...] = get_args(Rule)
"""What is frozen first: the largest |w - power of two|, the largest |w|, or whatever chance says."""

Mask = NDArray[np.bool_]
"""Of the shape of a layer's weights [O, ...]."""


def freeze(frozen: Mask, share: float, priority: NDArray[np.float64]) -> Mask:
    """The weights of one layer that are frozen after a step: those that are, and of the others the first by priority.

    Both arrays have the shape of the weights. floor(share * count + 1/2) are frozen then, share 0 .. 1, but never fewer
    than before. The greatest priority comes first; of equal ones the first in the tensor.
    """
    wanted = math.floor(share * frozen.size + 0.5)
    missing = max(0, wanted - int(frozen.sum()))
    free = np.flatnonzero(~frozen)
    first = free[np.argsort(-priority.reshape(-1)[free], kind="stable")][:missing]
    result = frozen.copy()
    result.reshape(-1)[first] = True
    return result


def priorities(
    rule: Rule, weights: NDArray[np.float32], projected: NDArray[np.float32], random: np.random.Generator
) -> NDArray[np.float64]:
    """By which weights are frozen, the greatest first: float64 of the weights' shape."""
    match rule:
        case "error":
            return np.abs(weights.astype(np.float64) - projected)
        case "magnitude":
            return np.abs(weights.astype(np.float64))
        case "random":
            return random.random(weights.shape)


def temperature(first: float, epoch: int, epochs: int) -> float:
    """T of an epoch of a step, counted from 0: falls in a line from `first` in the first epoch to 0 in the last."""
    return first * (1.0 - epoch / (epochs - 1)) if epochs > 1 else 0.0


def release_probability(heat: float) -> float:
    """exp(-1 / T), the probability with which a frozen weight is released at temperature T; 0 at T = 0.

    Metropolis's rule for a step that costs one unit of energy (Kirkpatrick, Gelatt and Vecchi, 1983).
    """
    return math.exp(-1.0 / heat) if heat > 0 else 0.0


def release(frozen: Mask, probability: float, random: np.random.Generator) -> Mask:
    """Which frozen weights are released, each with this probability; a number is drawn for every weight."""
    return frozen & (random.random(frozen.shape) < probability)
