"""Refit: weights and biases are fitted to the float network's sums on the integers that each layer really reads.

Layer after layer, with the tensors of both networks side by side: x are the real numbers of the integer network's input
windows, y the float layer's sums. The weights W become those of least squares with a ridge towards the float ones W0,

    W = W0 + cov(y - W0 x, x) (cov(x, x) + D)^-1,  D = (ridge + few (K / n - 1/8)) diag(cov(x, x)) + a floor,

for n < 8 K windows of K elements (a layer of 7x7 positions has few: it would learn these images by heart), are rounded
with error feedback for the same covariance (`feedback.py`), and the bias makes the means equal. So a layer undoes what
it can of the errors of the layers before it. Pictures of one camera would teach it the error of a background that never
moves: who calls measures the result on pictures that were not used here.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Float32, Shape, Weighted
from edgemeta.model.layers.types import Tensor
from edgemeta.toolchain.quantize.blocks import Block, Core, folded, rounded_to, with_numbers
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.feedback import affordable, chosen_of, feedback_of, windows_of
from edgemeta.toolchain.quantize.folded import Folded
from edgemeta.toolchain.quantize.lower import Lowering, assemble
from edgemeta.toolchain.quantize.parallel import for_each, in_order, processors
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.weights import LayerWeights

_RIDGE, _FEW, _FLOOR = 1.0, 30.0, 3e-5
"""Of the variance of each input; of it, times what K / n is above _ENOUGH; of the mean variance."""
_ENOUGH = 1 / 8
_FEW_ROUNDED = 4.0
"""As _FEW, of what is added to the covariance that error feedback takes."""
_ROWS, _ROWS_FOR_EACH = (8192, 40_000), 64
"""Windows of a layer that it is fitted to, of all images together: 64 for each element of one, within bounds."""
_TOGETHER, _SMALL = 4096, 128
"""Windows that one product adds of images with fewer positions than the latter."""
_IMAGES = 32
_MOST_BYTES = 1 << 28
"""Of one tensor of all images."""


def images_for_refit(shapes: Iterable[Shape]) -> int:
    """How many images: 32, fewer where their largest tensor would not fit into 256 MiB, at least 4."""
    return max(4, min(_IMAGES, _MOST_BYTES // (4 * max(math.prod(shape) for shape in shapes))))


def refitted(
    builders: Sequence[Lowering[Folded]], weights: LayerWeights, images: PreparedImages, stage: Progress | None = None
) -> list[LayerWeights]:
    """The weights fitted to these images for the types of each builder; the float network runs once for all of them.

    Layers whose covariance is too large keep their weights.
    """
    blocks = builders[0].blocks
    wanted, last = affordable(blocks), {name: i for i, block in enumerate(blocks) for name in block.inputs}
    threads = max(1, processors() // len(builders))
    every = [_Fitting.of(builder, weights, images, threads) for builder in builders]
    floats = {INPUT: [images.real(image) for image in images]}
    for number, block in enumerate(blocks):
        gone = [name for name in {*block.inputs, block.name} if last.get(name, number) <= number]
        sums = _run_float(block, floats)
        advance = partial(_advance, block=block, sums=sums if block.name in wanted else None, gone=gone)
        for_each(advance, every, len(every))
        for name in gone:
            del floats[name]
        if stage is not None:
            stage(number + 1, len(blocks))
    return [each.weights for each in every]


def _advance(network: "_Fitting", block: Block, sums: Sequence[Float32] | None, gone: Iterable[str]) -> None:
    """Fit a block to its float sums for each image, if they are given, run it, and forget what has gone."""
    if sums is not None:
        _fit(network, block, sums)
    network.run(block)
    for name in gone:
        del network.tensors[name]


def _run_float(block: Block, floats: dict[str, list[Float32]]) -> list[Float32]:
    """Add the block's output for each image [1, H, W, C]; returned is what it is without its ReLU."""
    inputs = list(zip(*(floats[name] for name in block.inputs), strict=True))
    sums: list[Float32] = for_each(_float_core(block).reals, inputs)
    relu = block.relu
    floats[block.name] = sums if relu is None else for_each(lambda each: relu.reals([each]), sums)
    return sums


@dataclass(frozen=True, eq=False)
class _Fitting:
    """An integer network whose weights are fitted. tensors: those that later layers read [N, H, W, C], by block.

    threads: that it may use beside the other networks.
    """

    builder: Lowering[Folded]
    weights: LayerWeights
    tensors: dict[str, Tensor]
    threads: int

    @classmethod
    def of(cls, builder: Lowering[Folded], weights: LayerWeights, images: PreparedImages, threads: int) -> "_Fitting":
        own = weights.copy()
        builder = replace(builder, policy=replace(builder.policy, weights=own))
        return cls(builder, own, {INPUT: np.concatenate(list(images))}, threads)

    def run(self, block: Block) -> None:
        """Add the block's output, which is that of the last of its layers."""
        layers, types = self.builder.layers(block), self.builder.types
        if len(block.inputs) == 1:
            (source,), before = block.inputs, INPUT
            for place, layer in enumerate(layers):
                layers[place], before = layer.renamed(layer.name, [before]), layer.name
            alone = replace(assemble(self.builder.model, layers, [before], {}), input=types[source])
            with closing(integer_session(alone, compared=0, threads=self.threads)) as session:
                (self.tensors[block.name],) = session.run(self.tensors[source])
            return

        def run(number: int) -> Tensor:
            local = {name: self.tensors[name][number : number + 1] for name in block.inputs}
            kinds = dict(types)
            for layer in layers:
                names = layer.sources
                local[layer.name] = layer.integers([local[name] for name in names], [kinds[name] for name in names])
                kinds[layer.name] = layer.output
            return local[block.name]

        self.tensors[block.name] = np.concatenate(
            for_each(run, range(len(self.tensors[block.inputs[0]])), self.threads)
        )


