"""Refit: weights and biases are fitted to the float network's sums on the integers that each layer really reads.

Layer after layer, with the tensors of both networks side by side: x are the real numbers of the integer network's input
windows, y the float layer's sums. The weights W become those of least squares with a ridge towards the float ones W0,

    W = W0 + cov(y - W0 x, x) (cov(x, x) + D)^-1,  D = ridge diag(cov(x, x)) + a floor,

are rounded with error feedback for the same covariance (`feedback.py`), and the bias makes the means equal. So a layer
undoes what it can of the errors of the layers before it. Pictures of one camera would teach it the error of a
background that never moves: who calls measures the result on pictures that were not used here.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Float32, Layer, Shape, TensorType, Weighted
from edgemeta.model.layers.types import Tensor
from edgemeta.toolchain.quantize.blocks import Block, Core, folded
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.feedback import affordable, feedback_of, windows_of
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.lower import Lowering
from edgemeta.toolchain.quantize.parallel import for_each
from edgemeta.toolchain.quantize.weights import LayerWeights

_RIDGE, _FLOOR = 0.3, 3e-5
"""Of the variance of each input, and of their mean."""
_ROWS = 40_000
"""Windows of a layer that it is fitted to, of all images together."""
_IMAGES = 32
_MOST_BYTES = 1 << 28
"""Of one tensor of all images."""


def images_for_refit(shapes: Iterable[Shape]) -> int:
    """How many images: 32, fewer where their largest tensor would not fit into 256 MiB, at least 4."""
    return max(4, min(_IMAGES, _MOST_BYTES // (4 * max(math.prod(shape) for shape in shapes))))


def refitted(
    builder: Lowering[Folded], weights: LayerWeights, images: PreparedImages, stage: Progress | None = None
) -> LayerWeights:
    """The weights fitted to these images; layers whose covariance is too large keep theirs."""
    fitted, wanted = weights.copy(), affordable(builder.blocks)
    builder = replace(builder, policy=replace(builder.policy, weights=fitted))
    pairs = [_Pair.of(images.real(image), image) for image in images]
    last = {name: i for i, block in enumerate(builder.blocks) for name in block.inputs}
    for number, block in enumerate(builder.blocks):
        if block.name in wanted:
            _fit(builder, block, pairs, fitted)
        gone = [name for name in {*block.inputs, block.name} if last.get(name, number) <= number]
        for_each(_Step(block, builder.layers(block), builder.types, gone).run, pairs)
        if stage is not None:
            stage(number + 1, len(builder.blocks))
    return fitted


@dataclass(frozen=True, eq=False)
class _Pair:
    """The tensors of both networks for one image that later layers read [1, H, W, C], by block."""

    floats: dict[str, Float32]
    integers: dict[str, Tensor]

    @classmethod
    def of(cls, real: Float32, image: Tensor) -> "_Pair":
        return cls({INPUT: real}, {INPUT: image})


def _fit(builder: Lowering[Folded], block: Block, pairs: Sequence[_Pair], fitted: LayerWeights) -> None:
    """Fit one layer, as the module's docstring says."""
    weight, bias = fitted.real(block.name)
    sums = _sums(builder, block, pairs, weight, bias)
    level = np.trace(sums.covariance, axis1=1, axis2=2) / sums.covariance.shape[1]
    if not (np.isfinite(level).all() and (level > 0).all()):
        return
    diagonal = np.diagonal(sums.covariance, axis1=1, axis2=2)
    damping = _RIDGE * diagonal + _FLOOR * level[:, np.newaxis]
    damped = sums.covariance + damping[:, :, np.newaxis] * np.eye(damping.shape[1])
    change = np.linalg.solve(damped, sums.off)  # [groups, K, O / groups]
    rows = change.transpose(0, 2, 1).reshape(len(weight), -1)
    better = (weight.reshape(len(weight), -1) + rows).reshape(weight.shape).astype(np.float32)
    fitted.fit(block.name, better, sums.bias(better), feedback_of(sums.covariance))
    builder.layers(block)  # rounds the weights
    fitted.correct(block.name, sums.bias(fitted.rounded(block.name)))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Of a layer's windows x [K] and float sums y [O], by group.

    covariance: of x [groups, K, K]; off: of x and y - W0 x [groups, K, O / groups]; x [groups, K] and y [O]: means.
    """

    covariance: NDArray[np.float64]
    off: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]

    def bias(self, weight: NDArray[np.floating]) -> NDArray[np.float64]:
        """The bias [O] that makes the means equal, for weights [O, ...]."""
        grouped = weight.reshape(len(self.x), -1, self.x.shape[1]).astype(np.float64)
        found: NDArray[np.float64] = self.y - (grouped @ self.x[:, :, np.newaxis]).reshape(-1)
        return found


def _sums(
    builder: Lowering[Folded], block: Block, pairs: Sequence[_Pair], weight: Float32, bias: NDArray[np.float64]
) -> _Sums:
    core, source = block.core, block.inputs[0]
    assert isinstance(core, Weighted)
    kind = builder.types[source]
    grid, most = builder.grids.get(source) or Grid.of(kind), max(1, _ROWS // len(pairs))
    groups = core.groups
    matrices = weight.reshape(groups, len(weight) // groups, -1).transpose(0, 2, 1)  # [groups, K, O / groups]

    def read(pair: _Pair) -> Float32:
        return windows_of(core, grid.reals(pair.integers[source], kind), most)

    middle = read(pairs[0]).mean(1, keepdims=True)  # subtracted, as squares of great means would hide a variance

    def moments(pair: _Pair) -> tuple[NDArray[np.float64], ...]:
        x = read(pair)
        y = windows_of(core, pair.floats[source], most) @ matrices  # [groups, rows, O / groups]
        off, x = y - x @ matrices, x - middle
        sums = (each.sum(1, dtype=np.float64) for each in (x, off, y))
        columns = x.transpose(0, 2, 1)
        return (columns @ x).astype(np.float64), (columns @ off).astype(np.float64), *sums, np.array(x.shape[1])

    squares, cross, sum_x, sum_off, sum_y, count = (sum(each) for each in zip(*for_each(moments, pairs), strict=True))
    mean_x, mean_off = sum_x / count, sum_off / count
    covariance = squares / count - mean_x[:, :, np.newaxis] * mean_x[:, np.newaxis]
    cross = cross / count - mean_x[:, :, np.newaxis] * mean_off[:, np.newaxis]
    return _Sums(covariance, cross, mean_x + middle[:, 0], (sum_y / count).reshape(-1) + bias)


@dataclass(frozen=True, eq=False)
class _Step:
    """A block of both networks: its integer layers, of which the last has its name, and tensors not needed any more."""

    block: Block
    layers: Sequence[Layer]
    types: Mapping[str, TensorType]
    gone: Sequence[str]

    def run(self, pair: _Pair) -> None:
        """Add the block's outputs for one image."""
        block, local, kinds = self.block, dict(pair.integers), dict(self.types)
        found: Float32 = _float_core(block).reals([pair.floats[name] for name in block.inputs])
        pair.floats[block.name] = found if block.relu is None else block.relu.reals([found])
        for layer in self.layers:
            names = layer.sources
            local[layer.name] = layer.integers([local[name] for name in names], [kinds[name] for name in names])
            kinds[layer.name] = layer.output
        pair.integers[block.name] = local[block.name]
        for name in self.gone:
            del pair.floats[name], pair.integers[name]


def _float_core(block: Block) -> Core:
    """The float layer, with its batch norm folded in."""
    if not isinstance(block.core, Weighted):
        return block.core
    weight, bias = folded(block)
    return replace(block.core, weights=weight, bias=bias)
