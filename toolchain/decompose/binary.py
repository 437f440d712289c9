"""Weights as a sum of few binary vectors: w[o] ~ sum over b of factors[o, b] * basis[b, o], least square error.

Kondo and Yamashita: "w ~ M c" with M of -1 and +1 and real c, for each output channel. Finding the best M is hard in
general; two exact steps alternate until the error no longer falls:

- for given factors the best basis is found weight by weight: each takes the nearest of the 2**B sums +-c_1 .. +-c_B;
- for a given basis the best factors are those of linear least squares.

Where this ends depends on where it starts, and most ends are far from the best one. So a search goes before it
(`starts`). Channels of few weights are solved exactly, by trying every basis. The result depends on nothing but the
weights.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.decompose.levels import MOST_BASES, Real, Signs, signs_of
from edgemeta.toolchain.decompose.starts import good_starts

_MOST_TRIED = 1 << 12
"""Bases that are tried one by one: a channel of n weights has 2**(B (n - 1)) of them that differ in more than sign."""
_MOST_ROUNDS = 200
_LESS = 1 - 1e-12
"""An error counts as less if it is below this share of the other one: rounding cannot keep a loop alive."""


@dataclass(frozen=True, eq=False)
class Decomposition:
    """basis int8 [B, O, n] of -1 and +1; factors float64 [O, B], at least 0, the greatest first; errors float64 [O].

    errors: the sum of the square differences of each channel.
    """

    basis: Signs
    factors: Real
    errors: Real

    def decode(self) -> Real:
        """The weights that it stands for, float64 [O, n]."""
        decoded: Real = np.einsum("bon,ob->on", self.basis.astype(np.float64), self.factors)
        return decoded


def decompose(weights: NDArray[np.floating], bases: int) -> Decomposition:
    """Decompose each row of weights [O, n] into so many bases, 1 .. 8."""
    assert weights.ndim == 2
    assert 1 <= bases <= MOST_BASES
    rows = weights.astype(np.float64)
    if bases * (rows.shape[1] - 1) <= _MOST_TRIED.bit_length() - 1:
        return _ordered(_exhaustive(rows, bases), rows)
    return _ordered(_alternate(rows, good_starts(rows, bases)), rows)


def nearest_basis(rows: Real, factors: Real) -> Signs:
    """For factors [O, B] the basis int8 [B, O, n] with the sums nearest to rows [O, n]; at a tie the lesser sum."""
    signs = signs_of(factors.shape[1])
    basis = np.empty((factors.shape[1], *rows.shape), np.int8)
    sums = factors @ signs.T.astype(np.float64)
    order = np.argsort(sums, axis=1, kind="stable")
    for channel, (row, some, places) in enumerate(zip(rows, sums, order, strict=True)):
        levels = some[places]
        nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, row, side="left")
        basis[:, channel] = signs[places[nearest]].T
    return basis


def _alternate(rows: Real, factors: Real) -> Decomposition:
    """Alternate both steps; channels stop one by one, when their error falls no more."""
    basis = nearest_basis(rows, factors)
    errors = _errors(rows, basis, factors)
    active = np.arange(len(rows))
    for _ in range(_MOST_ROUNDS):
        some = rows[active]
        fitted = _least_squares(some, basis[:, active])
        tried = nearest_basis(some, fitted)
        found = _errors(some, tried, fitted)
        falls = found < errors[active] * _LESS
        active = active[falls]
        if len(active) == 0:
            break
        basis[:, active], factors[active], errors[active] = tried[:, falls], fitted[falls], found[falls]
    return Decomposition(basis, factors, errors)


def _least_squares(rows: Real, basis: Signs) -> Real:
    """The factors [O, B] of least square error, and of least length where several bases are the same vector."""
    matrix = basis.transpose(1, 2, 0).astype(np.float64)  # [O, n, B]
    inverse = np.linalg.pinv(matrix.transpose(0, 2, 1) @ matrix, rcond=1e-10, hermitian=True)
    factors: Real = np.einsum("obd,ond,on->ob", inverse, matrix, rows, optimize=True)
    return factors


def _errors(rows: Real, basis: Signs, factors: Real) -> Real:
    decoded = np.einsum("bon,ob->on", basis, factors, optimize=True)
    errors: Real = np.square(rows - decoded).sum(1)
    return errors


def _exhaustive(rows: Real, bases: int) -> Decomposition:
    matrices, inverses = _all_bases(rows.shape[1], bases)
    basis = np.empty((bases, *rows.shape), np.int8)
    factors = np.empty((len(rows), bases))
    for channel, row in enumerate(rows):
        fitted = inverses @ row
        errors = np.square(row - np.einsum("inb,ib->in", matrices, fitted)).sum(1)
        best = int(errors.argmin())
        basis[:, channel], factors[channel] = matrices[best].T, fitted[best]
    return Decomposition(basis, factors, np.empty(0))


@lru_cache(maxsize=16)
def _all_bases(weights: int, bases: int) -> tuple[Real, Real]:
    """Every basis [I, n, B] whose first weight has only +1, and its pseudo-inverse [I, B, n]."""
    count = 1 << (bases * (weights - 1))
    bits = (np.arange(count)[:, None] >> np.arange(bases * (weights - 1))[None, :]) & 1
    rest = np.where(bits, 1.0, -1.0).reshape(count, weights - 1, bases)
    matrices = np.concatenate([np.ones((count, 1, bases)), rest], axis=1)
    return matrices, np.linalg.pinv(matrices, rcond=1e-10)


def _ordered(found: Decomposition, rows: Real) -> Decomposition:
    """The same sums with factors of at least 0, the greatest first."""
    basis = found.basis * np.where(found.factors < 0, -1, 1).astype(np.int8).T[:, :, None]
    factors = np.abs(found.factors)
    order = np.argsort(-factors, axis=1, kind="stable")
    factors = np.take_along_axis(factors, order, axis=1)
    basis = np.take_along_axis(basis, order.T[:, :, None], axis=0)
    return Decomposition(basis, factors, _errors(rows, basis, factors))
