"""An integer network without a multiplier: shifts and tables requantize, scales and weights are powers of two.

A batch norm is not folded into the weights: the table of its channel computes it, with the activation. So weights keep
their powers of two, and no batch norm changes a channel's step.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import layers as q
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import MaxPool, Relu, Summing, TensorType, Weighted
from edgemeta.model.prove_float import prove_float
from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block, blocks_of, norm_factors
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, Node, Numbers, Policy, raw_outputs
from edgemeta.toolchain.quantize.ranges import Statistics
from edgemeta.toolchain.quantize.scales import int32_bias
from edgemeta.toolchain.quantize.types import power_types, tensor_types

_BIAS_ROOM = 2.0**29


def multiplier_free(model: FloatModel, weights: Mapping[str, PowerOfTwoWeights], statistics: Statistics) -> Model:
    """The integer model of a float network whose layers have these weights, by their names.

    statistics: of the float network with these weights. Raises QuantizeError for layers that the scheme does not have.
    """
    shapes, blocks = prove_float(model, model.name), blocks_of(model)
    given = power_types(shapes, blocks, statistics.histograms)
    types = tensor_types(image_type(model), shapes, blocks, statistics, "minmax", given)
    return Lowering(model, blocks, types, _MultiplierFree(weights), raw_outputs(model, blocks)).build()


@dataclass(frozen=True, eq=False)
class _MultiplierFree(Policy):
    weights: Mapping[str, PowerOfTwoWeights]
    scheme = "incremental"
    layers = (Summing, MaxPool, Relu)

    def weighted(self, node: Node) -> Numbers:
        """As Policy."""
        out, source, weights = node.out, node.sources[0], self.weights[node.name]
        unit = source.scale * float(weights.scale[0])
        factors, offsets = _affine(node.block)
        if node.is_raw and node.block.norm is None:
            bias = int32_bias(offsets / unit, node.name)
            return Numbers(weights, bias, None, TensorType(out.shape, 32, scale=unit))
        reach = np.abs(weights.decode()).reshape(len(offsets), -1).sum(1) * _span(source)
        line = _Line(factors * unit, offsets)
        return Numbers(weights, *line.centred((node.lo, node.hi), out, reach), out)

    def total(self, node: Node) -> tuple[tuple[int, int], int]:
        """As Policy."""
        one, other = node.sources
        return shifted_sum(one, other, node.out, node.name)

    def mean(self, node: Node, area: int) -> q.ShiftTable:
        """As Policy."""
        line = _Line(np.array([node.sources[0].scale / area]), np.zeros(1))
        return line.covering((node.lo, node.hi), node.out)


@dataclass(frozen=True)
class _Line:
    """y = slope * accumulator + offset, of each channel, both float64 [C]."""

    slope: NDArray[np.float64]
    offset: NDArray[np.float64]

    def covering(self, bounds: tuple[int, int], out: TensorType) -> q.ShiftTable:
        """Shift and table without a bias: the least shift for which the entries cover the bounds around 0."""
        reach = max(abs(bound - out.zero_point) for bound in bounds) * out.scale
        shift = _shift(reach / self.slope)
        return self._table(shift, np.zeros(len(self.slope)), bounds, out)

    def centred(
        self, bounds: tuple[int, int], out: TensorType, reach: NDArray[np.float64]
    ) -> tuple[NDArray[np.int32], q.ShiftTable]:
        """Bias, and shift and table per channel, whose 256 entries lie around the accumulator that gives the middle.

        The shift is the least for which they cover the outputs within the bounds; or all accumulators, which are at
        most `reach` [C], where these need a smaller one, as in a channel that the batch norm has switched off.
        """
        low, high = ((bound - out.zero_point) * out.scale for bound in bounds)
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
