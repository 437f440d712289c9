"""The simulator's operators for PyTorch: rounding of a tensor, its range, and the gradient through the rounding.

On a CPU they call the C++ library, elsewhere the definition (`rounding`, `random_words`), with the same bits; there,
PyTorch's compiler fuses it. They are custom operators with shapes, so that `torch.compile` and `torch.export` see
through.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from edgemeta.kernels.simulate.library import Places, keep_at, range_at, round_at
from edgemeta.kernels.simulate.library import Rounding as Rule
from edgemeta.toolchain.simulate.grid import Grid
from edgemeta.toolchain.simulate.random_words import random_words
from edgemeta.toolchain.simulate.rounding import Rounding, round_to_grid

SEED, STEP, TENSOR, FIRST, STRIDE = range(5)
"""Entries of a counter: seed, step and tensor; the number of the first row in the whole batch, and from row to row."""

_SPECIAL = {"infinity": torch.inf, "nan": torch.nan}
_UNLIMITED = float(torch.finfo(torch.float32).max)


def grid_key(grid: Grid) -> str:
    """A grid without its limits, as operators take it."""
    return f"{grid.mantissa} {grid.quantum} {grid.beyond}"


@lru_cache
def _grid_of(key: str) -> Grid:
    mantissa, quantum, beyond = key.split()
    return Grid(int(mantissa), int(quantum), -_UNLIMITED, _UNLIMITED, beyond)  # type: ignore[arg-type]


@custom_op("edgemeta::round", mutates_args=())
def round_tensor(
    x: Tensor,
    scale: Tensor,
    lowest: Tensor,
    highest: Tensor,
    counter: Tensor,
    grid: str,
    rounding: str,
    axis: int,
    block: int = 0,
) -> tuple[Tensor, Tensor]:
    """Divide x by its scale, round it to a grid, limit it, and multiply it by the scale.

    x: float32. scale, lowest, highest: float32 [1], or [channels] along `axis`; lowest <= 0 and highest >= 0 are limits
    of x / scale. With block > 0, that many channels side by side share a scale: [outer, blocks, inner] for x as
    `block_view` shows it; the limits are then [1]. grid: of `grid_key`. counter: int64 [5], for stochastic rounding; a
    row is x[i]. Returns y like x, and which elements were not limited, uint8 [ceil(elements / 8)], a bit each in the
    order of the memory.
    """
    x = _dense(x)
    form = _round_by_library if x.device.type == "cpu" else round_by_definition
    return form(x, scale, lowest, highest, counter, _grid_of(grid), rounding, axis, block)  # type: ignore[arg-type]


@round_tensor.register_fake
def _(x: Tensor, *_others: object) -> tuple[Tensor, Tensor]:
    x = _dense(x)
    return torch.empty_like(x), x.new_empty((x.numel() + 7) // 8, dtype=torch.uint8)


def _save_inside(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ARG001 (PyTorch's)
    y, inside = output
    ctx.mark_non_differentiable(inside)
    ctx.save_for_backward(inside)
    ctx.strides = y.stride()


def _gradient_inside(ctx: Any, gradient: Tensor, _: object) -> tuple[Tensor | None, ...]:
    """Straight through the rounding, and nothing through a limit."""
    (inside,) = ctx.saved_tensors
    if not torch.compiler.is_compiling() and _all_inside(inside, gradient.numel()):
        return gradient, *[None] * 8
    return keep(gradient, inside, ctx.strides), *[None] * 8


def _all_inside(inside: Tensor, count: int) -> bool:
    """Whether the bits of all elements are set, as nearly always; they are a thirty-second of the gradient's bytes."""
    whole, rest = divmod(count, 8)
    return bool((inside[:whole] == 0xFF).all()) and (rest == 0 or int(inside[whole]) == (1 << rest) - 1)


round_tensor.register_autograd(_gradient_inside, setup_context=_save_inside)


@custom_op("edgemeta::keep", mutates_args=())
def keep(x: Tensor, inside: Tensor, strides: Sequence[int]) -> Tensor:
    """Return x where it was not limited, 0 elsewhere; inside: of `round_tensor`, for a tensor that lay in memory so."""
    x = _lying_so(x, strides)
    if x.device.type != "cpu":
        bits = inside.unsqueeze(1) >> torch.arange(8, dtype=torch.uint8, device=x.device) & 1
        flags = bits.flatten()[: x.numel()].as_strided(x.shape, x.stride())
        return torch.where(flags.bool(), x, 0.0)
    y = torch.empty_like(x)
    keep_at(x.data_ptr(), y.data_ptr(), inside.data_ptr(), x.numel(), threads=torch.get_num_threads())
    return y


