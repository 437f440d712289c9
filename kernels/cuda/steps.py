"""Fusion: which layers one launch does together.

A `ConvStep` is conv + requantize + residual addition + clamp, and beside it the shortcut: another conv of the same
input, stride and output size whose own result a later addition takes (figure 7 of Terakura et al.).
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from edgemeta.model.layers import Add, AveragePool, Clamp, Conv, Dense, Layer, Rescale


@dataclass(frozen=True, eq=False)
class ConvStep:
    """acc -> requantize -> optional residual `add` with the tensor `residual` -> optional elementwise `after`.

    shortcut: a 1x1 conv of the same input and stride, computed beside it; its tensor is written, too.
    """

    conv: Conv
    add: Add | None = None
    residual: str | None = None
    after: tuple[Clamp | Rescale, ...] = ()
    shortcut: Conv | None = None

    @property
    def output(self) -> Layer:
        """The layer whose tensor the step writes."""
        return self.after[-1] if self.after else (self.add or self.conv)


@dataclass(frozen=True, eq=False)
class PoolDenseStep:
    """Global average pool -> requantize -> dense; either may be missing."""

    pool: AveragePool | None
    dense: Dense | None


@dataclass(frozen=True, eq=False)
class ElementwiseStep:
    """Add, clamp or rescale that no conv took in."""

    layer: Add | Clamp | Rescale
    inputs: tuple[str, ...] = field(default=())


Step: TypeAlias = ConvStep | PoolDenseStep | ElementwiseStep
