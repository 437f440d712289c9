"""Bias correction brings the mean of each channel back."""

from typing import Any

import numpy as np

from edgemeta.model import reference
from edgemeta.model.file import encode
from edgemeta.toolchain.float_model.forward import all_tensors, network_input
from edgemeta.toolchain.float_model.graph import FloatModel, check
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.choices import Choice, tensor_types
from edgemeta.toolchain.quantize.correct import corrected
from edgemeta.toolchain.quantize.integer_layers import build


def test_means_are_restored(every_layer: FloatModel, pixels: Any) -> None:
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, pixels, {b.after for b in blocks})
    types = tensor_types(every_layer, check(every_layer, "m"), blocks, statistics, "minmax")
    plain = Choice("minmax", "multiplier", shifts={"c2": np.full(8, 0.3)})  # a bias that is wrong on purpose
    better = corrected(every_layer, blocks, types, plain, pixels)
    assert set(better.shifts) == {"c0", "c1", "c2", "n4", "d6", "out"}
    wanted = all_tensors(every_layer, network_input(every_layer, pixels))["n2"].mean((0, 1, 2))

    def off(choice: Choice) -> float:
        integer = build(every_layer, blocks, types, choice)
        encode(integer)
        found = reference.trace(integer, integer.preprocessing.table[0][pixels])["c2"] * types["c2"].scale
        return float(np.abs(found.mean((0, 1, 2)) - wanted).mean())

    assert off(plain) > 0.2
    assert off(better) < 0.02
