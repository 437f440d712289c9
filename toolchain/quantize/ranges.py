"""Ranges of tensors: what the float network gives for the images, and the type that a rule makes of it."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.float_reference import walk
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Float32, Function, Shape, TensorType
from edgemeta.model.layers.functions import evaluate
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.parallel import by_processes

BINS = 2048
_NARROWEST = 2.0**-60


class Histogram:
    """Counts of values in 2,048 bins of one width, a power of two that doubles as soon as values lie outside.

    Bin i holds values from (first + i) * width on; zero is a border of two bins. About a thousand bins or more lie
    between the least and the greatest value. counts: int64 [BINS], without the values that are exactly 0, which every
    quantization represents exactly; zeros: their number. least, greatest: of all values, at most and at least 0.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.zeros = 0
        self.least = self.greatest = 0.0
        self.width = _NARROWEST
        self._first = -BINS // 2

    @property
    def centres(self) -> NDArray[np.float64]:
        """The value in the middle of every bin [BINS]."""
        middle: NDArray[np.float64] = (self._first + np.arange(BINS, dtype=np.float64) + 0.5) * self.width
        return middle

    @property
    def total(self) -> int:
        """Number of values, zeros included."""
        return int(self.counts.sum()) + self.zeros

    def add(self, values: Float32, least: float, greatest: float) -> None:
        """Count values [any shape], of a tensor whose values lie in least .. greatest."""
        self.least, self.greatest = min(self.least, least), max(self.greatest, greatest)
        self._cover()
        zeros = values.size - int(np.count_nonzero(values))
        bins = np.floor(values.reshape(-1) * np.float32(1 / self.width)) - np.float32(self._first)
        self.counts += np.bincount(bins.astype(np.intp), minlength=BINS)
        self.counts[-self._first] -= zeros  # 0 begins a bin; the width is a power of two, so nothing was rounded
        self.zeros += zeros

    def merge(self, other: "Histogram") -> None:
        """Count the values of another histogram as well."""
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        self._cover(other.width)
        bins = np.floor(other.centres / self.width).astype(np.int64) - self._first
        self.counts += np.bincount(np.clip(bins, 0, BINS - 1), other.counts, BINS).astype(np.int64)
        self.zeros += other.zeros

    def _cover(self, least_width: float = 0.0) -> None:
        """Double the width, to `least_width` at least, and move the first bin until least .. greatest lies inside."""
        width = max(self.width, least_width)
        while math.floor(self.greatest / width) - math.floor(self.least / width) >= BINS - 1:
            width *= 2
        first = math.floor(self.least / width)
        is_inside = self._first <= first and math.floor(self.greatest / width) < self._first + BINS
        if width == self.width and is_inside:
            return
        filled = np.flatnonzero(self.counts)
        moved = np.floor(self.centres[filled] / width).astype(np.int64) - first
        self.counts = np.bincount(moved, self.counts[filled], BINS).astype(np.int64)
        self.width, self._first = width, first


#: Least to greatest value, all but one in ten thousand values on each side, or the least mean square error.
RangeRule = Literal["minmax", "percentile", "mse"]
RANGE_RULES: tuple[RangeRule, ...] = ("minmax", "percentile", "mse")

