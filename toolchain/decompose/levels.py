"""Errors of factors, found on a channel's sorted weights: what they cost does not grow with the number of weights.

The 2**B sums +-c_1 .. +-c_B of factors are levels, and each weight takes the nearest one: between two levels the sorted
weights part at the middle. So counts n_s and sums w_s of the weights of each level are differences of prefix sums, and
the square error is sum of w**2 + sum over levels L_s of L_s (n_s L_s - 2 w_s).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Signs = NDArray[np.int8]

MOST_BASES = 8
_RIDGE = 1e-9
"""Share of the number of weights that keeps the least squares of vectors that are the same solvable."""


@lru_cache(maxsize=MOST_BASES)
def signs_of(bases: int) -> Signs:
    """Every row of so many signs, int8 [2**bases, bases]."""
    codes = np.arange(1 << bases)[:, None] >> np.arange(bases)[None, :]
    return np.where(codes & 1, 1, -1).astype(np.int8)


class Channel:
    """The weights of one channel [n]."""

    def __init__(self, weights: Real) -> None:
        self._sorted = np.sort(weights)
        self._sums = np.concatenate([[0.0], np.cumsum(self._sorted)])
        self._energy = float(np.square(weights).sum())

    def errors(self, factors: Real) -> Real:
        """Square error [K] of each of the factors [K, B], with the nearest sum for each weight."""
        return self._parted(factors).errors

    def scales(self, factors: Real) -> Real:
        """The number [K] by which each of the factors [K, B] is to be multiplied for the least square error."""
        found = self._parted(factors)
        square = (found.counts * np.square(found.levels)).sum(1)
        fitted: Real = np.divide(
            (found.sums * found.levels).sum(1), square, out=np.ones(len(factors)), where=square > 0
        )
        return fitted

    def alternated(self, factors: Real, least_fall: float, rounds: int) -> tuple[Real, Real]:
        """Factors [K, B] and their errors [K] after alternating nearest sums and least squares.

        Each goes on as long as a round takes at least the share `least_fall` off its error, at most so many rounds.
        """
        factors, best, errors = factors.copy(), factors.copy(), np.full(len(factors), np.inf)
        active = np.arange(len(factors))
        for _ in range(rounds):
            found, before = self._parted(factors[active]), errors[active]
            better, falls = found.errors < before, found.errors < before * (1 - least_fall)
            best[active[better]], errors[active[better]] = factors[active[better]], found.errors[better]
            active = active[falls]
            if len(active) == 0:
                break
            factors[active] = self._fitted(found, falls)
        return best, errors

    def _parted(self, factors: Real) -> "_Parted":
        levels = factors @ signs_of(factors.shape[1]).T.astype(np.float64)
        order = np.argsort(levels, axis=1)
        levels = np.take_along_axis(levels, order, 1)
        ends = np.zeros((len(levels), levels.shape[1] + 1), np.intp)
        ends[:, 1:-1] = np.searchsorted(self._sorted, (levels[:, 1:] + levels[:, :-1]) / 2)
        ends[:, -1] = len(self._sorted)
        counts, sums = np.diff(ends, axis=1).astype(np.float64), np.diff(self._sums[ends], axis=1)
        return _Parted(order, levels, counts, sums, self._energy + (levels * (counts * levels - 2 * sums)).sum(1))

    def _fitted(self, found: "_Parted", which: NDArray[np.bool_]) -> Real:
        """Factors of least squares for the weights that each row of signs has."""
        order, counts, sums = found.order[which], found.counts[which], found.sums[which]
        signs = signs_of(order.shape[1].bit_length() - 1)[order].astype(np.float64)
        matrix: Real = (signs * counts[:, :, None]).transpose(0, 2, 1) @ signs
        matrix += _RIDGE * len(self._sorted) * np.eye(signs.shape[2])
        fitted = np.linalg.solve(matrix, signs.transpose(0, 2, 1) @ sums[:, :, None])[:, :, 0]
        return fitted.astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class _Parted:
    """order: of the rows of signs by their sums [K, 2**B]; levels: the sums; counts, sums: of their weights."""

    order: NDArray[np.intp]
    levels: Real
    counts: Real
    sums: Real
    errors: Real
