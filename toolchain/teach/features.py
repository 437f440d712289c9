"""Features as integer layers: the tensors of a backbone, averaged over a grid, rooted and brought to one scale.

For each tensor: an AveragePool to a grid of cells, a Lookup with a table for each channel, an Upsample to the finest
grid; then one Concat. The Lookup takes v to sign(v) sqrt(|v|), less its mean, in units of its deviation: few strong
answers do not outweigh many weak ones, and all channels share one scale, as a Concat wants it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.layers import AveragePool, Concat, Layer, Lookup, TensorType, Upsample
from edgemeta.toolchain.quantize.scales import multiplier_for
from edgemeta.toolchain.teach.backbone import Plan, layers_for

PREFIX = "teach"
"""Names of the layers begin with it."""
UNIT = 1 / 25
"""What a step of a feature is worth, in standard deviations."""
_LEAST_DEVIATION = 0.1
"""A channel's deviation counts as at least so much of the mean deviation, so that noise is not blown up."""


@dataclass(frozen=True, eq=False)
class Channels:
    """What the channels of one tensor did on the pictures, each float64 [C].

    reach: greatest magnitude of a cell's mean, as an integer of the tensor (without zero point). mean, deviation: of
    the rooted integers after the AveragePool.
    """

    reach: NDArray[np.float64]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


def cell_sums(tensor: NDArray[np.int8] | NDArray[np.uint8], zero_point: int, cells: int) -> NDArray[np.int32]:
    """Sums [cells, cells, C] of x - zero point of a tensor [H, W, C] under the windows of `window`."""
    (height, down), (width, right) = window(tensor.shape[0], cells), window(tensor.shape[1], cells)
    rows = np.stack([tensor[i * down : i * down + height].sum(0, dtype=np.int32) for i in range(cells)])
    sums = np.stack([rows[:, i * right : i * right + width].sum(1) for i in range(cells)], axis=1)
    found: NDArray[np.int32] = (sums - height * width * zero_point).astype(np.int32)
    return found


def window(side: int, cells: int) -> tuple[int, int]:
    """Kernel and stride by which `cells` windows cover a side; they overlap where it is no multiple."""
    stride = side // cells
    return side - (cells - 1) * stride, stride


def pooled_type(source: TensorType, cells: int) -> TensorType:
    """Type of the averaged tensor: unsigned if no element of the tensor is below its zero point."""
    is_signed = source.lo < source.zero_point
    return TensorType((cells, cells, source.shape[2]), signed=is_signed, scale=1 / (127 if is_signed else 255))


def rooted(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """sign(v) sqrt(|v|) of values [...]."""
    roots: NDArray[np.float64] = np.sign(values) * np.sqrt(np.abs(values))
    return roots


def measure_channels(sums: NDArray[np.int32], source: TensorType, cells: int) -> Channels:
    """Of the sums [N, cells, cells, C] of all pictures; source: the tensor's type."""
    kind = pooled_type(source, cells)
    means = sums / (window(source.shape[0], cells)[0] * window(source.shape[1], cells)[0])
    reach = np.maximum(np.abs(means).max(axis=(0, 1, 2)), 1 / 16)
    roots = rooted(np.clip(np.floor(means / reach * kind.hi + 0.5), kind.lo, kind.hi))
    return Channels(reach, roots.mean(axis=(0, 1, 2)), roots.std(axis=(0, 1, 2)))


def feature_layers(backbone: Model, plan: Plan, channels: Mapping[str, Channels]) -> tuple[Layer, ...]:
    """The backbone's layers and those of the features, of which the last gives them: int8 [cells, cells, features]."""
    layers = list(layers_for(backbone, plan))
    types = {layer.name: layer.output for layer in layers}
    parts = [_features_of(name, types[name], plan, cells, channels[name]) for name, cells in plan.grids.items()]
    for part in parts:
        layers += part
    if len(parts) > 1:
        ends = [part[-1] for part in parts]
        shape = (plan.cells, plan.cells, sum(end.output.shape[2] for end in ends))
        joined = replace(ends[0].output, shape=shape)
        layers.append(Concat(f"{PREFIX}.features", tuple(end.name for end in ends), joined))
    return tuple(layers)


def unmeasured(backbone: Model, plan: Plan) -> Mapping[str, Channels]:
    """Channels that stand in before the pictures are known."""
    counts = {layer.name: layer.output.shape[2] for layer in backbone.layers}
    return {name: Channels(*(np.ones(counts[name]) for _ in range(3))) for name in plan.grids}


def importance(plan: Plan, channels: Mapping[str, Channels]) -> NDArray[np.float64]:
    """How much each feature counts, float64 [cells * cells * features], in H, W, C order.

    A coarse cell appears once for each fine cell that it covers, and counts as one: the root of 1 / number of copies.
    """
    shares = [np.full(len(channels[name].mean), cells / plan.cells) for name, cells in plan.grids.items()]
    return np.tile(np.concatenate(shares), plan.cells**2)


def _features_of(name: str, source: TensorType, plan: Plan, cells: int, channels: Channels) -> list[Layer]:
    kind = pooled_type(source, cells)
    (height, down), (width, right) = window(source.shape[0], cells), window(source.shape[1], cells)
    factors = kind.hi / (channels.reach * height * width)
    mean = multiplier_for(factors, kind.lo, kind.hi, name)
    layers: list[Layer] = [
        AveragePool(f"{PREFIX}.mean.{name}", name, kind, kernel=(height, width), stride=(down, right), requantize=mean)
    ]
    out = TensorType(kind.shape, scale=UNIT)
    layers.append(Lookup(f"{PREFIX}.root.{name}", layers[-1].name, out, _table(kind, channels)))
    if cells < plan.cells:
        factor = plan.cells // cells
        fine = replace(out, shape=(plan.cells, plan.cells, kind.shape[2]))
        layers.append(Upsample(f"{PREFIX}.fine.{name}", layers[-1].name, fine, factor=(factor, factor)))
    return layers


def _table(kind: TensorType, channels: Channels) -> NDArray[np.int8]:
    """[C, 256]: of each integer its root less the mean, in units of UNIT deviations, as int8."""
    integers = np.arange(256) - (128 if kind.signed else 0)
    deviation = np.maximum(channels.deviation, _LEAST_DEVIATION * channels.deviation.mean()) + 1e-9
    centred = rooted(integers.astype(np.float64)) - channels.mean[:, np.newaxis]
    steps = np.floor(centred / (deviation[:, np.newaxis] * UNIT) + 0.5)
    table: NDArray[np.int8] = np.clip(steps, -128, 127).astype(np.int8)
    return table
