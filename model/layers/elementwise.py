"""Layers that compute element by element."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.fixedpoint import rounding_shift, saturate
from edgemeta.model.layers.bounds import prove_clamp, prove_requantize, prove_table
from edgemeta.model.layers.operator import Joining, Operator, Summing, centred, looked_up, requantized
from edgemeta.model.layers.table_recipe import TableRecipe
from edgemeta.model.layers.types import REAL, Float32, Pair, Requantize, Shape, Tensor, TensorType
from edgemeta.model.require import require, require_between


@dataclass(frozen=True)
class Add(Joining, Summing):
    """y = clamp(zy + round(ma * (a - za) + mb * (b - zb), shift), lo, hi), all of it within int32.

    `multipliers` (ma, mb) are 0 .. 2**21 and `shift` 0 .. 29; a float network has their defaults.
    """

    kind = "add"

    name: str
    inputs: tuple[str, str]
    output: TensorType = REAL
    _: KW_ONLY
    multipliers: Pair = (1, 1)
    shift: int = 0
    lo: int = -128
    hi: int = 127

    @property
    def passed(self) -> tuple[str, ...]:
        """As `Operator.passed`."""
        return self.sources

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        first, second = inputs
        require(first == second, f"inputs have shapes {list(first)} and {list(second)}, expected equal ones")
        return first

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """Within int32 by the ranges: 2 * 255 * 2**21 + 2**28 + 255 < 2**31."""
        for multiplier in self.multipliers:
            require_between(multiplier, 0, 1 << 21, "multiplier")
        require_between(self.shift, 0, 29, "shift")
        require(self.output.bits <= 8, f"output has {self.output.bits} bits, expected 1 .. 8")
        prove_clamp(self.lo, self.hi, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        a, b = (centred(value, source) for value, source in zip(values, sources, strict=True))
        rounded = rounding_shift(self.multipliers[0] * a + self.multipliers[1] * b, self.shift)
        return saturate(rounded + self.output.zero_point, self.lo, self.hi, self.output.dtype)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        return values[0] + values[1]


@dataclass(frozen=True)
class Clamp(Operator):
    """y = clamp(x, lo, hi), here and everywhere lo <= hi; the output has the input's type.

    ReLU and ReLU6 where no other layer includes them.
    """

    kind = "clamp"

    name: str
    input: str
    output: TensorType
    lo: int
    hi: int

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        require(self.output == sources[0], "output has another type than the input")
        prove_clamp(self.lo, self.hi, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        return saturate(values[0], self.lo, self.hi, self.output.dtype)


@dataclass(frozen=True, eq=False)
class Rescale(Operator):
    """Elementwise requantization: acc = x - zx. Changes bits, zero point or scale, or applies a table."""

    kind = "rescale"

    name: str
    input: str
    output: TensorType
    requantize: Requantize

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        prove_requantize(self.requantize, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        return requantized(centred(values[0], sources[0]), self.requantize, self.output)


@dataclass(frozen=True, eq=False)
class Lookup(Operator):
    """y = table[c][x - least], `least` the least integer of the input's dtype: -128 if signed, 0 if not.

    table [C, 256] or [1, 256] of the output's dtype, or the recipe that makes it. Any function of one element, such as
    sigmoid and swish.
    """

    kind = "lookup"

    name: str
    input: str
    output: TensorType
    table: NDArray[np.int8] | NDArray[np.uint8] | TableRecipe

    @property
    def tables_made(self) -> int:
        """As `Operator.tables_made`."""
        return self.table.start.size if isinstance(self.table, TableRecipe) else 0

    @property
    def entries(self) -> NDArray[np.int8] | NDArray[np.uint8]:
        """[C, 256] or [1, 256]; those of a recipe are made anew each time, so that a model does not hold them."""
        return self.table.make(self.output) if isinstance(self.table, TableRecipe) else self.table

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        if isinstance(self.table, TableRecipe):
            self.table.prove(self.output)
        else:
            prove_table(self.table, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        return looked_up(self.entries, values[0].astype(np.int64) - np.iinfo(values[0].dtype).min)


@dataclass(frozen=True, eq=False)
class Product(Joining):
    """Elementwise product: acc = (a - za) * (b - zb), requantized.

    b has the shape of a, or (1, 1, C): one factor per channel, as in squeeze-and-excite.
    """

    kind = "product"

    name: str
    inputs: tuple[str, str]
    output: TensorType = REAL
    _: KW_ONLY
    requantize: Requantize | None = None

    @property
    def passed(self) -> tuple[str, ...]:
        """As `Operator.passed`."""
        return self.inputs[:1] if self.inputs[0] != self.inputs[1] else ()

    def shape(self, *inputs: Shape) -> Shape:
        """As `Operator.shape`."""
        first, second = inputs
        expected = "an equal one or one factor per channel"
        is_fit = second in (first, (1, 1, first[2]))
        require(is_fit, f"inputs have shapes {list(first)} and {list(second)}, expected {expected}")
        return first

    def prove(self, sources: Sequence[TensorType], *, is_output: bool) -> None:
        """As `Operator.prove`."""
        prove_requantize(self.requantize, self.output)

    def integers(self, values: Sequence[Tensor], sources: Sequence[TensorType]) -> Tensor:
        """As `Operator.integers`."""
        a, b = (centred(value, source) for value, source in zip(values, sources, strict=True))
        return requantized(a * b, self.requantize, self.output)

    def reals(self, values: Sequence[Float32]) -> Float32:
        """As `Operator.reals`."""
        return values[0] * values[1]
