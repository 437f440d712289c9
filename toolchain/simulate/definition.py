"""What the operators compute, by plain PyTorch on any device: the bits that the C++ library must equal."""

import math

import torch
from torch import Tensor

from edgemeta.toolchain.number_formats.grid import Grid
from edgemeta.toolchain.number_formats.rounding import Rounding, round_to_grid

_SPECIAL = {"infinity": torch.inf, "nan": torch.nan}
_UNLIMITED = float(torch.finfo(torch.float32).max)

_MULTIPLIERS = 0xD251_1F53, 0xCD9E_8D57
_WEYL = 0x9E37_79B9, 0xBB67_AE85
_ROUNDS = 10
_MASK = 0xFFFF_FFFF
_LANES = 16
"""Counters side by side: element i takes word (i / 16) mod 4 of counter (i / 64) 16 + i mod 16, so that a vector of 16
counters gives the words of 64 elements in a row."""


def round_by_definition(
    x: Tensor,
    scale: Tensor,
    lowest: Tensor,
    highest: Tensor,
    counter: Tensor,
    grid: Grid,
    rounding: Rounding,
    axis: int,
    block: int = 0,
) -> tuple[Tensor, Tensor]:
    """As `operators.round_tensor`, for a dense x."""
    shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    if block:
        outer, channels, inner = block_view(x, axis).shape
        each = scale.reshape(outer, -1, inner).repeat_interleave(block, 1)[:, :channels].contiguous()
        scale = each.as_strided(x.shape, x.stride())
    scale, lowest, highest = (
        each.reshape(shape if each.numel() > 1 else [1] * x.ndim) if each.ndim == 1 else each
        for each in (scale, lowest, highest)
    )
    words = _words(x, counter) if rounding == "stochastic" else None
    free = round_to_grid(x / scale, _without_limits(grid), rounding, words)
    over = (free < lowest) | (free > highest)
    limits = torch.where(free < 0, lowest, highest).expand_as(free)
    beyond = limits if grid.beyond == "saturate" else torch.full_like(free, _SPECIAL[grid.beyond])
    if rounding == "towards_zero":
        beyond = torch.where(x.isfinite(), limits, beyond)
    y = torch.empty_like(x).copy_(torch.where(over, torch.copysign(beyond, free), free) * scale)
    return y, _packed(~over, x)


def keep_by_definition(x: Tensor, inside: Tensor) -> Tensor:
    """Return x where the bits of `inside`, uint8 [ceil(elements / 8)], are set, 0 elsewhere."""
    bits = inside.unsqueeze(1) >> torch.arange(8, dtype=torch.uint8, device=x.device) & 1
    flags = bits.flatten()[: x.numel()].as_strided(x.shape, x.stride())
    return torch.where(flags.bool(), x, 0.0)


def range_by_definition(x: Tensor) -> Tensor:
    """Least and greatest finite element, float32 [2]; zeros if there is none."""
    finite = x.isfinite()
    ends = torch.where(finite, x, torch.inf).amin(), torch.where(finite, x, -torch.inf).amax()
    return torch.where(finite.any(), torch.stack(ends), 0.0)


def block_view(x: Tensor, axis: int) -> Tensor:
    """Show x as [outer, channels, inner] in the order of its memory, in which the channels are those of `axis`."""
    x = dense(x)
    if x.ndim == 4 and axis == 1 and not x.is_contiguous():
        return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1], 1)
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], -1)


def dense(x: Tensor) -> Tensor:
    """Tensor x [...], or a copy of it if its elements do not lie side by side; channels that lie last stay last.

    Raises TypeError for another type than float32.
    """
    if x.dtype != torch.float32:
        raise TypeError(f"found a tensor of {x.dtype}, expected torch.float32")
    last = x.ndim == 4 and x.shape[1] > 1 and x.stride(1) == 1
    return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def _words(x: Tensor, counter: Tensor) -> Tensor:
    """The random word of each element; its place is counted in the order of the memory."""
    seed, step, tensor, first, stride = counter.to(x.device).unbind()
    number, row = torch.arange(x.numel(), device=x.device), row_elements(x)
    places = (first + number // row * stride) * row + number % row
    return random_words(places, seed, step, tensor).as_strided(x.shape, x.stride())


def row_elements(x: Tensor) -> int:
    """Elements of x[i]; 1 without any."""
    return max(1, x.numel() // max(1, x.shape[0])) if x.ndim else 1


def _packed(flags: Tensor, like: Tensor) -> Tensor:
    """Flags as a bit each, in the order of the memory of `like`."""
    ordered = torch.empty_like(like, dtype=torch.uint8).copy_(flags).as_strided((like.numel(),), (1,))
    ordered = torch.nn.functional.pad(ordered, (0, -like.numel() % 8)).reshape(-1, 8)
    weights = 1 << torch.arange(8, device=like.device)
    return (ordered.to(torch.int64) * weights).sum(1).to(torch.uint8)


def _without_limits(grid: Grid) -> Grid:
    return Grid(grid.mantissa, grid.quantum, -_UNLIMITED, _UNLIMITED, "infinity")


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
    """The random word of each element, int64 0 .. 2**32 - 1 of the shape of `places`: Philox 4x32 with ten rounds.

    Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. A word depends on the seed, the
    step, the tensor and the element's place in the whole batch, and not on who computes it or what was computed before:
    so several workers, and a run that was interrupted, round as one undisturbed worker does.

    places: int64 0 .. 2**62 - 1, of the elements in the tensor of the whole batch. seed: 0 .. 2**64 - 1, as a tensor
    the int64 of the same bits. step, tensor: 0 .. 2**32 - 1.
    """
    numbers = places // (4 * _LANES) * _LANES + places % _LANES
    none = torch.zeros_like(places)
    counters = numbers & _MASK, numbers >> 32, none + tensor, none + step
    words = philox(counters, (seed & _MASK, seed >> 32 & _MASK))
    return torch.stack(words).gather(0, (places // _LANES % 4).unsqueeze(0)).squeeze(0)
