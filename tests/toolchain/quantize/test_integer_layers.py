"""The layers of every combination of choices agree with the float network."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model import layers as q
from edgemeta.model import reference
from edgemeta.model.file import encode
from edgemeta.toolchain.float_model.forward import all_tensors, logits, network_input
from edgemeta.toolchain.float_model.graph import FloatModel, check
from edgemeta.toolchain.quantize.auto import measure
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.choices import Choice, tensor_types
from edgemeta.toolchain.quantize.integer_layers import build


@pytest.mark.parametrize("form", ["multiplier", "table"])
@pytest.mark.parametrize("clip", ["minmax", "percentile", "mse"])
def test_every_choice_is_near_the_float_network(every_layer: FloatModel, pixels: Any, form: Any, clip: Any) -> None:
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, pixels, {b.after for b in blocks})
    types = tensor_types(every_layer, check(every_layer, "m"), blocks, statistics, clip)
    integer = build(every_layer, blocks, types, Choice(clip, form))
    encode(integer)
    assert measure(integer, integer.preprocessing.table[0][pixels], logits(every_layer, pixels), "x").error < 0.01


def test_every_tensor_is_near_its_float_tensor(every_layer: FloatModel, pixels: Any) -> None:
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, pixels, {b.after for b in blocks})
    types = tensor_types(every_layer, check(every_layer, "m"), blocks, statistics, "minmax")
    integer = build(every_layer, blocks, types, Choice("minmax", "multiplier"))
    found = reference.trace(integer, integer.preprocessing.table[0][pixels])
    wanted = all_tensors(every_layer, network_input(every_layer, pixels))
    for block in blocks[:-1]:
        kind = types[block.name]
        off = np.abs(found[block.name] * kind.scale - wanted[block.after])
        assert off.mean() < 3 * kind.scale, block.name


def test_clamps_from_above_and_below(every_layer: FloatModel, pixels: Any) -> None:
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, pixels, {b.after for b in blocks})
    statistics.greatest["r0"] = 12.0
    types = tensor_types(every_layer, check(every_layer, "m"), blocks, statistics, "minmax")
    for form in ("multiplier", "table"):
        first = build(every_layer, blocks, types, Choice("minmax", form)).layers[0]  # type: ignore[arg-type]
        assert isinstance(first, q.Conv)
        if isinstance(first.requantize, q.ShiftTable):
            assert (first.requantize.table.min(), first.requantize.table.max()) == (0, 128)
        else:
            assert isinstance(first.requantize, q.Multiplier)
            assert (first.requantize.lo, first.requantize.hi) == (0, 128)
