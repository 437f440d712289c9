"""Factors from which alternating ends near the best decomposition: basin hopping for each channel.

Six starts are alternated: greedy (each vector is the sign of what is left, its factor the mean magnitude of that), even
steps (factors 1, 2, 4 .. of the range, and of the range without the outermost weights), and halves of 1.8 standard
deviations. The best end is then disturbed: its factors are multiplied by random numbers around 1, a dozen times, each
is alternated, and the best of all ends takes its place. What is drawn is the same for every channel and every call.
"""

from functools import lru_cache

import numpy as np

from edgemeta.toolchain.decompose.levels import Channel, Real

_HOPS_FOR_EACH_BASE = 2
_TRIES = 12
_SPREADS = (0.35, 0.2, 0.6)
"""Standard deviations of the logarithm of what factors are multiplied by, in turn."""
_LEAST_FALL, _MOST_ROUNDS = 1e-2, 50
"""Where alternating a try ends; the end of the search is alternated until the error falls no more."""
_WITHOUT_OUTLIERS = (0.9, 0.97, 0.99)
"""Quantiles of the magnitudes that end a range."""


def good_starts(rows: Real, bases: int) -> Real:
    """Factors [O, B] for rows of weights [O, n]."""
    starts = _starts(rows, bases)
    return np.stack([_searched(Channel(row), each) for row, each in zip(rows, starts, strict=True)])


def _searched(channel: Channel, starts: Real) -> Real:
    best, least = np.empty(0), np.inf
    disturbed = starts
    for hop in _hops(starts.shape[1]):
        ends, errors = channel.alternated(disturbed, _LEAST_FALL, _MOST_ROUNDS)
        if errors.min() < least:
            best, least = ends[errors.argmin()], errors.min()
        disturbed = best * hop
    return best


@lru_cache
def _hops(bases: int) -> tuple[Real, ...]:
    """What the best factors are multiplied by after each hop, [tries, B]; the last one counts for nothing."""
    rng = np.random.default_rng(bases)
    spreads = [_SPREADS[number % len(_SPREADS)] for number in range(1 + _HOPS_FOR_EACH_BASE * bases)]
    return tuple(np.exp(rng.normal(0, spread, (_TRIES, bases))) for spread in spreads)


def _starts(rows: Real, bases: int) -> Real:
    """[O, starts, B]."""
    magnitudes, powers = np.abs(rows), 2.0 ** np.arange(bases)
    reaches = [magnitudes.max(1), *np.quantile(magnitudes, _WITHOUT_OUTLIERS, axis=1)]
    even = [reach[:, None] * powers / powers.sum() for reach in reaches]
    halves = rows.std(1)[:, None] * 1.8 / (2 * powers)
    return np.stack([_greedy(rows, bases), *even, halves], axis=1)


def _greedy(rows: Real, bases: int) -> Real:
    left, factors = rows.copy(), np.empty((len(rows), bases))
    for number in range(bases):
        factors[:, number] = np.abs(left).mean(1)
        left -= np.where(left < 0, -1.0, 1.0) * factors[:, number, None]
    return factors
