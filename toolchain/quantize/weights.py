"""Quantization of weights: symmetric integers with the scale of least error, per output channel or for the layer."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Float32
from edgemeta.model.weights import FixedWeights
from edgemeta.toolchain.quantize.blocks import Block, folded, rounded_to
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.feedback import Feedback, round_with_feedback

Scales = NDArray[np.float64]

_FRACTIONS = np.linspace(0.5, 1.0, 51)
_FRACTIONS_OF_FEW_BITS = np.linspace(0.2, 1.0, 81)
_BLOCK = 1 << 20
"""Weights that are tried at a time."""
_CACHED = 1 << 16
"""Weights times scales that are tried at a time, of a small layer."""


class LayerWeights:
    """The folded weights and biases of all layers of a network, and their integers, each computed once.

    A layer that was fitted has others, which are rounded with error feedback (`refit.py`). Of a layer that sums over
    channels and whose input has a grid, the weights are multiplied by the channels' shares.
    """

    def __init__(self, blocks: Sequence[Block], grids: Mapping[str, Grid] | None = None) -> None:
        self._folded: dict[str, tuple[Float32, NDArray[np.floating]]] = {
            block.name: folded(block) for block in blocks if block.has_weights
        }
        for block in blocks:
            if (grid := (grids or {}).get(block.inputs[0])) is not None and block.sums_channels:
                weight, bias = self._folded[block.name]
                columns = weight.reshape(-1, len(grid.step)) * grid.shares
                self._folded[block.name] = columns.reshape(weight.shape), bias
        self._feedback: dict[str, Feedback] = {}
        self._scales: dict[tuple[str, bool], Scales] = {}
        self._rounded: dict[str, FixedWeights] = {}

    def copy(self) -> "LayerWeights":
        """The same weights, to be fitted."""
        other = LayerWeights(())
        other._folded, other._scales = dict(self._folded), dict(self._scales)
        other._feedback, other._rounded = dict(self._feedback), dict(self._rounded)
        return other

    def fit(self, name: str, weight: Float32, bias: NDArray[np.float64], feedback: Feedback) -> None:
        """Take another weight [O, ...] and bias [O] for a layer, rounded with this error feedback."""
        self._folded[name], self._feedback[name] = (weight, bias), feedback
        self._scales = {key: each for key, each in self._scales.items() if key[0] != name}
        self._rounded.pop(name, None)

    def train(self, name: str, weight: Float32, bias: NDArray[np.float64], scale: Scales) -> None:
        """Take another weight [O, ...] and bias [O] for a layer, whose integers have these scales [O]."""
        self._folded[name] = weight, bias
        self._feedback.pop(name, None)
        self._scales |= {(name, True): scale, (name, False): scale.max(keepdims=True)}
        self._rounded.pop(name, None)

    def correct(self, name: str, bias: NDArray[np.float64]) -> None:
        """Take another bias [O] for a layer."""
        self._folded[name] = self._folded[name][0], bias

    def real(self, name: str) -> tuple[Float32, NDArray[np.float64]]:
        """The real weight [O, ...] and bias [O] of a layer."""
        return self._folded[name][0], self.bias(name)

    def scale(self, name: str) -> Scales:
        """The scales of the integers that `integers` gave last for a layer, [O] or [1]."""
        return self._rounded[name].scale

    def rounded(self, name: str) -> NDArray[np.float64]:
        """The real numbers of the integers that `integers` gave last for a layer [O, ...]."""
        known = self._rounded[name]
        return known.values * known.scale.reshape(-1, *[1] * (known.values.ndim - 1))

    def bias(self, name: str) -> NDArray[np.float64]:
        """The real bias of a layer [O]."""
        return self._folded[name][1].astype(np.float64)

    def magnitude(self, name: str) -> NDArray[np.float64]:
        """The sum of the magnitudes of each channel's weights [O]."""
        return magnitude(self._folded[name][0])

    def integers(self, name: str, per_channel: bool, least_scale: Scales) -> FixedWeights:
        """Weights -127 .. 127, rounded half up, one scale per output channel or one for all.

        Each scale is greatest magnitude / 127 times the fraction 0.5 .. 1 with the least mean square error of the
        weights, and at least `least_scale` ([O], required by the bias).
        """
        weight = self._folded[name][0]
        if (name, per_channel) not in self._scales:
            self._scales[name, per_channel] = best_scales(weight, per_channel)
        best = np.maximum(
            self._scales[name, per_channel], least_scale if per_channel else least_scale.max(keepdims=True)
        )
        known = self._rounded.get(name)
        if known is None or not np.array_equal(known.scale, best):
            known = self._rounded[name] = rounded(weight, best, self._feedback.get(name))
        return known


