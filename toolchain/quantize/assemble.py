"""Shared by both schemes: input type, preprocessing, and the assembly of the integer model from its layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Layer, TensorType
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.forward import in_order
from edgemeta.toolchain.float_model.graph import FloatModel


def input_type(model: FloatModel) -> TensorType:
    """Exact type of the image tensor: int8 pixel - 128 if the mean is 128, else uint8 with the mean as zero point.

    Raises QuantizeError for a mean that is not a whole number from 0 to 255.
    """
    mean = model.mean
    if mean != int(mean) or not 0 <= mean <= 255:
        raise QuantizeError(
            f"{model.name}: the mean subtracted from pixels is {mean}, expected a whole number 0 .. 255"
        )
    if mean == 128:
        return TensorType(model.input_shape, scale=1.0 / model.scale)
    return TensorType(model.input_shape, signed=False, zero_point=int(mean), scale=1.0 / model.scale)


def preprocessing_of(model: FloatModel) -> Preprocessing:
    """How a frame becomes the image tensor of type `input_type`."""
    pixels = np.arange(256)
    table = (pixels - 128).astype(np.int8) if input_type(model).signed else pixels.astype(np.uint8)
    return Preprocessing(model.crop, model.colour, table.reshape(1, 256), model.fill, model.align)


@dataclass(frozen=True, eq=False)
class ImageInput:
    """What a frame becomes: the image tensor's type, and the preprocessing that makes it."""

    input: TensorType
    preprocessing: Preprocessing


def image_input(model: FloatModel) -> ImageInput:
    """What a frame becomes for the integer network of a float model."""
    return ImageInput(input_type(model), preprocessing_of(model))


def assemble(
    model: FloatModel, layers: Sequence[Layer], outputs: Sequence[str], provenance: Mapping[str, object]
) -> Model:
    """The integer model of `layers`; name, task and preprocessing are the float model's."""
    return Model(
        name=model.name,
        input=input_type(model),
        layers=tuple(layers),
        outputs=tuple(outputs),
        task=model.task,
        preprocessing=preprocessing_of(model),
        provenance=dict(provenance),
    )


def image_integers(model: FloatModel, pixels: NDArray[np.uint8]) -> NDArray[np.int8] | NDArray[np.uint8]:
    """Pixels uint8 [N, H, W, 3] as input of the integer network, of type `input_type`."""
    ordered = in_order(pixels, model.colour)
    if input_type(model).signed:
        return (ordered.astype(np.int16) - 128).astype(np.int8)
    return ordered
