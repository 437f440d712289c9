from typing import Any

import numpy as np
import pytest

from edgemeta.model import float_reference as forward
from edgemeta.model import reference
from edgemeta.model.graph import FloatModel
from edgemeta.model.preprocess import look_up
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.binary import measure_real, quantize_binary


def test_both_forms_are_near_each_other_and_near_the_float_network(
    every_layer: FloatModel, images: Any, pixels: Any, classes: Any
) -> None:
    result = quantize_binary(every_layer, images(every_layer), 7, 8)
    floating = forward.logits(every_layer, pixels)
    real = result.real.logits(pixels)
    integers = reference.run(result.model, look_up(result.model.preprocessing.table, pixels))[0]
    integer = integers.reshape(len(pixels), -1) * result.model.steps("out")
    spread = floating.std()
    assert np.abs(real - floating).mean() < 0.1 * spread
    assert np.abs(real - integer).mean() < 0.1 * spread
    data = Dataset(pixels, classes, every_layer.labels)
    measured = measure_real(result.real, result.model, data)
    by_real, by_integer = real.argmax(1), integer.argmax(1)
    assert measured.accuracy == np.mean(by_real == classes)
    assert measured.same_label == np.mean(by_real == by_integer)
    assert measured.changed == np.mean((by_real == classes) != (by_integer == classes))


def test_fine_integers_are_the_real_form(every_layer: FloatModel, images: Any, pixels: Any) -> None:
    """What remains is a sum whose nearest integer changes with the rounding of a factor: none on these images."""
    errors = {}
    for bits in (8, 16):
        result = quantize_binary(every_layer, images(every_layer), 4, 4, integer_bits=bits)
        integers = reference.run(result.model, look_up(result.model.preprocessing.table, pixels))[0]
        real = result.real.logits(pixels)
        off = integers.reshape(len(pixels), -1) * result.model.steps("out") - real
        errors[bits] = float(np.square(off).mean() / np.square(real - real.mean()).mean())
    assert errors[8] > 1e-3
    assert errors[16] < 1e-6


def test_each_layer_has_its_error_and_more_bases_a_smaller_one(every_layer: FloatModel, images: Any) -> None:
    few, more = (quantize_binary(every_layer, images(every_layer), bases, 8).layers for bases in (3, 5))
    assert [each.layer for each in few] == ["c0", "c1", "c2", "n4", "d6", "out"]
    assert sum(each.weights for each in few) == 8 * 27 + 8 * 9 + 8 * 8 + 16 + 12 * 16 + 10 * 12
    for one, other in zip(few, more, strict=True):
        assert one.decibels < other.decibels or one.layer in ("c1", "n4")
        assert abs(one.decibels - one.integer_decibels) < 1.5 or one.layer == "n4"


@pytest.mark.parametrize(("bases", "bits", "named"), [(1, 4, "bases, found 1"), (4, 9, "feature bits, found 9")])
def test_other_numbers_are_refused(every_layer: FloatModel, images: Any, bases: int, bits: int, named: str) -> None:
    with pytest.raises(QuantizeError, match=named):
        quantize_binary(every_layer, images(every_layer), bases, bits)
