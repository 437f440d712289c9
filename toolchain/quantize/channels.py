"""A scale for each channel, where the integer network can have one without another operation.

Two kinds of tensors are so. What depthwise convolutions read, through a concatenation or a max pool, too: their
requantization and weights have a scale for each channel already, so that a channel's own scale costs nothing. And the
number before a function: the function's table may be another one for each channel, and the bias of the layer before
takes the channel's zero point. One scale for all channels of such a tensor is what 8 bits lose most by: a depthwise
channel has no neighbours to average its error. Where plain convolutions read it beside them, their float weights are
multiplied by what a channel's step is of the greatest (`shares`), before they are rounded.

The model file states one scale for a tensor, `TensorType.scale`. The scales of weights carry the rest: they are those
of the network in which channel c of the tensor is multiplied by `TensorType.scale / step[c]`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Concat, Float32, Function, MaxPool, Shape, TensorType
from edgemeta.model.layers.exact_functions import EXACT
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.ranges import Channels, Curve, Statistics, applied

_LEVELS = 255
_ENDS = 0.86 ** np.arange(20)[:, np.newaxis]
"""Parts of the greatest and least value at which a range may end: 1 to 0.06."""
_LEAST_STEP = 2.0**-40
"""Of the greatest step of a tensor: a channel that holds less is as good as dead, and any step does."""
_ZERO_POINTS = range(129)
_SHARED = 0.75
"""Power of the steps of what plain convolutions read, too: their weights keep steps for the small channels."""
_PASSING = Concat | MaxPool
"""What gives each channel as it is."""


@dataclass(frozen=True, eq=False)
class Grid:
    """What the integers of a tensor of 8 bits are worth: start[c] + step[c] * (integer - least integer), both [C]."""

    start: Channels
    step: Channels

    @classmethod
    def of(cls, kind: TensorType) -> Self:
        """That of a tensor with one scale, [1] each."""
        return cls(np.array([kind.scale * (kind.lo - kind.zero_point)]), np.array([kind.scale]))

    def reals(self, integers: NDArray[np.generic], kind: TensorType) -> Float32:
        """The real numbers of a tensor [..., C]."""
        steps = integers.astype(np.float32) - np.float32(kind.lo)
        return self.start.astype(np.float32) + self.step.astype(np.float32) * steps


@dataclass(frozen=True, eq=False)
class Gridded:
    """A tensor with a scale for each channel: its type, whose scale is the greatest one, and its grid."""

    kind: TensorType
    grid: Grid


@dataclass(frozen=True, eq=False)
class Separable:
    """The blocks whose output may have a scale for each channel.

    depthwise: what depthwise convolutions read; a concatenation or max pool stands for its inputs, too. functions:
    outputs of layers with weights -> the function that alone reads them. after: names of float tensors by block.
    shared: those of `depthwise` that plain convolutions read, too.
    """

    depthwise: tuple[Block, ...]
    functions: Mapping[str, Block]
    after: Mapping[str, str]
    shared: frozenset[str]

    @property
    def tensors(self) -> frozenset[str]:
        """Names of the float tensors."""
        return frozenset(self.after[name] for name in (*self.functions, *(block.name for block in self.depthwise)))

    def read_apart(self, shapes: Mapping[str, Shape], statistics: Statistics) -> dict[str, Gridded]:
        """Type and grid of what depthwise convolutions read, by block."""
        found: dict[str, Gridded] = {}
        for block in self.depthwise:
            power = _SHARED if block.name in self.shared else 1.0
            whole = depthwise_type(statistics.ends[block.after], shapes[block.after], power)
            found[block.name], first = whole, 0
            for name in block.inputs if isinstance(block.core, _PASSING) else ():
                shape = shapes[self.after[name]]
                some = slice(first, first := first + shape[2])
                grid = Grid(whole.grid.start[some], whole.grid.step[some])
                found[name] = Gridded(replace(whole.kind, shape=shape), grid)
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


def separable(blocks: Sequence[Block], outputs: Sequence[str]) -> Separable:
    """Of the blocks of a network with these output tensors."""
    readers: dict[str, list[Block]] = {block.name: [] for block in blocks}
    for block in blocks:
        for name in block.inputs:
            if name != INPUT:
                readers[name].append(block)
    inner = [block for block in blocks if block.after not in outputs and readers[block.name]]
    functions = {
        block.name: readers[block.name][0]
        for block in inner
        if block.has_weights and block.relu is None and len(readers[block.name]) == 1 and _is_exact(readers[block.name])
    }
    reads_one = {each.name for each in functions.values()}
    free = {block.name for block in inner if block.has_weights or block.name in reads_one}
    alone = {name for name in free if len(readers[name]) == 1}
    depthwise = tuple(
        block
        for block in inner
        if (block.name in free or (isinstance(block.core, _PASSING) and alone.issuperset(block.inputs)))
        and all(each.is_depthwise or each.is_plain for each in readers[block.name])
        and any(each.is_depthwise for each in readers[block.name])
    )
    shared = frozenset(block.name for block in depthwise if any(each.is_plain for each in readers[block.name]))
    return Separable(depthwise, functions, {block.name: block.after for block in blocks}, shared)


def _is_exact(readers: Sequence[Block]) -> bool:
    return isinstance(readers[0].core, Function) and readers[0].core.function in EXACT


def shares(grid: Grid) -> Float32:
    """Each channel's step through the greatest one [C]."""
    found: Float32 = (grid.step / grid.step.max()).astype(np.float32)
    return found


def depthwise_type(ends: tuple[Channels, Channels], shape: Shape, power: float = 1.0) -> Gridded:
    """For what depthwise convolutions read. ends: least and greatest value of each channel.

    All of the range counts: a scale for each channel leaves little to gain by clipping. The steps have one zero point
    z, that with the least mean of (s[c] / best[c])**2, where s[c] is the step that covers the channel's range from z on
    and best[c] the step of the range alone. power: of each step through the greatest; below 1, small channels have
    greater steps than they need.
    """
    low, high = np.minimum(ends[0], 0.0), np.maximum(ends[1], 0.0)
    floor = _LEAST_STEP * max(float((high - low).max()), _LEAST_STEP)
    best = np.maximum((high - low) / _LEVELS, floor)
    zero = min(_ZERO_POINTS, key=lambda z: float(np.square(_steps(z, low, high, best) / best).mean()))
    step = _steps(zero, low, high, best)
    step = step.max() * (step / step.max()) ** power
    kind = TensorType(shape, signed=False, zero_point=zero, scale=float(step.max()))
    return Gridded(kind, Grid(-zero * step, step))


def _steps(zero: int, low: Channels, high: Channels, best: Channels) -> Channels:
    """The step of each channel with this zero point; a range below 0 that begins at it cannot be covered."""
    below = -low / zero if zero else np.where(low < -1e-3 * np.maximum(high, 1e-30), np.inf, 0.0)
    return np.maximum(best, np.maximum(high / (_LEVELS - zero), below))


def function_type(samples: Float32, ends: tuple[Channels, Channels], shape: Shape, curve: Curve) -> Gridded:
    """For the number before a function, `curve`, that saturates where its result does. samples: [n, C]."""
    low, high = least_error_ends(samples, ends, curve)
    step = np.maximum((high - low) / _LEVELS, _LEAST_STEP * max(float((high - low).max()), _LEAST_STEP))
    return Gridded(TensorType(shape, signed=False, scale=float(step.max())), Grid(low, step))


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
