"""Ranges of integers that leave outliers out: by a percentile, or by the least mean squared error.

Of tensors that workers share the rows of, elements are counted in a histogram whose bins are fixed: the upper 15 bits
of the float32 pattern, so a bin ends at 1 + 1 / 64 of its beginning at most. Counts are integers, and are added over
steps and workers; so the range does not depend on the number of workers. Of a tensor that every worker has whole
(weights), the range is exact.
"""

from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.library import custom_op

from edgemeta.kernels.simulate.library import BINS, errors_at, histogram_at
from edgemeta.toolchain.number_formats.formats import Integer
from edgemeta.toolchain.simulate.definition import dense
from edgemeta.toolchain.simulate.scales import scales

FRACTIONS = np.arange(1, 101) / 100
"""Of the whole range: what is searched for the least mean squared error."""

_POSITIVE = BINS // 2
_DROPPED = 32 - 15
_MAGNITUDE = 0x7FFF_FFFF

Doubles = NDArray[np.float64]


@custom_op("edgemeta::histogram", mutates_args=())
def histogram(x: Tensor) -> Tensor:
    """Count the finite elements of a float32 tensor in each bin, int64 [BINS]; bins are ordered by their values."""
    if x.device.type == "cpu":
        x = dense(x)
        return torch.from_numpy(histogram_at(x.data_ptr(), x.numel(), threads=torch.get_num_threads()))
    return histogram_by_definition(x)


def histogram_by_definition(x: Tensor) -> Tensor:
    """As `histogram`, by PyTorch's operators, which is what the library's counts are compared with."""
    patterns = x[x.isfinite()].view(torch.int32)
    bins = (patterns & _MAGNITUDE) >> _DROPPED
    return torch.bincount(torch.where(patterns < 0, _POSITIVE - 1 - bins, _POSITIVE + bins), minlength=BINS)


@histogram.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(BINS, dtype=torch.int64)


@custom_op("edgemeta::range_of_histogram", mutates_args=())
def range_of_histogram(counts: Tensor, kind: str) -> Tensor:
    """Least and greatest value to represent, float32 [1, 2]; zeros for an empty histogram. kind: `Integer` as JSON."""
    found = counts.cpu().numpy()
    integer, (filled,) = Integer.model_validate_json(kind), found.nonzero()
    if not len(filled):
        return counts.new_zeros(1, 2, dtype=torch.float32)
    lower, upper = _edges(filled)
    if integer.observer == "percentile":
        total = found[filled].cumsum()
        outside = _outside(integer, int(total[-1]))
        first, last = np.searchsorted(total, [outside, total[-1] - 1 - outside], "right")
        ends = np.array([lower[first], upper[last]])
    else:
        share = found[filled] / found.sum()
        candidates = candidates_of(torch.tensor([[lower[0], upper[-1]]], dtype=torch.float64))[0]
        ends = candidates[int(_error_of_bins(integer, candidates, lower, upper, share).argmin())].numpy()
    return torch.from_numpy(ends.astype(np.float32)).reshape(1, 2).to(counts.device)


@range_of_histogram.register_fake
def _(counts: Tensor, _kind: str) -> Tensor:
    return counts.new_empty(1, 2, dtype=torch.float32)


@custom_op("edgemeta::range_of_channels", mutates_args=())
def range_of_channels(x: Tensor, kind: str) -> Tensor:
    """The same of every channel, float32 [channels, 2], from its elements; x: float32 [channels, elements].

    A channel without finite elements has zeros.
    """
    integer = Integer.model_validate_json(kind)
    if integer.observer != "percentile":
        return _ranges_of_least_error(integer, x.cpu()).to(x.device)
    rows = [row[row.isfinite()] for row in x]
    return torch.stack([_percentile(integer, row) if len(row) else row.new_zeros(2) for row in rows])


@range_of_channels.register_fake
def _(x: Tensor, _kind: str) -> Tensor:
    return x.new_empty(x.shape[0], 2)


def candidates_of(ends: Tensor) -> Tensor:
    """FRACTIONS of ranges, float32 [ranges, 100, 2], the widest first; ends: float32 [ranges, 2]."""
    shares = torch.from_numpy(FRACTIONS[::-1].copy())
    return (shares[:, None] * ends.to(torch.float64)[:, None]).to(torch.float32)


def _outside(kind: Integer, elements: int) -> int:
    """How many elements may lie beyond each end: floor(elements (100 - percentile) / 100), in exact numbers."""
    return int(elements * (100 - Fraction(str(kind.percentile))) / 100)


def _percentile(kind: Integer, x: Tensor) -> Tensor:
    outside = _outside(kind, len(x))
    ordered = x.sort().values
    return torch.stack((ordered[outside], ordered[len(x) - 1 - outside]))


def _ranges_of_least_error(kind: Integer, x: Tensor) -> Tensor:
    """Every candidate rounds the elements as the format does; of several with the least error the widest."""
    finite = x.isfinite()
    ends = torch.stack((torch.where(finite, x, torch.inf).amin(1), torch.where(finite, x, -torch.inf).amax(1)), 1)
    ends = torch.where(finite.any(1, keepdim=True), ends, 0.0)
    candidates = candidates_of(ends)
    found = scales(kind, candidates.reshape(-1, 2))
    whole = dense(torch.where(finite, x, 0.0))
    choices = (each.reshape(candidates.shape[:2]).numpy() for each in (found.scale, found.lowest, found.highest))
    errors = errors_at(whole.data_ptr(), (x.shape[0], x.shape[1]), *choices, threads=torch.get_num_threads())
    return candidates[torch.arange(len(x)), torch.from_numpy(errors.argmin(1))]


def _error_of_bins(kind: Integer, ranges: Tensor, lower: Doubles, upper: Doubles, share: Doubles) -> Doubles:
    """The mean squared error, float64 [ranges], if a bin's elements are spread evenly from its lower to its upper end.

    In steps: a value u becomes the integer n, and the integral of (u - n)**2 from 0 to u is n / 12 + (u - n)**3 / 3.
    """
    found = scales(kind, ranges)
    scale, lowest, highest = (
        each.to(torch.float64).numpy()[:, np.newaxis] for each in (found.scale, found.lowest, found.highest)
    )

    def integral(u: Doubles) -> Doubles:
        n = np.clip(np.rint(u), lowest, highest)
        whole: Doubles = n / 12 + (u - n) ** 3 / 3
        return whole

    begin, end = lower / scale, upper / scale
    errors: Doubles = (integral(end) - integral(begin)) / (end - begin) * scale**2 * share
    sums: Doubles = errors.sum(1)
    return sums


def _edges(bins: NDArray[np.int64]) -> tuple[Doubles, Doubles]:
    """Least and greatest value of each bin."""
    magnitudes = np.where(bins < _POSITIVE, _POSITIVE - 1 - bins, bins - _POSITIVE)
    greatest = np.float64(np.finfo(np.float32).max)
    inner, outer = (
        np.minimum((each << _DROPPED).astype(np.uint32).view(np.float32).astype(np.float64), greatest)
        for each in (magnitudes, magnitudes + 1)
    )
    negative = bins < _POSITIVE
    return np.where(negative, -outer, inner), np.where(negative, -inner, outer)
