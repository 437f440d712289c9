"""What surrounds the layers: input type, preprocessing, labels."""

from dataclasses import replace
from typing import Any

import numpy as np

from edgemeta.model.file import encode
from edgemeta.model.preprocess import preprocess
from edgemeta.toolchain.float_model.forward import network_input
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.assemble import image_integers
from edgemeta.toolchain.quantize.auto import quantize_auto
from edgemeta.toolchain.quantize.image_type import image_type


def test_mean_128_is_exact_int8(every_layer: FloatModel, pixels: Any) -> None:
    kind = image_type(every_layer)
    assert (kind.signed, kind.zero_point, kind.scale) == (True, 0, 2**-7)
    images = image_integers(every_layer, pixels)
    assert images.dtype == np.int8
    assert (images.astype(int) + 128 == pixels).all()


def test_other_means_become_zero_points(every_layer: FloatModel, pixels: Any, images: Any) -> None:
    model = replace(every_layer, mean=(0.0,), scale=(255.0,))
    integer = quantize_auto(model, images(model)).model
    assert (integer.input.signed, integer.input.zero_point) == (False, 0)
    encode(integer)
    assert integer.task.labels == model.labels
    assert (integer.preprocessing.table[0] == np.arange(256)).all()
    assert (image_integers(model, pixels) == pixels).all()


def test_a_normalization_of_each_channel_is_in_the_preprocessing(
    every_layer: FloatModel, pixels: Any, images: Any
) -> None:
    """The integers of a frame represent what the float network takes, to half a step; no layer is added."""
    normalized = replace(every_layer, mean=(123.675, 116.28, 103.53), scale=(58.395, 57.12, 57.375), colour="bgr")
    integer = quantize_auto(normalized, images(normalized)).model
    plain = quantize_auto(every_layer, images(every_layer)).model
    assert [layer.name for layer in integer.layers] == [layer.name for layer in plain.layers]
    encode(integer)
    kind = integer.input
    for image in pixels[:3]:
        integers = preprocess(image[..., ::-1], kind, integer.preprocessing).astype(np.float64)
        represented = kind.scale * (integers - kind.zero_point)
        assert np.abs(represented - network_input(normalized, image[np.newaxis])[0]).max() <= kind.scale * 0.5001
    np.testing.assert_array_equal(
        preprocess(pixels[0][..., ::-1], kind, integer.preprocessing), image_integers(normalized, pixels[:1])[0]
    )
