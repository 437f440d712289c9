"""Policy of scheme `auto` and of the searches: batch norm folded into the weights, multipliers or shifts and tables."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import layers as q
from edgemeta.model.layers import TensorType
from edgemeta.model.weights import Weights
from edgemeta.toolchain.quantize.lower import Node, Numbers, Policy
from edgemeta.toolchain.quantize.ranges import RangeRule
from edgemeta.toolchain.quantize.scales import int32_bias, multiplier_for

Form = Literal["multiplier", "table"]
FORMS: tuple[Form, ...] = ("multiplier", "table")

_BIAS_ROOM, _SUM_ROOM = 2.0**29, 2.0**30
"""Greatest bias, and greatest sum of products beside it, of an int32 accumulator; rounding adds less than the rest."""


@dataclass(frozen=True, eq=False)
class Choice:
    """One way to quantize the whole network.

    ranges: rule for the ranges of tensors. form: requantization by per-channel multiplier or by per-channel shift and
    table. refitted: weights and biases are fitted to the float network's sums, layer by layer (`refit.py`). distilled:
    then trained together, to give the float network's outputs (`distill.py`).
    """

    ranges: RangeRule
    form: Form
    refitted: bool = False
    distilled: bool = False

    @property
    def text(self) -> str:
        """Short name for reports."""
        fitted = (", refitted" if self.refitted else "") + (", distilled" if self.distilled else "")
        return f"{self.form}, {self.ranges}{fitted}"


class Integers(Protocol):
    """The weights of a network's layers, with batch norm folded in, as integers."""

    def bias(self, name: str) -> NDArray[np.float64]:
        """The real bias of a layer [O]."""

    def magnitude(self, name: str) -> NDArray[np.float64]:
        """The sum of the magnitudes of each channel's weights [O]."""

    def integers(self, name: str, per_channel: bool, least_scale: NDArray[np.float64]) -> Weights:
        """The weights of a layer, one scale per output channel or one for all, none below least_scale [O]."""


@dataclass(frozen=True, eq=False)
class Folded(Policy):
    """weights: of the layers. form: of requantization.

    one_step: an output of accumulators has one scale (logits that are compared).
    """

    weights: Integers
    form: Form
    one_step: bool

    def weighted(self, node: Node) -> Numbers:
        """As Policy."""
        name, out, source, is_table = node.name, node.out, node.sources[0], self._has_table(node)
        read, made = _read_scales(node), _made_scales(node)
        middle = _middle(node) if is_table else _start(node)
        bias = self.weights.bias(name)
        room = np.maximum(np.abs(bias), np.abs(bias - middle)) / (read * _BIAS_ROOM)
        reach = max(source.hi - source.zero_point, source.zero_point - source.lo)
        room = np.maximum(room, self.weights.magnitude(name) * reach / _SUM_ROOM)
        weights = self.weights.integers(name, not (node.is_raw and self.one_step), room)
        units = read * weights.scale  # real value of one accumulator step, [C] or [1]
        requantize: q.Requantize | None = None
        if node.is_raw:
            out = TensorType(out.shape, 32, scale=source.scale if len(units) > 1 else float(units[0]))
        elif is_table:
            requantize = _table(units, node)
        else:
            requantize = multiplier_for(units / made, node.lo, node.hi, name)
        if node.source_grid is not None or node.grid is not None:  # a file has one scale of the input and of the result
            weights = replace(weights, scale=units * (node.out.scale / made) / source.scale)
        return Numbers(weights, int32_bias((bias - middle) / units, name), requantize, out)

    def _has_table(self, node: Node) -> bool:
        return self.form == "table" and not node.is_raw and node.grid is None


def _read_scales(node: Node) -> NDArray[np.float64]:
    """What a step of the input is worth to each output channel [O], or to all [1]."""
    if node.source_grid is None:
        return np.array([node.sources[0].scale])
    step = node.source_grid.step  # the layer is a depthwise convolution
    return np.repeat(step, node.out.shape[2] // len(step))


def _made_scales(node: Node) -> NDArray[np.float64]:
    """What a step of the result is worth, [O] or [1]."""
    return np.array([node.out.scale]) if node.grid is None or node.is_raw else node.grid.step


def _start(node: Node) -> NDArray[np.float64] | float:
    """The real number that the result's zero point stands for, by channel; 0 without a grid."""
    if node.grid is None or node.is_raw:
        return 0.0
    return node.grid.start + (node.out.zero_point - node.out.lo) * node.grid.step


def _middle(node: Node) -> float:
    """The real value at the middle of what the output can represent: [0, top] after ReLU, else the whole range."""
    return (node.lo + node.hi - 2 * node.out.zero_point) * node.out.scale / 2


def _table(units: NDArray[np.float64], node: Node) -> q.ShiftTable:
    """Shift and table per channel, for accumulators whose 0 is the middle of the output.

    The 256 entries cover the values that the output can represent. The shift is the least for which they do.
    """
    out, middle = node.out, _middle(node)
    need = ((node.hi - out.zero_point) * out.scale - middle) / (127 * units)
    shift = np.clip(np.ceil(np.log2(np.maximum(need, 1.0))), 0, 31)
    steps = np.arange(-128, 128, dtype=np.float64)
    real = steps * (units * 2.0**shift)[:, None] + middle
    entries = np.clip(np.floor(real / out.scale + 0.5) + out.zero_point, node.lo, node.hi)
    return q.ShiftTable(shift.astype(np.uint8), entries.astype(out.dtype))
