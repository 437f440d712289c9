"""From integer layers to a model: how a pixel becomes an input integer."""

from collections.abc import Mapping
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
from edgemeta.toolchain.importer.pixels import Pixels

_LEAST_LEVELS = 128
"""Input integers that 256 pixel values must give at least; fewer mean that the range of the pixels is another."""

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


def _table(path: Path, kind: TensorType, pixels: Pixels) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1 or C, 256]: the input integer of (pixel - mean) / deviation for each channel. Raises ImportedFileError."""
    integers = pixel_table(kind, pixels.mean, pixels.deviation)
    levels = min(len(np.unique(row)) for row in integers)
    if levels < _LEAST_LEVELS:
        least, most = ((bound - kind.zero_point) * kind.scale for bound in (kind.lo, kind.hi))
        mean, deviation = _fitting(kind)
        raise ImportedFileError(
            f"{path}: its input holds {least:.4g} to {most:.4g}, of which pixels by --mean and --std use {levels} of "
            f"256 steps: expected (pixel - mean) / std in this range, such as --mean {mean:g} --std {deviation:g}"
        )
    return integers


def _fitting(kind: TensorType) -> tuple[float, float]:
    """Mean and deviation that give pixels 0 to 255 the whole range of an input: the usual ones if they are as near.

    Pixel p becomes the integer p + lo where (p - mean) / deviation = scale * (p + lo - zero_point).
    """
    mean, deviation = float(kind.zero_point - kind.lo), 1 / kind.scale
    near = (pair for pair in _USUAL if max(abs(pair[0] - mean), abs(pair[1] - deviation)) <= _STEPS_OFF * pair[1] / 255)
    return next(near, (mean, float(f"{deviation:.4g}")))
