"""Random words that depend on a counter alone: Philox 4x32 with ten rounds.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. A word depends on the seed, the
step, the tensor and the element's place in the whole batch, and not on who computes it or what was computed before: so
several workers, and a run that was interrupted, round as one undisturbed worker does.
"""

import numpy as np
from numpy.typing import NDArray

_MULTIPLIERS = 0xD251_1F53, 0xCD9E_8D57
_WEYL = 0x9E37_79B9, 0xBB67_AE85
_ROUNDS = 10
_LANES = 16
"""Counters side by side: element i takes word (i / 16) mod 4 of counter (i / 64) 16 + i mod 16, so that a vector of 16
counters gives the words of 64 elements in a row."""


def philox(counters: NDArray[np.uint32], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Four random words uint32 [N, 4] for counters of four words, uint32 [N, 4]."""
    c = [counters[:, i].astype(np.uint64) for i in range(4)]
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product1 = c[0] * np.uint64(_MULTIPLIERS[0]), c[2] * np.uint64(_MULTIPLIERS[1])
        c = [
            (product1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            product1 & np.uint64(0xFFFF_FFFF),
            (product0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            product0 & np.uint64(0xFFFF_FFFF),
        ]
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFF_FFFF, (k1 + _WEYL[1]) & 0xFFFF_FFFF
    return np.stack(c, axis=1).astype(np.uint32)


def random_words(places: NDArray[np.int64], seed: int, step: int, tensor: int) -> NDArray[np.uint32]:
    """The random word of each element, uint32 of the shape of `places`.

    places: of the elements in the tensor of the whole batch, 0 .. 2**62 - 1. seed: 0 .. 2**64 - 1. step, tensor:
    0 .. 2**32 - 1.
    """
    flat = places.reshape(-1)
    numbers = flat // (4 * _LANES) * _LANES + flat % _LANES
    counters = np.empty((flat.size, 4), np.uint32)
    counters[:, 0], counters[:, 1] = numbers & 0xFFFF_FFFF, numbers >> 32
    counters[:, 2], counters[:, 3] = tensor, step
    words = philox(counters, (seed & 0xFFFF_FFFF, seed >> 32))
    return words[np.arange(flat.size), flat // _LANES % 4].reshape(places.shape)