Range = tuple[float, float]
"""Least and greatest real number, with 0 between or at one of them."""

Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Numbers of numbers, of any shape."""


def applied(layer: Function) -> Curve:
    """The function of a layer, of an array [...]; it is computed in float32."""
    return lambda x: evaluate(layer.function, x.astype(np.float32), layer.alpha, layer.beta).astype(np.float64)


_LEVELS = 255
_OUTSIDE = 1e-4
_CLIPPED = 16
"""How often the square of a clipping error counts: errors of rounding have both signs and cancel in sums, those of
clipping have one, and stand at the same place in many channels."""
_FRACTIONS = np.linspace(0.2, 1.0, 65)
_INPUT_FRACTIONS = np.geomspace(0.03, 1.0, 32)
_NEARLY_SYMMETRIC = 1.1


def choose_range(histogram: Histogram, rule: RangeRule, function: Curve | None = None) -> Range:
    """The range of a tensor by a rule. function: what a lookup table computes from it [...], if nothing else reads it.

    "mse" minimizes the expected square error of rounding and clipping to 256 levels, where that of clipping counts 16
    times; with a function, the error of its result.
    """
    least, greatest = histogram.least, histogram.greatest
    if rule == "minmax" or least == greatest:
        return least, greatest
    if rule == "percentile":
        return _percentile(histogram)
    return _least_error(histogram) if function is None else _least_error_after(histogram, function)


def tensor_type(covered: Range, shape: Shape) -> TensorType:
    """The type of 8 bits for a range; 0 is exact.

    uint8 with zero point 0 if the range begins at 0, int8 with zero point 0 if it is nearly symmetric, otherwise uint8
    with another zero point.
    """
    least, greatest = covered
    if least == greatest:
        return TensorType(shape, signed=False)
    symmetric, step = max(-least / 128, greatest / 127), (greatest - least) / _LEVELS
    if least == 0:
        return TensorType(shape, signed=False, scale=greatest / _LEVELS)
    if symmetric <= _NEARLY_SYMMETRIC * step:
        return TensorType(shape, scale=symmetric)
    return TensorType(shape, signed=False, zero_point=int(np.floor(-least / step + 0.5)), scale=step)


def _percentile(histogram: Histogram) -> Range:
    centres, counts = histogram.centres, histogram.counts.astype(np.float64)
    allowed = _OUTSIDE * histogram.total
    half = histogram.width / 2
    inside = np.flatnonzero(np.cumsum(counts) > allowed)
    least = min(0.0, centres[inside[0]] - half) if len(inside) else 0.0
    inside = np.flatnonzero(np.cumsum(counts[::-1]) > allowed)
    greatest = max(0.0, centres[::-1][inside[0]] + half) if len(inside) else 0.0
    least, greatest = max(least, histogram.least), min(greatest, histogram.greatest)
    return (float(least), float(greatest)) if greatest > least else (histogram.least, histogram.greatest)


def _least_error(histogram: Histogram) -> Range:
    """Of step**2 / 12 for every value and `_CLIPPED` square distances of those outside, over a grid of both ends."""
    centres, counts = histogram.centres, histogram.counts.astype(np.float64)
    lows, highs = histogram.least * _FRACTIONS, histogram.greatest * _FRACTIONS
    below = np.array([(counts * np.square(np.minimum(centres - low, 0))).sum() for low in lows])
    above = np.array([(counts * np.square(np.maximum(centres - high, 0))).sum() for high in highs])
    steps = (highs[None, :] - lows[:, None]) / _LEVELS
    error = _CLIPPED * (below[:, None] + above[None, :]) + counts.sum() * np.square(steps) / 12
    low, high = np.unravel_index(int(error.argmin()), error.shape)
    return float(lows[low]), float(highs[high])


def _least_error_after(histogram: Histogram, function: Curve) -> Range:
    """The square error of the function's result, over a grid of both ends that reaches far inside."""
    filled = np.flatnonzero(histogram.counts)
    centres, counts = histogram.centres[filled], histogram.counts[filled].astype(np.float64)
    wanted = function(centres)
    best, least_error = (histogram.least, histogram.greatest), np.inf
    lows = (histogram.least * _INPUT_FRACTIONS).tolist() if histogram.least < 0 else [0.0]
    highs = (histogram.greatest * _INPUT_FRACTIONS).tolist() if histogram.greatest > 0 else [0.0]
    for low in lows:
        for high in highs:
            step = (high - low) / _LEVELS
            found = function(low + step * np.arange(_LEVELS + 1, dtype=np.float64))
            column = np.clip(np.floor((centres - low) / step + 0.5), 0, _LEVELS).astype(np.int64)
            error = float((counts * np.square(found[column] - wanted)).sum())
            if error < least_error:
                best, least_error = (low, high), error
    return best


Channels = NDArray[np.float64]
"""One number for each channel, [C]."""

_GREATEST = 2.0**50
"""Of a tensor's values: their squares can be added in float32."""
_SAMPLE = 1 << 13
"""Values of one tensor and image that are counted in its histogram, at least, if it has as many."""
_ROW = 4096
"""Numbers that are compared at once."""
_ROWS = 1024
"""Values of each channel that are kept of a tensor, of all images together."""


_TOGETHER = 20
"""Images that one process counts; it copies the memory that it touches."""
Ends = tuple[NDArray[np.floating], NDArray[np.floating]]


