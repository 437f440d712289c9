"""The choices of scheme `auto`, and the quantization of weights for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import TensorType
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.float_model.graph import (
    Add,
    Concat,
    Conv,
    Dense,
    Float32,
    FloatModel,
    Function,
    GlobalAverage,
    Pool,
    Product,
    Shape,
    Upsample,
)
from edgemeta.toolchain.quantize.assemble import input_type
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.calibrate import ClipRule, Statistics
from edgemeta.toolchain.quantize.feedback import Moments, round_with_feedback

Form = Literal["multiplier", "table"]
FORMS: tuple[Form, ...] = ("multiplier", "table")

_FRACTIONS = np.linspace(0.5, 1.0, 51)


@dataclass(frozen=True, eq=False)
class Choice:
    """One way to quantize the whole network.

    clip: rule for activation ranges. form: requantization by per-channel multiplier or by per-channel shift and table.
    equalize: strength of the equalization of channels, applied first (`equalize.py`). moments: of every block's inputs,
    for rounding its weights with error feedback (`feedback.py`). shifts: real-valued corrections added to the bias of a
    block, per channel (`correct.py`).
    """

    clip: ClipRule
    form: Form
    equalize: float = 0.0
    moments: Mapping[str, Moments] = field(default_factory=dict)
    shifts: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Short name for reports."""
        equalized = f", equalized {self.equalize:g}" if self.equalize else ""
        feedback = ", error feedback" if self.moments else ""
        correction = ", bias corrected" if self.shifts else ""
        return f"{self.form}, {self.clip}{equalized}{feedback}{correction}"


def tensor_types(
    model: FloatModel,
    shapes: Mapping[str, Shape],
    blocks: tuple[Block, ...],
    statistics: Statistics,
    clip: ClipRule,
) -> dict[str, TensorType]:
    """Type of every block's output (and of "input").

    A tensor that cannot be negative (ReLU, or computed from such tensors only) is uint8 with zero point 0 and scale
    clip / 255; any other is int8 with zero point 0 and scale clip / 127. A function of one element, such as swish, and
    a product are uint8 from their least value to clip. Layers that only move elements, max pool, bilinear resize and a
    separate ReLU keep the type of their input; a concatenation has the widest type of its inputs.
    """
    types = {"input": input_type(model)}
    not_negative: set[str] = set()
    for block in blocks:
        core, shape = block.core, shapes[block.after]
        inherits = isinstance(core, Add | GlobalAverage | Concat | Pool | Upsample)
        if block.relu is not None or (inherits and all(n in not_negative for n in block.inputs)):
            not_negative.add(block.name)
        if isinstance(core, Concat):
            types[block.name] = _widest([types[n] for n in core.inputs], shape)
        elif isinstance(core, Function | Product):
            greatest = statistics.clip(block.after, clip, signed=False)
            types[block.name] = _between(statistics.least[block.after], greatest, shape)
            if types[block.name].zero_point == 0:
                not_negative.add(block.name)
        elif isinstance(core, Conv | Dense | Add | GlobalAverage) or (
            isinstance(core, Pool) and core.kind == "average"
        ):
            signed = block.name not in not_negative
            reach = statistics.clip(block.after, clip, signed)
            types[block.name] = TensorType(shape, signed=signed, scale=reach / (127 if signed else 255))
        else:
            source = types[block.inputs[0]]
            types[block.name] = replace(source, shape=shape)
    return types


def _between(least: float, greatest: float, shape: Shape) -> TensorType:
    """Uint8 for the values from least, or 0 if that is lower, to greatest; 0 is exact."""
    least = min(least, 0.0)
    scale = (greatest - least) / 255
    return TensorType(shape, signed=False, zero_point=int(np.floor(-least / scale + 0.5)), scale=scale)


def _widest(kinds: list[TensorType], shape: Shape) -> TensorType:
    if len({(t.signed, t.zero_point, t.scale) for t in kinds}) == 1:
        return replace(kinds[0], shape=shape)
    if any(t.zero_point for t in kinds):
        least = min((t.lo - t.zero_point) * t.scale for t in kinds)
        return _between(least, max((t.hi - t.zero_point) * t.scale for t in kinds), shape)
    reach = max(max(abs(t.lo - t.zero_point), t.hi - t.zero_point) * t.scale for t in kinds)
    signed = any(t.signed for t in kinds)
    return TensorType(shape, signed=signed, scale=reach / (127 if signed else 255))


def quantize_weights(
    weight: Float32, per_channel: bool, least_scale: NDArray[np.float64], moments: Moments | None = None
) -> FixedWeights:
    """Symmetric int8, -127 .. 127, rounded half up, one scale per output channel or one for all.

    moments: second moments of the layer's input; if given, weights are rounded with error feedback (`feedback.py`).

    Each scale is greatest magnitude / 127 times the fraction 0.5 .. 1 with the least mean square error of the weights,
    and at least `least_scale` ([C], required by the bias).
    """
    rows = weight.astype(np.float64).reshape(len(weight) if per_channel else 1, -1)
    greatest = np.abs(rows).max(1)
    full = np.where(greatest > 0, greatest, 1.0) / 127
    best, error = full, np.full(len(full), np.inf)
    for fraction in _FRACTIONS:
        scale = (full * fraction)[:, None]
        off = np.square(rows - np.clip(np.floor(rows / scale + 0.5), -127, 127) * scale).sum(1)
        best, error = np.where(off < error, full * fraction, best), np.minimum(off, error)
    best = np.maximum(best, least_scale if per_channel else least_scale.max(keepdims=True))
    if moments is None:
        values = np.clip(np.floor(rows / best[:, None] + 0.5), -127, 127).astype(np.int8)
    else:
        values = round_with_feedback(rows.reshape(len(weight), -1), best, moments)
    return FixedWeights(values.reshape(weight.shape), 8, best)
