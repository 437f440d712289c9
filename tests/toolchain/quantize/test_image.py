"""The integers of pixels, exact where they can be, else the nearest ones; and the preprocessing that gives them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.file import encode
from edgemeta.model.float_reference import in_order, network_input
from edgemeta.model.graph import FloatModel
from edgemeta.model.preprocess import look_up, preprocess
from edgemeta.toolchain.quantize.auto import quantize_auto
from edgemeta.toolchain.quantize.image import image_table, image_type


def image_integers(model: FloatModel, pixels: NDArray[np.uint8]) -> NDArray[np.int8] | NDArray[np.uint8]:
    return look_up(image_table(model), in_order(pixels, model.colour))


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


@pytest.mark.parametrize(
    ("mean", "signed", "zero_point"),
    [(0.0, False, 0), (100.0, False, 100), (128.0, True, 0), (255.0, False, 255), (127.5, True, 0), (0.4, False, 0)],
)
def test_one_mean_keeps_every_pixel_apart(every_layer: FloatModel, mean: float, signed: bool, zero_point: int) -> None:
    """A mean that is not whole moves all numbers by the same part of a step, which is at most a half."""
    model = replace(every_layer, mean=(mean,), scale=(64.0,))
    kind, table = image_type(model), image_table(model)
    assert (kind.signed, kind.zero_point, kind.scale) == (signed, zero_point, 1 / 64)
    assert table.shape == (1, 256)
    assert len(np.unique(table)) == 256
    represented = kind.scale * (table.astype(np.float64)[0] - kind.zero_point)
    error = (np.arange(256) - mean) / 64 - represented
    assert np.allclose(error, error[0])
    assert abs(error[0]) <= kind.scale / 2


@pytest.mark.parametrize(
    ("mean", "scale"),
    [
        ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
        ((0.0, 0.0, 0.0), (255.0, 128.0, 64.0)),
        ((-20.0,), (10.0,)),
        ((300.0,), (10.0,)),
        ((127.5,), (127.5, 100.0, 127.5)),
        ((10.0, 20.0, 30.0), (1.0,)),
    ],
)
def test_the_nearest_integers(every_layer: FloatModel, mean: tuple[float, ...], scale: tuple[float, ...]) -> None:
    model = replace(every_layer, mean=mean, scale=scale)
    kind, table = image_type(model), image_table(model)
    assert kind.signed
    real = (np.arange(256)[:, None] - np.array(mean)) / np.array(scale)
    represented = kind.scale * (table.astype(np.float64).T - kind.zero_point)
    assert np.abs(represented - real).max() <= kind.scale * 0.5001
    assert (np.diff(table.astype(int), axis=1) >= 0).all()
    least, most = min(0.0, real.min()), max(0.0, real.max())
    assert kind.scale == pytest.approx((most - least) / 255)
