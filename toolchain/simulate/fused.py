"""The definitions as one pass over memory each, by PyTorch's compiler: Triton kernels on a GPU, with the same bits."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from edgemeta.toolchain.number_formats.grid import Grid
from edgemeta.toolchain.number_formats.rounding import Rounding
from edgemeta.toolchain.simulate.definition import round_by_definition

_OPTIONS: dict[str, Any] = {"eager_numerics.division_rounding": True}
"""Triton's own division of float32 is not rounded correctly."""


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
