"""Weights of nine bits, which int8 does not hold, as int8 with a larger step.

uint8 weights with a zero point of their own are -255 to 255 steps from it; one or two channels of a layer have one
or two weights beyond int8. Those channels get a step of their own, the others keep their integers.
"""

import numpy as np
from numpy.typing import NDArray

LEAST, MOST = -128, 127
_CANDIDATES = 400
"""Steps that are tried for a channel, from the least that fits to twice as much."""


def within_int8(weights: NDArray[np.float64], *, is_one: bool) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Integers [O, ...] for weights [O, ...], and what a step of theirs is worth in steps of the weights: [O] or [1].

    is_one: all channels must have the same step. The steps of channels that fit are 1, their integers the weights.
    Rounded half to even. Of several steps the one with the least expected square of the error of the sum is taken: with
    an error e of each weight, `sum of e**2 + (sum of e)**2` for inputs whose mean is as great as their deviation, as
    behind a ReLU.
    """
    rows = weights.reshape(1 if is_one else len(weights), -1)
    least = np.maximum(1.0, np.maximum(rows.max(axis=1) / MOST, rows.min(axis=1) / LEAST))
    if (least == 1).all():
        return weights.astype(np.int8), np.ones(1)
    steps = np.array([_best_step(row, start) for row, start in zip(rows, least.tolist(), strict=True)])
    return _rounded(rows, steps[:, np.newaxis]).astype(np.int8).reshape(weights.shape), steps


def _best_step(row: NDArray[np.float64], least: float) -> float:
    if least == 1:
        return 1.0

    def error(step: float) -> float:
        errors = _rounded(row, step) * step - row
        return float((errors**2).sum() + errors.sum() ** 2)

    steps: list[float] = np.linspace(least, 2 * least, _CANDIDATES).tolist()
    return min(steps, key=error)


def _rounded(rows: NDArray[np.float64], step: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.clip(np.rint(rows / step), LEAST, MOST)
