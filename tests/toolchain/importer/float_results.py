"""What a float network says about an image, by the same readers as an integer network's outputs."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import FloatModel, Model, Preprocessing
from edgemeta.model.layers import Clamp, Float32, TensorType
from edgemeta.model.prove_float import prove_float
from edgemeta.tasks.results import Result, reader

STEP = 2.0**-20
"""Numbers are read as int32 in these steps, limited to -2,048 .. 2,048."""


def float_reader(model: FloatModel, top: int = 5) -> Callable[[Mapping[str, Float32]], Result]:
    """Gives the result of one image from the network's tensors by name, each [1, H, W, C] or [H, W, C].

    top: how many labels of a classification.
    """
    read = reader(stand_in(model), top)
    return lambda tensors: read(as_integers(model, tensors))


def stand_in(model: FloatModel) -> Model:
    """A model without arithmetic that has the outputs of a float network, as int32 in steps of STEP, and its task."""
    shapes = prove_float(model, model.name)
    layers = tuple(Clamp(name, "input", TensorType(shapes[name], 32, scale=STEP), 0, 0) for name in model.outputs)
    preprocessing = Preprocessing(model.crop, model.colour, np.zeros((1, 256), np.uint8), model.fill, model.align)
    return Model(
        model.name, TensorType(model.input_shape, signed=False), layers, model.outputs, model.task, preprocessing
    )


def as_integers(model: FloatModel, tensors: Mapping[str, Float32]) -> tuple[NDArray[np.int32], ...]:
    """The outputs [H, W, C] of one image as those of `stand_in`."""
    return tuple(_integers(tensors[name].reshape(tensors[name].shape[-3:])) for name in model.outputs)


def _integers(values: Float32) -> NDArray[np.int32]:
    limit = 2.0**31 - 1
    return np.clip(np.rint(values.astype(np.float64) / STEP), -limit, limit).astype(np.int32)
