"""What surrounds the layers: input type, preprocessing, labels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model.file import encode
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.assemble import image_integers, input_type
from edgemeta.toolchain.quantize.auto import quantize_auto


def test_mean_128_is_exact_int8(every_layer: FloatModel, pixels: Any) -> None:
    kind = input_type(every_layer)
    assert (kind.signed, kind.zero_point, kind.scale) == (True, 0, 2**-7)
    images = image_integers(every_layer, pixels)
    assert images.dtype == np.int8
    assert (images.astype(int) + 128 == pixels).all()


def test_other_means_become_zero_points(every_layer: FloatModel, pixels: Any, images: Any) -> None:
    model = replace(every_layer, mean=0.0, scale=255.0)
    integer = quantize_auto(model, images(model)).model
    assert (integer.input.signed, integer.input.zero_point) == (False, 0)
    encode(integer)
    assert integer.task.labels == model.labels
    assert (integer.preprocessing.table[0] == np.arange(256)).all()
    assert (image_integers(model, pixels) == pixels).all()
    with pytest.raises(QuantizeError, match="expected a whole number"):
        images(replace(every_layer, mean=127.5))
