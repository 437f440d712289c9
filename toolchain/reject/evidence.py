"""The evidence that an image shows something known: further outputs, learned from known and from foreign images.

The mean of each channel is taken over the last maps of each of three sizes, as a network looks at texture, parts and
things one after the other. One dense layer for each size weighs its means; the sum of their integers is the evidence.
All of it is layers of the model format, so the reference defines it and every backend gives the same integers. The
other layers, and the logits, stay as they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.layers import AveragePool, Dense, Layer, TensorType
from edgemeta.model.tasks import Classification, Rejection
from edgemeta.model.weights import FixedWeights
from edgemeta.plugins.api import Batch
from edgemeta.tasks.numbers import Float64
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.run import integer_session, needed
from edgemeta.toolchain.quantize.scales import multiplier_for

STAGES = 3
"""Sizes of maps that are looked at, the last ones of the network."""
_GREATEST = 127
"""Greatest weight of a dense layer."""

Features = NDArray[np.float64]
"""Means [N, C] of N images, of all stages one after the other, as the integers that they are."""

RIDGE = 1e-3
"""Weight of the squared coefficients of standardized features: keeps them finite where classes can be separated."""
SPREAD = 0.5
"""Least standard deviation by which a feature is divided: those that hardly change keep small coefficients."""
_STEPS, _ENOUGH = 50, 1e-6


def without_rejection(model: Model) -> Model:
    """The model with the logits as its only output, no rule, and no layers that only a rule needed."""
    assert isinstance(model.task, Classification)
    plain = needed(model, model.outputs[:1])
    return replace(plain, task=replace(model.task, rejection=None), self_test=None)


def with_means(model: Model, images: Iterable[Batch]) -> Model:
    """The network of `without_rejection` with a mean for each stage, which are outputs after the logits.

    images: batches of known images, whose greatest mean determines the scale of each stage's means. Raises
    QuantizeError for a network without maps of 8 bits.
    """
    stages = _stages(model)
    greatest = dict.fromkeys((stage.name for stage in stages), 0.0)
    with closing(integer_session(needed(model, greatest))) as session:
        for batch in images:
            for stage, output in zip(stages, session.run(batch), strict=True):
                means = output.mean(axis=(1, 2), dtype=np.float64) - stage.output.zero_point
                greatest[stage.name] = max(greatest[stage.name], float(np.abs(means).max()))
    pools = tuple(_mean(stage, greatest[stage.name] or 1.0) for stage in stages)
    names = tuple(pool.name for pool in pools)
    return replace(model, layers=(*model.layers, *pools), outputs=(*model.outputs, *names), self_test=None)


def features(model: Model, images: Iterable[Batch]) -> Iterator[NDArray[Any]]:
    """The means [N, C] of each batch, for a network of `with_means`."""
    with closing(integer_session(needed(model, model.outputs[1:]))) as session:
        for batch in images:
            yield np.concatenate([output.reshape(len(output), -1) for output in session.run(batch)], axis=1)


def with_evidence(model: Model, known: Features, foreign: Sequence[Features]) -> Model:
    """A network of `with_means` with logits and evidence as outputs; its rule rejects nothing yet.

    known: means of known images. foreign: of the kinds of foreign images, each of which counts alike. Raises
    QuantizeError if nothing tells them apart.
    """
    task = model.task
    assert isinstance(task, Classification)
    row = fit_row(known, foreign)
    unit = float(np.abs(row).max()) / _GREATEST
    if unit == 0:
        raise QuantizeError(f"{model.name}: known and foreign images give the same means, nothing tells them apart")
    sums: list[Dense] = []
    begin = 0
    for name, kind in zip(model.outputs[1:], model.output_types[1:], strict=True):
        end = begin + kind.shape[2]
        weights = np.round(row[begin:end] / unit).astype(np.int8)[np.newaxis]
        output = TensorType((1, 1, 1), bits=32, scale=unit)
        fixed = FixedWeights(weights, 8, np.array([unit / kind.scale]))
        sums.append(Dense(name.replace(_MEAN, _EVIDENCE), name, output, weights=fixed))
        begin = end
    names = tuple(layer.name for layer in sums)
    least = sum(layer.output.lo for layer in sums)
    return replace(
        model,
        layers=(*model.layers, *sums),
        outputs=(model.outputs[0], *names),
        task=replace(task, rejection=Rejection(least, names)),
    )


_MEAN, _EVIDENCE = "_mean", "_evidence"
"""Endings of the new layers' names, after that of the stage."""


def _stages(model: Model) -> list[Layer]:
    """The last layer of each of the last sizes of maps."""
    sizes: dict[tuple[int, int], Layer] = {}
    for layer in model.layers:
        height, width, _ = layer.output.shape
        if height * width > 1 and layer.output.bits <= 8:
            sizes.pop((height, width), None)
            sizes[height, width] = layer
    if not sizes:
        raise QuantizeError(f"{model.name}: has no maps, whose means would tell known from foreign images")
    return list(sizes.values())[-STAGES:]


def _mean(stage: Layer, greatest: float) -> AveragePool:
    """The mean of each channel of a stage, at the scale at which the greatest, in steps of the stage, just fits."""
    height, width, channels = stage.output.shape
    signed = stage.output.signed or stage.output.zero_point != 0
    ratio = greatest / (127 if signed else 255)
    output = TensorType((1, 1, channels), signed=signed, scale=stage.output.scale * ratio)
    name = f"{stage.name}{_MEAN}"
    requantize = multiplier_for(np.array([1 / (ratio * height * width)]), output.lo, output.hi, name)
    return AveragePool(name, stage.name, output, kernel=(height, width), stride=(1, 1), requantize=requantize)


def fit_row(known: Float64, foreign: Sequence[Float64]) -> Float64:
    """Coefficients [C] of the logarithm of the odds that an image is known, but for a constant, from features [N, C].

    Known and foreign images weigh alike, and so does each kind of foreign images. Features are standardized by the
    known images' mean and standard deviation; the result applies to the features as they are.
    """
    mean, spread = known.mean(0), np.maximum(known.std(0), SPREAD)
    x = np.concatenate([(each - mean) / spread for each in (known, *foreign)])
    x = np.column_stack([x, np.ones(len(x))])
    is_known = np.repeat([1.0, 0.0], [len(known), len(x) - len(known)])
    weight = np.concatenate([_shares(known, 2), *(_shares(each, 2 * len(foreign)) for each in foreign)])
    ridge = np.append(np.full(x.shape[1] - 1, RIDGE), 0.0)
    b = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        odds = 1 / (1 + np.exp(-np.clip(x @ b, -40, 40)))
        slope = x.T @ (weight * (odds - is_known)) + ridge * b
        curvature = (x * (weight * odds * (1 - odds))[:, np.newaxis]).T @ x + np.diag(ridge + 1e-12)
        step = np.linalg.solve(curvature, slope)
        b -= step
        if np.abs(step).max() < _ENOUGH:
            break
    row: Float64 = b[:-1] / spread
    return row


def _shares(images: Float64, parts: int) -> Float64:
    """The weight of each image of a group that has 1 / parts of all weight."""
    return np.full(len(images), 1 / (parts * len(images)))
