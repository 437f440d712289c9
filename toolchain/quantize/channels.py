"""The scales of tensors that have one for each channel, where that needs no other operation.

Two kinds of tensors are so: what convolutions and dense layers read, also through layers that pass channels
(`tied.py`), and the number before a function, whose table may be another one for each channel, and whose zero points
are in the bias of the layer before. One scale for all channels of a tensor is what 8 bits lose most by.

The model file states one scale for a tensor, `TensorType.scale`. The scales of weights carry the rest: they are those
of the network in which channel c of the tensor is multiplied by `TensorType.scale / step[c]`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from edgemeta.model.layers import Float32, Function, Shape, TensorType
from edgemeta.model.layers.exact_functions import EXACT
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.ranges import Channels, Curve, Statistics, applied
from edgemeta.toolchain.quantize.tied import Numbers, Tied, tied_tensors

_LEVELS = 255
_ENDS = 0.86 ** np.arange(20)[:, np.newaxis]
"""Parts of the greatest and least value at which a range may end: 1 to 0.06."""
_LEAST_STEP = 2.0**-40
"""Of the greatest step of a tensor: a channel that holds less is as good as dead, and any step does."""
_ZERO_POINTS = range(129)
_SUMMED = 0.8
"""Power of the shares where layers sum over channels: their weights keep steps for small channels, which have room."""


@dataclass(frozen=True, eq=False)
class Grid:
    """What the integers of a tensor of 8 bits are worth: start[c] + step[c] * (integer - least integer), both [C].

    scale: that of its type, at least the greatest step.
    """

    start: Channels
    step: Channels
    scale: float

    @classmethod
    def of(cls, kind: TensorType) -> Self:
        """That of a tensor with one scale, [1] each."""
        return cls(np.array([kind.scale * (kind.lo - kind.zero_point)]), np.array([kind.scale]), kind.scale)

    @property
    def shares(self) -> Float32:
        """Each channel's step through the scale [C]."""
        found: Float32 = (self.step / self.scale).astype(np.float32)
        return found

    def reals(self, integers: NDArray[np.generic], kind: TensorType) -> Float32:
        """The real numbers of a tensor [..., C]."""
        steps = integers.astype(np.float32) - np.float32(kind.lo)
        return self.start.astype(np.float32) + self.step.astype(np.float32) * steps


@dataclass(frozen=True, eq=False)
class Gridded:
    """A tensor with a scale for each channel: its type and its grid."""

    kind: TensorType
    grid: Grid

    @classmethod
    def of(cls, shape: Shape, zero_point: int, start: Channels, step: Channels, scale: float) -> Self:
        """A tensor of uint8."""
        return cls(TensorType(shape, signed=False, zero_point=zero_point, scale=scale), Grid(start, step, scale))


@dataclass(frozen=True, eq=False)
class Separable:
    """The blocks whose output may have a scale for each channel.

    functions: outputs of layers with weights -> the function that alone reads them. tied: what layers with weights
    read. after: names of float tensors by block.
    """

    functions: Mapping[str, Block]
    tied: tuple[Tied, ...]
    after: Mapping[str, str]

    @classmethod
    def of(cls, blocks: Sequence[Block], shapes: Mapping[str, Shape], outputs: Collection[str]) -> Self:
        """Of a network with these output tensors."""
        readers: dict[str, list[Block]] = {}
        for block in blocks:
            for name in block.inputs:
                readers.setdefault(name, []).append(block)
        functions = {
            block.name: readers[block.name][0]
            for block in blocks
            if block.has_weights
            and block.relu is None
            and block.after not in outputs
            and _is_exact(readers[block.name])
        }
        tied = tied_tensors(blocks, shapes, outputs, {each.name for each in functions.values()})
        return cls(functions, tied, {block.name: block.after for block in blocks})

    @property
    def names(self) -> set[str]:
        """Of these blocks."""
        return {*self.functions, *(name for each in self.tied for tensors in each.kinds for name in tensors)}

    def read_apart(self, shapes: Mapping[str, Shape], statistics: Statistics) -> dict[str, Gridded]:
        """Type and grid of what layers with weights read, by block.

        A channel's share is the greatest of what its step is of the greatest one, in each of the tied tensors, or a
        power of it.
        """
        ends = {name: statistics.ends[tensor] for name, tensor in self.after.items()}
        found: dict[str, Gridded] = {}
        for each in self.tied:
            covering = [covering_steps(*_ends(tensors, ends, each.count)) for tensors in each.kinds]
            shares = np.max([steps / steps.max() for _, steps in covering], axis=0)
            shares **= _SUMMED if each.summed else 1.0
            for tensors, (zero, steps) in zip(each.kinds, covering, strict=True):
                scale = float(steps.max())
                for name, numbers in tensors.items():
                    step = scale * shares[numbers]
                    found[name] = Gridded.of(shapes[self.after[name]], zero, -zero * step, step, scale)
        return found

    def gridded(
        self, shapes: Mapping[str, Shape], statistics: Statistics, types: Mapping[str, TensorType]
    ) -> dict[str, Gridded]:
        """Type and grid of each, by block. types: of the other blocks."""
        found = self.read_apart(shapes, statistics)
        for name, reader in self.functions.items():
            tensor, function = self.after[name], reader.core
            assert isinstance(function, Function)
            curve = saturating(applied(function), found.get(reader.name) or types[reader.name])
            samples, ends = statistics.samples[tensor], statistics.ends[tensor]
            found[name] = function_type(samples, ends, shapes[tensor], curve)
        return found


