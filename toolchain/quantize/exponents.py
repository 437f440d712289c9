"""Which powers of two the weights of a layer may become: 2**(b - 2) exponents in a row, for codes of b bits."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

ExponentChoice = Literal["max", "mse"]
EXPONENT_CHOICES: tuple[ExponentChoice, ...] = get_args(ExponentChoice)
"""How the exponents are chosen: from the largest magnitude, or as those of least square error."""

_LOWER = 4
"""Exponents that are tried below the one of the largest magnitude."""


def magnitudes(bits: int) -> NDArray[np.float64]:
    """What weights of b bits can be in units of the least power, [n]: 0, 1, 2, ... 2**(2**(b - 2) - 1), float64."""
    return np.array([0.0, *(2.0 ** np.arange(2 ** (bits - 2)))])


def nearest(rows: NDArray[np.float64], bits: int, least: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index into `magnitudes` of the value nearest to each |weight| [R, N] / 2**least [R]; the greater one at a tie."""
    values = magnitudes(bits)
    return np.searchsorted((values[1:] + values[:-1]) / 2, np.abs(rows) / np.ldexp(1.0, least)[:, None], "right")


def least_exponents(rows: NDArray[np.float64], bits: int, choice: ExponentChoice) -> NDArray[np.int64]:
    """n2 of each row of weights [R, N]: they become 0 or +-2**k, k = n2 .. n1, with n1 = n2 - 1 + 2**(b - 2).

    max: n1 = floor(log2(4 max|w| / 3)) (INQ; Zhou et al., 2017). mse: of that one and the next lower ones the n1 whose
    sum of square distances to the nearest value is least, at equal sums the greatest. A few large weights then do not
    take the fine values from all others, which is most of the error where there are few exponents. A row of zeros
    counts as one with the greatest weight 1.
    """
    largest = np.abs(rows).max(1)
    greatest: NDArray[np.int64] = np.floor(np.log2(4 * np.where(largest > 0, largest, 1.0) / 3)).astype(np.int64)
    first: NDArray[np.int64] = greatest + (1 - 2 ** (bits - 2))
    if choice == "max":
        return first
    tried = np.stack([first - lower for lower in range(_LOWER + 1)])
    best = np.stack([_square_error(rows, bits, each) for each in tried]).argmin(0)
    chosen: NDArray[np.int64] = tried[best, np.arange(len(rows))]
    return chosen


def _square_error(rows: NDArray[np.float64], bits: int, least: NDArray[np.int64]) -> NDArray[np.float64]:
    values = magnitudes(bits)[nearest(rows, bits, least)] * np.ldexp(1.0, least)[:, None]
    error: NDArray[np.float64] = np.square(np.abs(rows) - values).sum(1)
    return error
