"""What the operators compute, by plain PyTorch on any device: the bits that the C++ library must equal."""

import math

import torch
from torch import Tensor

from edgemeta.toolchain.number_formats.grid import Grid
from edgemeta.toolchain.number_formats.rounding import Rounding, round_to_grid
from edgemeta.toolchain.simulate.random_words import random_words

_SPECIAL = {"infinity": torch.inf, "nan": torch.nan}
_UNLIMITED = float(torch.finfo(torch.float32).max)


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