def _fit(network: _Fitting, block: Block, wanted: Sequence[Float32]) -> None:
    """Fit one layer, as the module's docstring says. wanted: its float sums for each image."""
    fitted = network.weights
    weight, _ = fitted.real(block.name)
    sums = _sums(network, block, wanted)
    if rounded_to(weight) is not None:  # other weights would be rounded once more
        network.builder.layers(block)
        fitted.correct(block.name, sums.bias(fitted.rounded(block.name)))
        return
    level = np.trace(sums.covariance, axis1=1, axis2=2) / sums.covariance.shape[1]
    if not (np.isfinite(level).all() and (level > 0).all()):
        return
    diagonal = np.diagonal(sums.covariance, axis1=1, axis2=2)
    few = max(0.0, diagonal.shape[1] / sums.count - _ENOUGH)
    damping = (_RIDGE + _FEW * few) * diagonal + _FLOOR * level[:, np.newaxis]
    unit = np.eye(damping.shape[1])
    damped = sums.covariance + damping[:, :, np.newaxis] * unit
    matrices = weight.reshape(len(level), -1, diagonal.shape[1]).astype(np.float64).transpose(0, 2, 1)
    change = np.linalg.solve(damped, sums.cross - sums.covariance @ matrices)  # [groups, K, O / groups]
    better = (matrices + change).transpose(0, 2, 1).reshape(weight.shape).astype(np.float32)
    feedback = feedback_of(sums.covariance + _FEW_ROUNDED * few * diagonal[:, :, np.newaxis] * unit)
    fitted.fit(block.name, better, sums.bias(better), feedback)
    network.builder.layers(block)  # rounds the weights
    fitted.correct(block.name, sums.bias(fitted.rounded(block.name)))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Of a layer's windows x [K] and float sums y [O], by group.

    covariance: of x [groups, K, K]; cross: of x and y [groups, K, O / groups]; x [groups, K] and y [O]: means. count:
    number of windows.
    """

    covariance: NDArray[np.float64]
    cross: NDArray[np.float64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    count: int

    def bias(self, weight: NDArray[np.floating]) -> NDArray[np.float64]:
        """The bias [O] that makes the means equal, for weights [O, ...]."""
        grouped = weight.reshape(len(self.x), -1, self.x.shape[1]).astype(np.float64)
        found: NDArray[np.float64] = self.y - (grouped @ self.x[:, :, np.newaxis]).reshape(-1)
        return found


def _sums(network: _Fitting, block: Block, wanted: Sequence[Float32]) -> _Sums:
    """The moments of steps, which are whole numbers, then of what a step is worth: one number, or one a group."""
    core, source, builder = block.core, block.inputs[0], network.builder
    assert isinstance(core, Weighted)
    integers = network.tensors[source]
    kind, size = builder.types[source], math.prod(core.weights.shape[1:])
    grid = builder.source_grid(block) or Grid.of(kind)
    most = max(1, min(max(_ROWS_FOR_EACH * size, _ROWS[0]), _ROWS[1]) // len(wanted))

    positions = wanted[0].size // wanted[0].shape[3]
    together = _TOGETHER // positions if positions < _SMALL else 1
    pieces = [slice(first, first + together) for first in range(0, len(wanted), together)]

    def rows(piece: slice) -> tuple[Float32, Float32]:
        """About `most` of each image: x [groups, rows, K] and y [groups, rows, O / groups]."""
        several = wanted[piece]
        x = windows_of(core, integers[piece], most * len(several), kind.zero_point).astype(np.float32)
        x -= np.float32(kind.zero_point)
        y = (several[0] if len(several) == 1 else np.concatenate(several)).reshape(-1, wanted[0].shape[3])
        chosen = y[chosen_of(len(y), most * len(several))]
        return x, chosen.reshape(len(chosen), core.groups, -1).transpose(1, 0, 2)

    middles = [each.mean(1, keepdims=True) for each in rows(pieces[0])]  # squares of means would hide a variance

    def moments(piece: slice) -> tuple[NDArray[Any], ...]:
        x, y = (each - middle for each, middle in zip(rows(piece), middles, strict=True))
        columns = x.transpose(0, 2, 1)
        return columns @ x, columns @ y, *(each.sum(1, dtype=np.float64) for each in (x, y)), np.array(x.shape[1])

    parts = in_order(moments, pieces, network.threads)
    sums = tuple(each.astype(np.float64) for each in next(parts))
    for part in parts:
        for total, each in zip(sums, part, strict=True):
            total += each
    squares, cross, sum_x, sum_y, count = sums
    mean_x, mean_y, step = sum_x / count, sum_y / count, grid.step[:, np.newaxis]
    covariance = squares / count - mean_x[:, :, np.newaxis] * mean_x[:, np.newaxis]
    cross = cross / count - mean_x[:, :, np.newaxis] * mean_y[:, np.newaxis]
    middle_x, middle_y = (middle[:, 0] for middle in middles)
    return _Sums(
        covariance * np.square(step)[:, :, np.newaxis],
        cross * step[:, :, np.newaxis],
        (mean_x + middle_x) * step,
        (mean_y + middle_y).reshape(-1),
        int(count),
    )


def _float_core(block: Block) -> Core:
    """The float layer, with its batch norm folded in."""
    if not isinstance(block.core, Weighted):
        return block.core
    return with_numbers(block, *folded(block))
