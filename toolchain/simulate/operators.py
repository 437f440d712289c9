"""The simulator's operators for PyTorch: rounding of a tensor, its range, and the gradient through the rounding.

On a CPU they call the C++ library, on a CUDA device the definition as one kernel of PyTorch's compiler (`fused`),
elsewhere the definition itself, with the same bits. They are custom operators with shapes, so that `torch.compile` and
`torch.export` see through. Outside of compilers the functions are called past PyTorch's dispatcher, whose way to a
Python operator costs as much as rounding a small tensor.
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op
from torch.nn import Parameter

from edgemeta.kernels.simulate.library import Places, keep_at, range_at, round_at
from edgemeta.kernels.simulate.library import Rounding as Rule
from edgemeta.toolchain.number_formats.grid import Grid
from edgemeta.toolchain.number_formats.rounding import Rounding
from edgemeta.toolchain.simulate.definition import (
    block_view,
    dense,
    keep_by_definition,
    range_by_definition,
    round_by_definition,
    row_elements,
)

SEED, STEP, TENSOR, FIRST, STRIDE = range(5)
"""Entries of a counter: seed, step and tensor; the number of the first row in the whole batch, and from row to row."""

_UNLIMITED = float(torch.finfo(torch.float32).max)

_OPTIONS: dict[str, Any] = {"eager_numerics.division_rounding": True}
"""Triton's own division of float32 is not rounded correctly."""


def grid_key(grid: Grid) -> str:
    """A grid without its limits, as operators take it."""
    return f"{grid.mantissa} {grid.quantum} {grid.beyond}"


@lru_cache
def _grid_of(key: str) -> Grid:
    mantissa, quantum, beyond = key.split()
    return Grid(int(mantissa), int(quantum), -_UNLIMITED, _UNLIMITED, beyond)  # type: ignore[arg-type]


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
    rounded: tuple[Tensor, Tensor]
    operator = _Rounding.apply if _is_eager(x) else round_operator
    rounded = operator(x, scale, lowest, highest, counter, grid, rounding, axis, block)  # type: ignore[no-untyped-call]
    return rounded


def _is_eager(x: Tensor) -> bool:
    """Whether this is a tensor with elements, outside of compilers."""
    return type(x) in (Tensor, Parameter) and not torch.compiler.is_compiling()


def _round(
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
    x, kind, rule = dense(x), _grid_of(grid), cast("Rounding", rounding)
    match x.device.type:
        case "cpu":
            return _round_by_library(x, scale, lowest, highest, counter, kind, rule, axis, block)
        case "cuda":
            return fused_rounding(kind, rule, axis, block)(x, scale, lowest, highest, counter.to(x.device))
        case _:
            return round_by_definition(x, scale, lowest, highest, counter, kind, rule, axis, block)


round_operator = custom_op("edgemeta::round", _round, mutates_args=())
"""`round_tensor` for compilers."""


@round_operator.register_fake
def _(x: Tensor, *_others: object) -> tuple[Tensor, Tensor]:
    x = dense(x)
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
    words, rest = count // 64, inside[count // 64 * 8 :].tolist()
    whole = (inside[: 8 * words].view(torch.int64) == -1).all()
    return bool(whole) and int.from_bytes(rest, "little") == (1 << count % 64) - 1


round_operator.register_autograd(_gradient_inside, setup_context=_save_inside)


class _Rounding(Function):
    """`round_operator` past the dispatcher."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        output = _round(*inputs)
        _save_inside(ctx, inputs, output)
        return output

    backward = staticmethod(_gradient_inside)


@custom_op("edgemeta::keep", mutates_args=())
def keep(x: Tensor, inside: Tensor, strides: Sequence[int]) -> Tensor:
    """Return x [...] where it was not limited, 0 elsewhere; inside: of `round_tensor` for a tensor of these strides."""
    x = _lying_so(x, strides)
    if x.device.type != "cpu":
        return _for_device(keep_by_definition, x)(x, inside)
    y = torch.empty_like(x)
    keep_at(x.data_ptr(), y.data_ptr(), inside.data_ptr(), x.numel(), threads=torch.get_num_threads())
    return y


@keep.register_fake
def _(x: Tensor, _inside: Tensor, strides: Sequence[int]) -> Tensor:
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device)


def finite_range(x: Tensor) -> Tensor:
    """Least and greatest finite element, float32 [2]; zeros if there is none."""
    return _range(x.detach()) if _is_eager(x) else range_operator(x)


def _range(x: Tensor) -> Tensor:
    if x.device.type == "cpu":
        x = dense(x)
        return torch.tensor(range_at(x.data_ptr(), x.numel(), threads=torch.get_num_threads()))
    return _for_device(range_by_definition, x)(x)


range_operator = custom_op("edgemeta::finite_range", _range, mutates_args=())
"""`finite_range` for compilers."""


@range_operator.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(2)


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
        places = Places(seed, step, tensor, row_elements(x), first, stride)
    y, inside = torch.empty_like(x), torch.empty((x.numel() + 7) // 8, dtype=torch.uint8)
    threads = torch.get_num_threads()
    shape = outer, channels, inner
    round_at(x.data_ptr(), y.data_ptr(), shape, rule, inside=inside.data_ptr(), places=places, threads=threads)
    return y, inside


def _for_device(definition: Callable[..., Tensor], x: Tensor) -> Callable[..., Tensor]:
    return fused(definition) if x.device.type == "cuda" else definition


def _lying_so(x: Tensor, strides: Sequence[int]) -> Tensor:
    if x.dtype != torch.float32:
        raise TypeError(f"found a gradient of {x.dtype}, expected torch.float32")
    if x.stride() == tuple(strides):
        return x
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


@cache
def fused_rounding(grid: Grid, rounding: Rounding, axis: int, block: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """As `round_by_definition`, a function of (x, scale, lowest, highest, counter), all of one device."""
    return fused(partial(round_by_definition, grid=grid, rounding=rounding, axis=axis, block=block))


@cache
def fused(definition: Callable[..., Any]) -> Callable[..., Any]:
    """Compile it at its first call, once for all shapes of a number of axes."""
    return torch.compile(  # type: ignore[call-overload,no-any-return]  # its overloads lack isolate_recompiles
        definition, dynamic=True, fullgraph=True, isolate_recompiles=True, options=_OPTIONS
    )
