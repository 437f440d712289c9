"""An integer network without a multiplier: shifts and tables requantize, scales and weights are powers of two.

A batch norm is not folded into the weights: the table of its channel computes it, with the activation. So weights keep
their powers of two, and no batch norm changes a channel's step. A function behind them, such as swish, is in it, too.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import layers as q
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Function, MaxPool, Moving, Relu, Summing, TensorType, Weighted
from edgemeta.model.prove_float import prove_float
from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block, blocks_of, norm_factors
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, Node, Numbers, Policy, lookup_table, raw_outputs
from edgemeta.toolchain.quantize.ranges import Channels, Curve, Statistics, applied
from edgemeta.toolchain.quantize.scales import int32_bias
from edgemeta.toolchain.quantize.types import encoded, power_types

_BIAS_ROOM = 2.0**29


def multiplier_free(model: FloatModel, weights: Mapping[str, PowerOfTwoWeights], statistics: Statistics) -> Model:
    """The integer model of a float network whose layers have these weights, by their names.

    statistics: of the float network with these weights. Raises QuantizeError for layers that the scheme does not have.
    """
    shapes, blocks = prove_float(model, model.name), blocks_of(model)
    merged = _merged(model, blocks)
    types = power_types(image_type(model), shapes, [each.block for each in merged], statistics)
    lines = {each.block.name: each for each in merged}
    policy = _MultiplierFree(weights, lines, statistics.reach)
    return Lowering(model, [each.block for each in merged], types, policy, raw_outputs(model, blocks)).build()


def require_multiplier_free(model: FloatModel) -> None:
    """Raise QuantizeError, with its name, for a layer that the scheme does not have."""
    _MultiplierFree.require(blocks_of(model))


@dataclass(frozen=True)
class _Merged:
    """A block, with the function that its table computes, too. source: the block of the layer with the weights."""

    block: Block
    source: Block
    function: Function | None = None


def _merged(model: FloatModel, blocks: Sequence[Block]) -> list[_Merged]:
    """The blocks; a function that alone reads a layer with weights becomes one with it, under the function's name."""
    by_name = {block.name: block for block in blocks}
    readers = Counter(name for block in blocks for name in block.inputs)
    found: dict[str, _Merged] = {}
    for block in blocks:
        found[block.name] = _Merged(block, block)
        if not isinstance(block.core, Function):
            continue
        source = by_name.get(block.inputs[0])
        is_free = source is not None and source.after not in model.outputs and readers[source.name] == 1
        if source is not None and is_free and source.has_weights and source.relu is None:
            core = source.core.renamed(block.name, source.inputs)
            found[block.name] = _Merged(replace(source, core=core, after=block.after), source, block.core)
            del found[source.name]
    return list(found.values())


@dataclass(frozen=True, eq=False)
class _MultiplierFree(Policy):
    """weights: by names of layers. merged: by names of blocks. reach: of float tensors, as in `Statistics`."""

    weights: Mapping[str, PowerOfTwoWeights]
    merged: Mapping[str, _Merged]
    reach: Mapping[str, Channels]
    scheme = "incremental"
    layers = (Summing, MaxPool, Moving, Relu, Function)

    def weighted(self, node: Node) -> Numbers:
        """As Policy."""
        out, source, merged = node.out, node.sources[0], self.merged[node.name]
        core = merged.source.core
        assert isinstance(core, Weighted)
        weights = self.weights.get(core.name)
        if weights is None:  # of a batch norm alone
            weights = encoded(np.ones(core.real_weights.shape, np.int64), 2, 1.0)
        unit = source.scale * weights.scale
        factors, offsets = _affine(node.block)
        if node.is_raw and node.block.norm is None:
            scale = source.scale if len(unit) > 1 else float(unit[0])
            return Numbers(weights, int32_bias(offsets / unit, node.name), None, TensorType(out.shape, 32, scale=scale))
        sums = np.abs(weights.decode()).reshape(len(offsets), -1).sum(1) * _span(source)
        low, high = (np.full(1, (bound - out.zero_point) * out.scale) for bound in (node.lo, node.hi))
        line = _Line(factors * unit, offsets)
        if merged.function is not None:
            high = self.reach[merged.source.after]
            low, line = -high, replace(line, function=applied(merged.function))
        return Numbers(weights, *line.centred(low, high, (node.lo, node.hi), out, sums), out)

    def total(self, node: Node) -> tuple[tuple[int, int], int]:
        """As Policy."""
        one, other = node.sources
        return shifted_sum(one, other, node.out, node.name)

    def mean(self, node: Node, area: int) -> q.ShiftTable:
        """As Policy."""
        line = _Line(np.array([node.sources[0].scale / area]), np.zeros(1))
        return line.covering((node.lo, node.hi), node.out)

    def rescaled(self, node: Node, name: str, source: str, kind: TensorType) -> q.Layer:
        """As Policy."""
        low, high = ((bound - node.out.zero_point) * node.out.scale for bound in (node.lo, node.hi))
        out = replace(node.out, shape=kind.shape)
        return q.Lookup(name, source, out, lookup_table(lambda x: x.clip(low, high), kind, out))