@dataclass(frozen=True, eq=False)
class _Found:
    """What some images add to the statistics, by tensor; rows: samples [n, C] of each image."""

    histograms: dict[str, Histogram] = field(default_factory=lambda: defaultdict(Histogram))
    ends: dict[str, Ends] = field(default_factory=dict)
    rows: dict[str, list[Float32]] = field(default_factory=lambda: defaultdict(list))
    kept: dict[tuple[int, str], Float32] = field(default_factory=dict)


class Statistics:
    """What the tensors of a float network hold over the calibration images.

    histograms: of every block's output. ends: least and greatest value of each of its channels, [C] each. samples:
    about 1,000 values of each channel of those `by_channel`, [n, C]. kept: tensors that `keep` chooses by the image's
    number and the tensor's name. Other keys are names of float tensors. counted: how many of the images count, the
    first ones; default all. Other processes count them: threads that do little at a time wait for Python's lock.
    """

    def __init__(
        self,
        model: FloatModel,
        blocks: Sequence[Block],
        images: PreparedImages,
        stage: Progress | None = None,
        by_channel: Iterable[str] = (),
        counted: int | None = None,
        keep: Callable[[int, str], bool] | None = None,
    ) -> None:
        self.histograms = {block.after: Histogram() for block in blocks}
        self.ends: dict[str, tuple[Channels, Channels]] = {}
        self.kept: dict[tuple[int, str], Float32] = {}
        rows: dict[str, list[Float32]] = {name: [] for name in by_channel}
        total, count = len(images), len(images) if counted is None else counted

        def look(places: range) -> _Found:
            found = _Found()
            for place in places:
                for name, tensor in walk(model, images.real(images[place])):
                    if keep is not None and keep(images.numbers[place], name):
                        found.kept[images.numbers[place], name] = tensor
                    if name in self.histograms and place < count:
                        flat = tensor.reshape(-1, tensor.shape[3])
                        ends = _checked(model, name, _ends(flat))
                        found.ends[name] = _wider(found.ends.get(name, ends), ends)
                        some = flat.reshape(-1)[:: flat.size // _SAMPLE | 1].copy()  # odd: it visits all channels
                        found.histograms[name].add(some, float(ends[0].min()), float(ends[1].max()))
                        if name in rows:
                            step = max(1, len(flat) * count // _ROWS)
                            found.rows[name].append(flat[(place + 1) % step :: step].copy())
            return found

        shares = [range(first, min(first + _TOGETHER, total)) for first in range(0, total, _TOGETHER)]
        for share, found in zip(shares, by_processes(look, shares), strict=True):
            for name, ends in found.ends.items():
                self.histograms[name].merge(found.histograms[name])
                self.ends[name] = _wider(self.ends.get(name, ends), ends)
            for name, some in found.rows.items():
                rows[name] += some
            self.kept |= found.kept
            if stage is not None:
                stage(share.stop, total)
        self.samples = {name: np.concatenate(parts) for name, parts in rows.items()}

    @property
    def reach(self) -> Mapping[str, Channels]:
        """Greatest magnitude of each channel [C]."""
        return {name: np.maximum(np.abs(low), np.abs(high)) for name, (low, high) in self.ends.items()}


def _checked(model: FloatModel, name: str, ends: Ends) -> Ends:
    """The ends of a tensor; raises QuantizeError."""
    reach = max(-float(ends[0].min()), float(ends[1].max()))
    if not reach <= _GREATEST:
        found = f"as great as {reach:g}" if np.isfinite(reach) else "infinite"
        raise QuantizeError(
            f"{model.name}: tensor {name!r} becomes {found} on the calibration images, expected at most {_GREATEST:g}"
        )
    return ends


def _wider(known: Ends, found: Ends) -> tuple[Channels, Channels]:
    least, greatest = np.minimum(known[0], found[0]), np.maximum(known[1], found[1])
    return least.astype(np.float64), greatest.astype(np.float64)


def _ends(flat: Float32) -> tuple[Float32, Float32]:
    """Least and greatest value of each channel of a tensor [positions, C], [C] each.

    Many positions are taken as one row first: NumPy compares whole rows.
    """
    channels = flat.shape[1]
    at_once = max(1, _ROW // channels)
    whole = len(flat) // at_once * at_once
    wide, rest = flat[:whole].reshape(-1, at_once * channels), flat[whole:]
    least, greatest = (
        reduce(np.concatenate([*([reduce(wide, axis=0).reshape(-1, channels)] if whole else []), rest]), axis=0)
        for reduce in (np.minimum.reduce, np.maximum.reduce)
    )
    return least, greatest
