"""Policy of scheme `auto` and of the searches: batch norm folded into the weights, multipliers or shifts and tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    table. equalize: strength of the equalization of channels, applied first (`equalize.py`). feedback: weights are
    rounded with error feedback (`feedback.py`). shifts: real-valued corrections added to the bias of a block, per
    channel (`correct.py`).
    """

    ranges: RangeRule
    form: Form
    equalize: float = 0.0
    feedback: bool = False
    shifts: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Short name for reports."""
        equalized = f", equalized {self.equalize:g}" if self.equalize else ""
        feedback = ", error feedback" if self.feedback else ""
        correction = ", bias corrected" if self.shifts else ""
        return f"{self.form}, {self.ranges}{equalized}{feedback}{correction}"


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
    """weights: of the layers. one_step: an output of accumulators has one scale (logits that are compared)."""

    weights: Integers
    choice: Choice
    one_step: bool

    def weighted(self, node: Node) -> Numbers:
        """As Policy."""
        name, out, source, choice = node.name, node.out, node.sources[0], self.choice
        bias = self.weights.bias(name) + choice.shifts.get(name, 0.0)
        middle = 0.0 if node.is_raw or choice.form == "multiplier" else _middle(node)
        room = np.maximum(np.abs(bias), np.abs(bias - middle)) / (source.scale * _BIAS_ROOM)
        reach = max(source.hi - source.zero_point, source.zero_point - source.lo)
        room = np.maximum(room, self.weights.magnitude(name) * reach / _SUM_ROOM)
        weights = self.weights.integers(name, not (node.is_raw and self.one_step), room)
        units = source.scale * weights.scale  # real value of one accumulator step, [C] or [1]
        requantize: q.Requantize | None = None
        if node.is_raw:
            out = TensorType(out.shape, 32, scale=source.scale if len(units) > 1 else float(units[0]))
        elif choice.form == "multiplier":
            requantize = multiplier_for(units / out.scale, node.lo, node.hi, name)
        else:
            requantize = _table(units, node)
            bias = bias - middle
        return Numbers(weights, int32_bias(bias / units, name), requantize, out)


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
