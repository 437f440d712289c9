"""A lookup's tables as the recipe that makes them, bit for bit the same on every machine."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from edgemeta.model.layers.bounds import prove_finite
from edgemeta.model.layers.exact_functions import EXACT, evaluate_exactly
from edgemeta.model.layers.functions import FunctionName
from edgemeta.model.layers.types import Float32, TensorType
from edgemeta.model.require import require, require_array, require_between, shown

Table = NDArray[np.int8] | NDArray[np.uint8]

_LEAST, _GREATEST = 1e-30, 1e30
"""Of steps and scales; the latter also the greatest magnitude of all numbers of a recipe."""
_ROWS = 128
"""Tables that are made at a time."""


@dataclass(frozen=True, eq=False)
class TableRecipe:
    """Tables [C, 256] or [1, 256] of y = f(x), from what an input's step and an output's step are worth, by channel.

        entry[c][i] = clamp(zy + floor(f(start[c] + i * step[c]) / scale[c] + 1/2), lo, hi),  i = x - least

    in float64, f as in `exact_functions`; zy, lo and hi are the output type's. start, step and scale are float32, all
    [C] or all [1]: start the real number that the least input integer stands for, which need not be a multiple of step;
    step that of one step of the input; scale that of one step of the output. alpha and beta: `functions.evaluate`.
    step and scale are 1e-30 .. 1e30, start -1e30 .. 1e30. checksum: SHA-256, in hex, of the entries' bytes, channel by
    channel.
    """

    function: FunctionName
    start: Float32
    step: Float32
    scale: Float32
    checksum: str
    alpha: float = 0.0
    beta: float = 0.0

    @classmethod
    def of(
        cls,
        function: FunctionName,
        start: NDArray[np.floating],
        step: NDArray[np.floating],
        scale: NDArray[np.floating],
        output: TensorType,
        alpha: float = 0.0,
        beta: float = 0.0,
    ) -> Self:
        """The recipe for a Lookup with this output type: `Lookup(name, input, output, TableRecipe.of(...))`.

        start, step, scale: [C] or [1] each, of any float type; they become float32, nearest, and the fields of the
        result say which. Where all channels have equal tables it is a recipe for one. Raises ModelError for numbers
        that are not finite, out of 1e-30 .. 1e30 (step, scale) or +-1e30 (the others), and an unknown function.
        """
        with np.errstate(over="ignore", under="ignore"):
            arrays = [np.asarray(each).astype(np.float32) for each in (start, step, scale)]
        start, step, scale = (each.copy() for each in np.broadcast_arrays(*arrays))
        recipe = cls(function, start, step, scale, "", alpha, beta)
        recipe.prove_numbers(len(start))
        table = recipe.make(output)
        if (table == table[:1]).all():
            recipe, table = replace(recipe, start=start[:1], step=step[:1], scale=scale[:1]), table[:1]
        return replace(recipe, checksum=_checksum(table))

    def make(self, output: TensorType) -> Table:
        """The entries [C, 256] or [1, 256], of the output's dtype. Not kept: who needs them again makes them again."""
        parts: list[Any] = [self._part(output, first) for first in range(0, len(self.start), _ROWS)]
        table: Table = np.concatenate(parts)
        return table

    def _part(self, output: TensorType, first: int) -> Table:
        """The tables of at most _ROWS channels."""
        rows = slice(first, first + _ROWS)
        start, step, scale = (
            each[rows].astype(np.float64)[:, np.newaxis] for each in (self.start, self.step, self.scale)
        )
        reals = start + np.arange(256, dtype=np.float64) * step
        steps = np.floor(evaluate_exactly(self.function, reals, self.alpha, self.beta) / scale + 0.5)
        entries = np.minimum(np.maximum(steps + output.zero_point, output.lo), output.hi)
        table: Table = entries.astype(output.dtype)
        return table

    def prove_numbers(self, channels: int) -> None:
        """Raise ModelError unless tables of so many channels can be made."""
        require(self.function in EXACT, f"function is {shown(self.function)}, expected one of {list(EXACT)}")
        require_array(self.start, np.float32, ((1,), (channels,)), "start")
        for name, least in (("start", -_GREATEST), ("step", _LEAST), ("scale", _LEAST)):
            numbers: Float32 = getattr(self, name)
            require_array(numbers, np.float32, (self.start.shape,), name)
            prove_finite(numbers, name)
            for value in (float(numbers.min()), float(numbers.max())):
                require_between(value, least, _GREATEST, name)
        for name in ("alpha", "beta"):
            require_between(getattr(self, name), -_GREATEST, _GREATEST, name)

    def prove(self, output: TensorType) -> None:
        """Raise ModelError unless the tables can be made and have the checksum."""
        require(output.bits <= 8, f"output has {output.bits} bits, expected 1 .. 8 from a table")
        self.prove_numbers(output.shape[2])
        made = _checksum(self.make(output))
        require(made == self.checksum, f"its tables have the checksum {shown(self.checksum, 80)}, but {made} when made")


def _checksum(table: Table) -> str:
    return hashlib.sha256(table.tobytes()).hexdigest()