def magnitude(weight: Float32) -> NDArray[np.float64]:
    """The sum of the magnitudes of each channel's weights [O, ...], [O]."""
    found: NDArray[np.float64] = np.abs(weight.reshape(len(weight), -1)).sum(1, dtype=np.float64)
    return found


def best_scales(weight: Float32, per_channel: bool, bits: int = 8) -> Scales:
    """The scales [O] or [1] of least mean square error for weights [O, ...] as integers of so many bits.

    Weights that were rounded before, all of them to multiples of one step, keep it where it can hold them.
    """
    top = (1 << (bits - 1)) - 1
    rows = weight.reshape(len(weight), -1)
    greatest = np.abs(rows).max(1).astype(np.float64)
    if not per_channel:
        greatest = greatest.max(keepdims=True)
    full = np.where(greatest > 0, greatest, 1.0) / top
    tried = full * (_FRACTIONS if bits == 8 else _FRACTIONS_OF_FEW_BITS)[:, np.newaxis]
    at_once = max(1, _CACHED // rows.size)
    pieces = [_square_errors(rows, tried[i : i + at_once], top) for i in range(0, len(tried), at_once)]
    off = np.concatenate(pieces)
    off = off if per_channel else off.sum(1, keepdims=True)
    best = tried[off.argmin(0), np.arange(len(full))]
    step = rounded_to(rows)
    return best if step is None else np.where(greatest <= (top + 0.5) * step, step, best)


def rounded(weight: Float32, scale: Scales, feedback: Feedback | None, bits: int = 8) -> FixedWeights:
    """The integers of weights [O, ...] for scales [O] or [1]; to the nearest one without feedback (of 8 bits only)."""
    rows = weight.reshape(len(weight), -1)
    if feedback is not None:
        values = round_with_feedback(rows.astype(np.float64), scale, feedback)
        return FixedWeights(values.reshape(weight.shape), 8, scale)
    values = np.empty(rows.shape, np.int8)
    for part in _parts(rows):
        values[part] = _nearest(rows[part], _of(scale, part), (1 << (bits - 1)) - 1)
    return FixedWeights(values.reshape(weight.shape), bits, scale)


def _square_errors(rows: Float32, scales: Scales, top: int) -> NDArray[np.float64]:
    """Sum of square errors of each row, for several scales [S, O] or [S, 1]: [S, O]."""
    off = np.empty((len(scales), len(rows)))
    for part in _parts(rows):
        step = scales[:, part if scales.shape[1] > 1 else slice(None), np.newaxis]
        off[:, part] = np.square(rows[part] - _nearest(rows[part], step, top) * step).sum(2)
    return off


def _nearest(rows: Float32, step: NDArray[np.float64], top: int) -> NDArray[np.float64]:
    nearest: NDArray[np.float64] = np.clip(np.floor(rows / step + 0.5), -top, top)
    return nearest


def _of(scale: Scales, part: slice) -> NDArray[np.float64]:
    return scale[part, None] if len(scale) > 1 else scale[:, None]


def _parts(rows: Float32) -> list[slice]:
    """The rows in pieces of bounded size, so that a large layer needs little memory beside its weights."""
    count = max(1, _BLOCK // rows.shape[1])
    return [slice(start, start + count) for start in range(0, len(rows), count)]
