"""Steps: the groups of layers that one launch computes together.

A `ConvStep` is conv + requantize + residual addition + layers of one element, optionally with the shortcut: another
conv of the same input, stride and output size whose result a later addition reads (figure 7 of Terakura et al.). Every
step lists the names of the tensors that it reads and writes.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from edgemeta.model.errors import EdgemetaError
from edgemeta.model.layers import Add, AveragePool, Conv, Dense, Layer


class UnsupportedError(EdgemetaError):
    """A model that the kernels do not support; the text names the layer and the reason."""


@dataclass(frozen=True, eq=False)
class ConvStep:
    """acc -> requantize -> optional residual `add` with the tensor `residual` -> the layers `after`, if any.

    shortcut: a 1x1 conv of the same input and stride without padding, computed as well; its tensor is also written.
    """

    conv: Conv
    add: Add | None = None
    residual: str | None = None
    after: tuple[Any, ...] = ()
    shortcut: Conv | None = None

    @property
    def output(self) -> Layer:
        """The layer whose tensor the step writes."""
        return self.after[-1] if self.after else (self.add or self.conv)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of the step; the first one names it."""
        return tuple(each for each in (self.conv, self.add, *self.after, self.shortcut) if each is not None)

    @property
    def reads(self) -> tuple[str, ...]:
        """Tensors that it reads."""
        return (self.conv.input,) if self.residual is None else (self.conv.input, self.residual)

    @property
    def writes(self) -> tuple[str, ...]:
        """Tensors that it writes."""
        return (self.output.name,) if self.shortcut is None else (self.output.name, self.shortcut.name)


@dataclass(frozen=True, eq=False)
class PoolDenseStep:
    """Global average pool -> requantize -> dense; one of the two may be missing."""

    pool: AveragePool | None
    dense: Dense | None

    @property
    def layers(self) -> tuple[AveragePool | Dense, ...]:
        """All layers of the step; the first one names it."""
        return tuple(each for each in (self.pool, self.dense) if each is not None)

    @property
    def output(self) -> Layer:
        """The layer whose tensor the step writes."""
        return self.layers[-1]

    @property
    def reads(self) -> tuple[str, ...]:
        """Tensors that it reads."""
        return (self.layers[0].input,)

    @property
    def writes(self) -> tuple[str, ...]:
        """Tensors that it writes."""
        return (self.output.name,)


@dataclass(frozen=True, eq=False)
class LayerStep:
    """A single layer, and the layers `after` it."""

    layer: Layer
    after: tuple[Any, ...] = ()

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of the step; the first one names it."""
        return (self.layer, *self.after)

    @property
    def output(self) -> Layer:
        """The layer whose tensor the step writes."""
        return self.layers[-1]

    @property
    def reads(self) -> tuple[str, ...]:
        """Tensors that it reads."""
        return self.layer.sources

    @property
    def writes(self) -> tuple[str, ...]:
        """Tensors that it writes."""
        return (self.output.name,)


Step: TypeAlias = ConvStep | PoolDenseStep | LayerStep