@dataclass(frozen=True)
class _Line:
    """y = function(slope * accumulator + offset), of each channel, both float64 [C]; None: the number itself."""

    slope: NDArray[np.float64]
    offset: NDArray[np.float64]
    function: Curve | None = None

    def covering(self, bounds: tuple[int, int], out: TensorType) -> q.ShiftTable:
        """Shift and table without a bias: the least shift for which the entries cover the bounds around 0."""
        reach = max(abs(bound - out.zero_point) for bound in bounds) * out.scale
        shift = _shift(reach / self.slope)
        return self._table(shift, np.zeros(len(self.slope)), bounds, out)

    def centred(
        self, low: Channels, high: Channels, bounds: tuple[int, int], out: TensorType, reach: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], q.ShiftTable]:
        """Bias, and shift and table per channel, whose 256 entries lie around the accumulator that gives the middle.

        low, high: of the line, in front of the function, [C] or [1]. The shift is the least for which the entries cover
        them; or all accumulators, which are at most `reach` [C], where these need a smaller one, as in a channel that
        the batch norm has switched off.
        """
        flat = self.slope == 0
        slope = np.where(flat, 1.0, self.slope)
        middle = ((low + high) / 2 - self.offset) / slope
        by_output, by_sum = _shift((high - low) / 2 / np.abs(slope)), _shift(reach)
        plain = flat | (by_sum <= by_output) | (np.abs(middle) > _BIAS_ROOM)
        bias = np.where(plain, 0.0, -np.floor(np.where(plain, 0.0, middle) + 0.5))
        return bias.astype(np.int32), self._table(np.where(plain, by_sum, by_output), bias, bounds, out)

    def _table(
        self, shift: NDArray[np.float64], bias: NDArray[np.float64], bounds: tuple[int, int], out: TensorType
    ) -> q.ShiftTable:
        """Entry t is y of the accumulator t * 2**shift - bias, as the nearest integer of `out` within the bounds."""
        sums = np.arange(-128, 128, dtype=np.float64) * 2.0 ** shift[:, None] - bias[:, None]
        real = self.slope[:, None] * sums + self.offset[:, None]
        real = real if self.function is None else self.function(real)
        entries = np.clip(np.floor(real / out.scale + 0.5) + out.zero_point, *bounds)
        return q.ShiftTable(shift.astype(np.uint8), entries.astype(out.dtype))


def shifted_sum(a: TensorType, b: TensorType, out: TensorType, name: str) -> tuple[tuple[int, int], int]:
    """Multipliers and shift of an addition, all powers of two: a.scale / out.scale and b.scale / out.scale exactly.

    The shift is the least that makes both whole. Raises QuantizeError for scales that are too far from each other, or
    whose ratio is no power of two.
    """
    parts = [math.frexp(each.scale / out.scale) for each in (a, b)]
    if any(mantissa != 0.5 for mantissa, _ in parts):
        raise QuantizeError(
            f"layer {name!r}: adds tensors of scales {a.scale:g} and {b.scale:g} to one of {out.scale:g}, expected "
            "ratios that are powers of two"
        )
    places = [exponent - 1 for _, exponent in parts]
    shift = max(0, -min(places))
    pair = (1 << places[0] + shift, 1 << places[1] + shift)
    if shift > 29 or max(pair) > 2**21:
        raise QuantizeError(
            f"layer {name!r}: adds tensors of scales {a.scale:g} and {b.scale:g}, too far from {out.scale:g}"
        )
    return pair, shift


def _affine(block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Factor and offset [O] that bias and batch norm apply to the sums of products of a layer."""
    core = block.core
    assert isinstance(core, Weighted)
    bias = np.zeros(len(core.real_weights)) if core.bias is None else core.bias.astype(np.float64)
    factors = norm_factors(block)
    if block.norm is None or factors is None:
        return np.ones(len(bias)), bias
    return factors, (bias - block.norm.mean) * factors + block.norm.beta


def _span(kind: TensorType) -> int:
    return max(abs(kind.lo - kind.zero_point), abs(kind.hi - kind.zero_point))


def _shift(reach: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least shift 0 .. 31 with which 127 steps reach so far."""
    wanted: NDArray[np.float64] = np.clip(np.ceil(np.log2(np.maximum(reach / 127, 1.0))), 0, 31)
    return wanted
