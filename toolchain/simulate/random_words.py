"""Random words that depend on a counter alone: Philox 4x32 with ten rounds.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. A word depends on the seed, the
step, the tensor and the element's place in the whole batch, and not on who computes it or what was computed before: so
several workers, and a run that was interrupted, round as one undisturbed worker does.
"""

import torch
from torch import Tensor

_MULTIPLIERS = 0xD251_1F53, 0xCD9E_8D57
_WEYL = 0x9E37_79B9, 0xBB67_AE85
_ROUNDS = 10
_MASK = 0xFFFF_FFFF
_LANES = 16
"""Counters side by side: element i takes word (i / 16) mod 4 of counter (i / 64) 16 + i mod 16, so that a vector of 16
counters gives the words of 64 elements in a row."""


def philox(
    counters: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int | Tensor, int | Tensor]
) -> tuple[Tensor, ...]:
    """Four random words for each counter of four words; all int64 0 .. 2**32 - 1 of one shape."""
    c0, c1, c2, c3 = counters
    for number in range(_ROUNDS):
        k0, k1 = ((word + number * weyl) & _MASK for word, weyl in zip(key, _WEYL, strict=True))
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]  # modulo 2**64: all bits are needed
        c0, c1 = (product1 >> 32 & _MASK) ^ c1 ^ k0, product1 & _MASK
        c2, c3 = (product0 >> 32 & _MASK) ^ c3 ^ k1, product0 & _MASK
    return c0, c1, c2, c3


def random_words(places: Tensor, seed: int | Tensor, step: int | Tensor, tensor: int | Tensor) -> Tensor:
    """The random word of each element, int64 0 .. 2**32 - 1 of the shape of `places`.

    places: int64 0 .. 2**62 - 1, of the elements in the tensor of the whole batch. seed: 0 .. 2**64 - 1, as a tensor
    the int64 of the same bits. step, tensor: 0 .. 2**32 - 1.
    """
    numbers = places // (4 * _LANES) * _LANES + places % _LANES
    none = torch.zeros_like(places)
    counters = numbers & _MASK, numbers >> 32, none + tensor, none + step
    words = philox(counters, (seed & _MASK, seed >> 32 & _MASK))
    return torch.stack(words).gather(0, (places // _LANES % 4).unsqueeze(0)).squeeze(0)