@keep.register_fake
def _(x: Tensor, _inside: Tensor, strides: Sequence[int]) -> Tensor:
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)


@custom_op("edgemeta::finite_range", mutates_args=())
def finite_range(x: Tensor) -> Tensor:
    """Least and greatest finite element, float32 [2]; zeros if there is none."""
    if x.device.type == "cpu":
        x = _dense(x)
        return torch.tensor(range_at(x.data_ptr(), x.numel(), threads=torch.get_num_threads()))
    finite = x.isfinite()
    ends = torch.where(finite, x, torch.inf).amin(), torch.where(finite, x, -torch.inf).amax()
    return torch.where(finite.any(), torch.stack(ends), 0.0)


@finite_range.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(2)


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
    """`round_tensor` by plain PyTorch, on any device."""
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


def block_view(x: Tensor, axis: int) -> Tensor:
    """Show x as [outer, channels, inner] in the order of its memory, in which the channels are those of `axis`."""
    x = _dense(x)
    if x.ndim == 4 and axis == 1 and not x.is_contiguous():
        return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1], 1)
    return x.reshape(math.prod(x.shape[:axis]), x.shape[axis], -1)


def _without_limits(grid: Grid) -> Grid:
    return Grid(grid.mantissa, grid.quantum, -_UNLIMITED, _UNLIMITED, "infinity")


def _round_by_library(
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
    if block:
        (outer, channels, inner), limits = block_view(x, axis).shape, 1
    else:
        limits = scale.numel()
        inner = x.stride(axis) if limits > 1 else 1
        outer, channels = x.numel() // (inner * limits), limits
    scales = scale.contiguous().numpy()
    lows, highs = (limit.expand(limits).contiguous().numpy() for limit in (lowest, highest))
    rule = Rule(grid.mantissa, grid.quantum, rounding, grid.beyond, lows, highs, scales, block)
    places = None
    if rounding == "stochastic":
        seed, step, tensor, first, stride = counter.tolist()
        places = Places(seed, step, tensor, _row(x), first, stride)
    y, inside = torch.empty_like(x), torch.empty((x.numel() + 7) // 8, dtype=torch.uint8)
    threads = torch.get_num_threads()
    shape = outer, channels, inner
    round_at(x.data_ptr(), y.data_ptr(), shape, rule, inside=inside.data_ptr(), places=places, threads=threads)
    return y, inside


def _words(x: Tensor, counter: Tensor) -> Tensor:
    """The random word of each element; its place is counted in the order of the memory."""
    seed, step, tensor, first, stride = counter.tolist()
    number, row = torch.arange(x.numel(), device=x.device), _row(x)
    places = (first + number // row * stride) * row + number % row
    return random_words(places, seed, step, tensor).as_strided(x.shape, x.stride())


def _row(x: Tensor) -> int:
    return max(1, x.numel() // x.shape[0]) if x.ndim else 1


def _packed(flags: Tensor, like: Tensor) -> Tensor:
    """Flags as a bit each, in the order of the memory of `like`."""
    ordered = torch.empty_like(like, dtype=torch.uint8).copy_(flags).as_strided((like.numel(),), (1,))
    ordered = torch.nn.functional.pad(ordered, (0, -like.numel() % 8)).reshape(-1, 8)
    weights = 1 << torch.arange(8, device=like.device)
    return (ordered.to(torch.int64) * weights).sum(1).to(torch.uint8)


def _dense(x: Tensor) -> Tensor:
    """x, or a copy of it if its elements do not lie side by side; channels that lie last stay last.

    Raises TypeError for another type than float32.
    """
    if x.dtype != torch.float32:
        raise TypeError(f"found a tensor of {x.dtype}, expected torch.float32")
    last = x.ndim == 4 and x.shape[1] > 1 and x.stride(1) == 1
    return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


def _lying_so(x: Tensor, strides: Sequence[int]) -> Tensor:
    if x.dtype != torch.float32:
        raise TypeError(f"found a gradient of {x.dtype}, expected torch.float32")
    if x.stride() == tuple(strides):
        return x
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)