def _is_exact(readers: Sequence[Block]) -> bool:
    """Whether one function alone reads a tensor, whose tables are made from recipes."""
    return len(readers) == 1 and isinstance(readers[0].core, Function) and readers[0].core.function in EXACT


def _ends(tensors: Mapping[str, Numbers], ends: Mapping[str, tuple[Channels, Channels]], count: int) -> Channels:
    """Least and greatest value, at most and at least 0, of the channels of each number, [2, count]."""
    found = np.zeros((2, count))
    for name, numbers in tensors.items():
        np.minimum.at(found[0], numbers, ends[name][0])
        np.maximum.at(found[1], numbers, ends[name][1])
    return found


def covering_steps(low: Channels, high: Channels) -> tuple[int, Channels]:
    """Zero point z and steps [C] of channels with values low .. high around 0, for what layers with weights read.

    All of the range counts: a scale for each channel leaves little to gain by clipping. The zero point is that with the
    least mean of (s[c] / best[c])**2, where s[c] is the step that covers the channel's range from z on and best[c] the
    step of the range alone.
    """
    floor = _LEAST_STEP * max(float((high - low).max()), _LEAST_STEP)
    best = np.maximum((high - low) / _LEVELS, floor)
    zero = min(_ZERO_POINTS, key=lambda z: float(np.square(_steps(z, low, high, best) / best).mean()))
    return zero, _steps(zero, low, high, best)


def _steps(zero: int, low: Channels, high: Channels, best: Channels) -> Channels:
    """The step of each channel with this zero point; a range below 0 that begins at it cannot be covered."""
    below = -low / zero if zero else np.where(low < -1e-3 * np.maximum(high, 1e-30), np.inf, 0.0)
    return np.maximum(best, np.maximum(high / (_LEVELS - zero), below))


def function_type(samples: Float32, ends: tuple[Channels, Channels], shape: Shape, curve: Curve) -> Gridded:
    """For the number before a function, `curve`, that saturates where its result does. samples: [n, C]."""
    low, high = least_error_ends(samples, ends, curve)
    step = np.maximum((high - low) / _LEVELS, _LEAST_STEP * max(float((high - low).max()), _LEAST_STEP))
    return Gridded.of(shape, 0, low, step, float(step.max()))


def least_error_ends(samples: Float32, ends: tuple[Channels, Channels], curve: Curve) -> tuple[Channels, Channels]:
    """The range of each channel with the least expected square error of f(x), f being `curve`, over parts of its ends.

    The error is slope**2 step**2 / 12 for a sample [n, C] inside, and the square of f(x) - f(end) beyond an end.
    """
    whole = np.concatenate([samples, *(each[np.newaxis].astype(np.float32) for each in ends)])
    x = np.sort(whole, axis=0).astype(np.float64)
    wanted, half = curve(x), np.maximum((ends[1] - ends[0]) / 100, 1e-6)
    slope = (curve(x + half) - curve(x - half)) / (2 * half)
    inside = np.square(slope).mean(0) / (12 * _LEVELS**2)
    lows, highs = (np.where(each * sign > 0, each * _ENDS, each) for each, sign in zip(ends, (-1, 1), strict=True))
    below = _square_errors(x, wanted, lows, curve(lows))
    above = _square_errors(-x[::-1], wanted[::-1], -highs, curve(highs))
    width = highs[np.newaxis] - lows[:, np.newaxis]  # [lows, highs, C]
    error = np.where(width > 0, below[:, np.newaxis] + above[np.newaxis] + inside * np.square(width), np.inf)
    best = error.reshape(-1, x.shape[1]).argmin(0)
    channels = np.arange(x.shape[1])
    return lows[best // len(highs), channels], highs[best % len(highs), channels]


def _square_errors(x: Channels, wanted: Channels, ends: Channels, found: Channels) -> Channels:
    """Mean of (wanted - found)**2 over the x [n, C], ascending, that are less than an end, 0 for others: [ends, C]."""
    columns = np.ascontiguousarray(x.T)
    counts = np.stack([np.searchsorted(column, end) for column, end in zip(columns, ends.T, strict=True)], axis=1)
    before = (_sums_before(each) for each in (wanted, np.square(wanted)))
    sums, squares = (np.take_along_axis(each, counts.T, axis=1).T for each in before)
    errors: Channels = np.maximum(squares - 2 * found * sums + np.square(found) * counts, 0) / len(x)
    return errors


def _sums_before(values: Channels) -> Channels:
    """Column i is the sum of the first i of n values, one after the other: [C, n + 1] of [n, C]."""
    sums = np.zeros((values.shape[1], len(values) + 1))
    np.cumsum(values.T, axis=1, out=sums[:, 1:])
    return sums


def saturating(curve: Curve, out: Gridded | TensorType) -> Curve:
    """The function of a layer, [..., C], limited to what its output type can hold."""
    if isinstance(out, TensorType):
        out = Gridded(out, Grid.of(out))
    low, high = out.grid.start, out.grid.start + (out.kind.hi - out.kind.lo) * out.grid.step
    return lambda x: np.clip(curve(x), low, high)
