"""The integers of the image: their type, the table that gives them for pixels, and the preprocessing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import FloatModel, Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import pixel_table


def image_type(model: FloatModel) -> TensorType:
    """Type of the image tensor, whose integers represent (pixel - mean) / scale.

    One mean and scale for all channels, the mean from 0 to 255: the integers are the pixels, uint8 with the whole
    number nearest to the mean as zero point, or pixel - 128 as int8 if that is 128. Otherwise int8, with the range of
    all channels and 0 over its 256 steps.
    """
    if _keeps_pixels(model):
        zero, step = _nearest(model.mean[0]), 1.0 / model.scale[0]
        if zero == 128:
            return TensorType(model.input_shape, scale=step)
        return TensorType(model.input_shape, signed=False, zero_point=zero, scale=step)
    mean, scale = np.array(model.mean), np.array(model.scale)
    least, greatest = min(0.0, (-mean / scale).min()), max(0.0, ((255 - mean) / scale).max())
    step = float(greatest - least) / 255
    return TensorType(model.input_shape, zero_point=_nearest(-least / step) - 128, scale=step)


def image_table(model: FloatModel) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1 or C, 256]: the integer of each pixel, of type `image_type`; the nearest one where it is not exact."""
    kind = image_type(model)
    if _keeps_pixels(model):
        pixels = np.arange(256)[np.newaxis]
        return (pixels - 128).astype(np.int8) if kind.signed else pixels.astype(np.uint8)
    return pixel_table(kind, model.mean, model.scale)


def _keeps_pixels(model: FloatModel) -> bool:
    return len({*model.mean}) == len({*model.scale}) == 1 and 0 <= _nearest(model.mean[0]) <= 255


def _nearest(value: float) -> int:
    return int(np.floor(value + 0.5))


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
