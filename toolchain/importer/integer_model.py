"""From integer layers to a model: how a pixel becomes an input integer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import pixel_table
from edgemeta.model.prove import prove
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import Task
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.integer_network import IntegerNetwork
from edgemeta.toolchain.importer.pixels import IMAGENET, Pixels

_LEAST_LEVELS = 128
"""Input integers that 256 pixel values must give at least; fewer mean that the range of the pixels is another."""
_ALL_LEVELS = 240
"""From so many on the pixels have the whole range of the input."""

_USUAL = ((0.0, 255.0), (127.5, 127.5), (128.0, 128.0), (0.0, 1.0), (128.0, 1.0))
"""Mean and deviation of pixels of 0 to 1, -1 to 1, and as they are, unsigned and signed."""
_STEPS_OFF = 2
"""Steps by which the end of the range may differ."""


def integer_model(
    path: Path, made: IntegerNetwork, pixels: Pixels, task: Task, name: str, provenance: Mapping[str, object]
) -> Model:
    """The model of a network that its file stores in integers. Raises ImportedFileError."""
    model = Model(
        name=name,
        input=made.input,
        layers=made.layers,
        outputs=made.outputs,
        task=task,
        preprocessing=Preprocessing(
            pixels.crop, pixels.colour, _table(path, made.input, pixels), pixels.fill, pixels.align
        ),
        provenance=provenance,
    )
    try:
        prove(model)
    except ModelError as error:
        raise ImportedFileError(f"{path}: the network cannot run in integers: {error}") from None
    return with_self_test(model)


def with_stored_range(pixels: Pixels, kind: TensorType) -> tuple[Pixels, tuple[str, ...]]:
    """Pixels of which the user says no range, with that of the input if it is a usual one; a note if so.

    kind: of the input, whose scale and zero point say what real numbers it holds.
    """
    if _levels(pixel_table(kind, pixels.mean, pixels.deviation)) >= _ALL_LEVELS:
        return pixels, ()
    mean, deviation = _fitting(kind)
    if (mean, deviation) in _USUAL:
        pixels = replace(pixels, mean=(mean,), deviation=(deviation,))
    elif _is_imagenet(kind) and kind.shape[2] == len(IMAGENET[0]) and pixels.colour in ("rgb", "bgr"):
        first, second = (each if pixels.colour == "rgb" else each[::-1] for each in IMAGENET)
        pixels = replace(pixels, mean=first, deviation=second)
    else:
        return pixels, ()
    return pixels, (f"pixels: {_options(pixels.mean, pixels.deviation)}, as the file's input holds {_held(kind)}",)


def _table(path: Path, kind: TensorType, pixels: Pixels) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1 or C, 256]: the input integer of (pixel - mean) / deviation for each channel. Raises ImportedFileError."""
    integers = pixel_table(kind, pixels.mean, pixels.deviation)
    if (levels := _levels(integers)) < _LEAST_LEVELS:
        raise ImportedFileError(
            f"{path}: its input holds {_held(kind)}, of which pixels by --mean and --std use {levels} of "
            f"256 steps: expected (pixel - mean) / std in this range, such as {_suggested(kind)}"
        )
    return integers


def _levels(integers: NDArray[np.int8] | NDArray[np.uint8]) -> int:
    return min(len(np.unique(row)) for row in integers)


def _held(kind: TensorType) -> str:
    least, most = ((bound - kind.zero_point) * kind.scale for bound in (kind.lo, kind.hi))
    return f"{least:.4g} to {most:.4g}"


def _suggested(kind: TensorType) -> str:
    """Options for the range of an input: ImageNet's numbers if that is theirs."""
    if _is_imagenet(kind):
        return _options(*IMAGENET)
    one, other = _fitting(kind)
    return _options((one,), (other,))


def _options(mean: Sequence[float], deviation: Sequence[float]) -> str:
    one, other = (",".join(f"{number:g}" for number in numbers) for numbers in (mean, deviation))
    return f"--mean {one} --std {other}"


def _is_imagenet(kind: TensorType) -> bool:
    """Whether an input holds what pixels become by ImageNet's mean and deviation."""
    mean, deviation = IMAGENET
    usual = (min(-a / b for a, b in zip(mean, deviation, strict=True)), (255 - mean[2]) / deviation[2])
    held = ((bound - kind.zero_point) * kind.scale for bound in (kind.lo, kind.hi))
    return all(abs(a - b) <= _STEPS_OFF * kind.scale for a, b in zip(usual, held, strict=True))


def _fitting(kind: TensorType) -> tuple[float, float]:
    """Mean and deviation that give pixels 0 to 255 the whole range of an input: the usual ones if they are as near.

    Pixel p becomes the integer p + lo where (p - mean) / deviation = scale * (p + lo - zero_point).
    """
    mean, deviation = float(kind.zero_point - kind.lo), 1 / kind.scale
    near = (pair for pair in _USUAL if max(abs(pair[0] - mean), abs(pair[1] - deviation)) <= _STEPS_OFF * pair[1] / 255)
    return next(near, (mean, float(f"{deviation:.4g}")))
