from typing import Any

import numpy as np
import pytest

from edgemeta.model.graph import INPUT
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.float_model.shapes import check
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.feature_maps import FeatureMaps, image_of_bits, least_error_type, shifted_type
from edgemeta.toolchain.quantize.ranges import Histogram


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("ends", [(0.0, 5.0), (-3.0, 0.0), (-1.0, 1.3), (0.0, 0.0)])
def test_a_shifted_type_covers_its_range_with_an_exact_zero(bits: int, ends: tuple[float, float]) -> None:
    kind = shifted_type(*ends, (1, 1, 1), bits)
    assert (kind.bits, kind.signed, kind.lo, kind.hi) == (bits, False, 0, 2**bits - 1)
    assert 0 <= kind.zero_point <= kind.hi
    least, greatest = (kind.scale * (each - kind.zero_point) for each in (kind.lo, kind.hi))
    assert least <= ends[0] + kind.scale / 2
    assert greatest >= ends[1] - kind.scale / 2


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_the_chosen_type_has_no_more_error_than_the_whole_range(bits: int) -> None:
    values = np.random.default_rng(1).laplace(0, 1, 20000).astype(np.float32)
    histogram = Histogram()
    histogram.add(values, float(values.min()), float(values.max()))

    def error(kind: Any) -> float:
        integers = np.clip(np.floor(values / kind.scale + 0.5) + kind.zero_point, 0, kind.hi)
        return float(np.square(kind.scale * (integers - kind.zero_point) - values).mean())

    whole = shifted_type(float(values.min()), float(values.max()), (1, 1, 1), bits)
    assert error(least_error_type(histogram, (1, 1, 1), bits)) <= 1.01 * error(whole)


def test_an_image_of_few_bits_takes_the_nearest_integer(every_layer: FloatModel) -> None:
    image = image_of_bits(every_layer, 3)
    real = (np.arange(256) - 128) / 128
    found = image.kind.scale * (image.table[0].astype(np.float64) - image.kind.zero_point)
    assert np.abs(found - real).max() <= image.kind.scale / 2 * 1.2
    assert set(image.table[0]) == set(range(8))
    assert image_of_bits(every_layer, 8).kind.bits == 8


@pytest.mark.parametrize("name", ["every_layer", "imported_layers"])
def test_maps_that_share_a_type_have_one_number_of_bits(name: str, images: Any, request: pytest.FixtureRequest) -> None:
    model: FloatModel = request.getfixturevalue(name)
    blocks = blocks_of(model)
    maps = FeatureMaps(model, check(model, "x"), blocks, Statistics(model, blocks, images(model)))
    assert set(maps.of_layer) == {block.name for block in blocks if block.has_weights} == set(maps.sizes)
    assert INPUT in maps.names
    types = maps.types(dict.fromkeys(maps.names, 3))
    for block in blocks:
        if block.has_weights:
            assert types[block.inputs[0]].bits == 3
        assert types[block.name].bits == (3 if maps.is_read(block.name) else 8)
