"""Shared by both schemes: preprocessing, and the assembly of the integer model from its layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Layer, TensorType
from edgemeta.model.preprocess import look_up
from edgemeta.toolchain.float_model.forward import in_order
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.image_type import image_table, image_type


def preprocessing_of(model: FloatModel) -> Preprocessing:
    """How a frame becomes the image tensor of type `image_type`."""
    return Preprocessing(model.crop, model.colour, image_table(model), model.fill, model.align)


@dataclass(frozen=True, eq=False)
class ImageInput:
    """What a frame becomes: the image tensor's type, and the preprocessing that makes it."""

    input: TensorType
    preprocessing: Preprocessing


def image_input(model: FloatModel) -> ImageInput:
    """What a frame becomes for the integer network of a float model."""
    return ImageInput(image_type(model), preprocessing_of(model))


def assemble(
    model: FloatModel, layers: Sequence[Layer], outputs: Sequence[str], provenance: Mapping[str, object]
) -> Model:
    """The integer model of `layers`; name, task and preprocessing are the float model's."""
    return Model(
        name=model.name,
        input=image_type(model),
        layers=tuple(layers),
        outputs=tuple(outputs),
        task=model.task,
        preprocessing=preprocessing_of(model),
        provenance=dict(provenance),
    )


def image_integers(model: FloatModel, pixels: NDArray[np.uint8]) -> NDArray[np.int8] | NDArray[np.uint8]:
    """Pixels uint8 [N, H, W, 3] as input of the integer network, of type `image_type`."""
    return look_up(image_table(model), in_order(pixels, model.colour))
