"""The integers of pixels: exact where they can be, else the nearest ones, and never more than half a step off."""

from dataclasses import replace

import numpy as np
import pytest

from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.image_type import image_table, image_type


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
