"""From output integers to real numbers, and the functions that every task uses; all in float64.

Every function works element by element, so that its results do not depend on how many elements are computed at once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model

Float64 = NDArray[np.float64]

LIMIT = 700.0
"""Numbers are limited to -700 .. 700, so that e**v stays finite."""

_NO_ROWS = np.empty(0, np.int64)


class Output:
    """One output of a model, seen as rows of `width` numbers: one row for each cell and anchor.

    position: among the model's outputs. zero_point, lo, hi: of its integers. steps: float64 [1] if all channels have
    one step, otherwise [anchors, width]. Numbers and sigmoids of 8-bit integers come from tables.
    """

    def __init__(self, model: Model, name: str, width: int) -> None:
        self.position = model.outputs.index(name)
        kind = model.output_types[self.position]
        self.width = width
        self.zero_point, self.lo, self.hi, self.dtype = kind.zero_point, kind.lo, kind.hi, kind.dtype
        steps = model.steps(name)
        self.steps = steps[:1] if (steps == steps[0]).all() else steps.reshape(-1, width)
        self._numbers = self._sigmoids = np.empty(0)
        if kind.bits <= 8:  # entry i is that of the integer whose bits are those of uint8 i
            every = np.arange(256).astype(np.uint8).view(self.dtype)[:, np.newaxis]
            self._numbers = limited(self.values(every, _NO_ROWS))[:, 0]
            self._sigmoids = sigmoid(self._numbers)

    @property
    def sigmoid_table(self) -> Float64:
        """Sigmoids [256] by the bits of an 8-bit integer; empty for others."""
        return self._sigmoids

    @property
    def has_one_step(self) -> bool:
        """Whether its integers are ordered as the numbers that they represent, over all channels."""
        return self.steps.ndim == 1

    def rows(self, integers: NDArray[Any]) -> NDArray[Any]:
        """[H, W, C] of one image as [rows, width], a view of contiguous integers."""
        return integers.reshape(-1, self.width)

    def values(self, integers: NDArray[Any], rows: NDArray[np.int64]) -> Float64:
        """The numbers [n, width] that these rows' integers [n, width] represent: step * (q - zero_point)."""
        steps = self.steps if len(self.steps) == 1 else self.steps[rows % len(self.steps)]
        numbers: Float64 = steps * np.subtract(integers, self.zero_point, dtype=np.float64)
        return numbers

    def numbers(self, integers: NDArray[Any], rows: NDArray[np.int64]) -> Float64:
        """As `values`, limited to +-LIMIT."""
        if len(self._numbers):
            return self._numbers[integers.view(np.uint8)]
        return limited(self.values(integers, rows))

    def sigmoids(self, integers: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Float64:
        """Sigmoids [n] of the numbers that integers [n] at these rows and columns represent."""
        if len(self._sigmoids):
            return self._sigmoids[integers.view(np.uint8)]
        steps = self.steps if self.has_one_step else self.steps[rows % len(self.steps), columns]
        return sigmoid(limited(steps * np.subtract(integers, self.zero_point, dtype=np.float64)))

    def least(self, scores: Float64) -> NDArray[Any]:
        """Integers of its dtype from which on sigmoid(number) can reach scores in (0, 1), at most its greatest.

        scores: [1], or [width] for one score for each channel; the result is [1], [width] or [anchors, width]. No
        integer below reaches a score; as rounding is allowed for, the integer itself may score slightly less.
        """
        lower = scores * (1 - 1e-9)
        least = np.ceil(self.zero_point + np.log(lower / (1 - lower)) / self.steps - 1e-5)
        return np.clip(least, self.lo, self.hi).astype(self.dtype)


class JoinedOutput:
    """The outputs of several levels with one meaning, seen as one: their rows one after the other.

    parts: each output and its number of rows. Gives the same numbers as `Output`, with fewer calls of NumPy.
    """

    def __init__(self, parts: Sequence[tuple[Output, int]]) -> None:
        outputs = [output for output, _ in parts]
        steps = [np.resize(output.steps, (output.steps.size // output.width or 1, output.width)) for output in outputs]
        starts = np.cumsum([0, *(len(each) for each in steps)])
        self._steps = np.concatenate(steps)
        self._zero_points = np.concatenate(
            [np.full(len(each), output.zero_point, np.float64) for each, output in zip(steps, outputs, strict=True)]
        )
        self._kinds = np.concatenate(
            [start + np.arange(rows) % len(each) for start, each, (_, rows) in zip(starts, steps, parts, strict=False)]
        )
        self._tables = np.empty((0, 256))
        tables = [output.sigmoid_table for output in outputs]
        if len({output.dtype for output in outputs}) == 1 and all(len(table) for table in tables):
            repeated = [np.tile(table, (len(each), 1)) for table, each in zip(tables, steps, strict=True)]
            self._tables = np.concatenate(repeated)
        self.has_one_step = all(output.has_one_step for output in outputs)

    def values(self, integers: NDArray[Any], rows: NDArray[np.int64]) -> Float64:
        """As `Output.values`, for rows of all levels."""
        kinds = self._kinds[rows]
        numbers: Float64 = self._steps[kinds] * (integers - self._zero_points[kinds, np.newaxis])
        return numbers

    def sigmoids(self, integers: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Float64:
        """As `Output.sigmoids`, for rows of all levels."""
        kinds = self._kinds[rows]
        if len(self._tables):
            found: Float64 = self._tables[kinds, integers.view(np.uint8)]
            return found
        return sigmoid(limited(self._steps[kinds, columns] * (integers - self._zero_points[kinds])))


def limited(values: Float64, limit: float = LIMIT) -> Float64:
    """Values [...] limited to -limit .. limit."""
    bounded: Float64 = np.minimum(np.maximum(values, -limit), limit)
    return bounded


def sigmoid(values: Float64) -> Float64:
    """1 / (1 + e**-v) of numbers [...] in -LIMIT .. LIMIT."""
    result: Float64 = 1 / (1 + np.exp(-values))
    return result


def softmax(values: Float64) -> Float64:
    """e**v / (sum of e**v) along the last axis of [..., n]."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    result: Float64 = powers / powers.sum(axis=-1, keepdims=True)
    return result
