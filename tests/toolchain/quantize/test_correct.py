"""Bias correction brings the mean of each channel back."""

from dataclasses import replace
from typing import Any

import numpy as np

from edgemeta.model.file import encode
from edgemeta.model.float_reference import all_tensors, network_input
from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.quantize.auto import Prepared
from edgemeta.toolchain.quantize.compare import real
from edgemeta.toolchain.quantize.correct import corrected, images_for_correction
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice
from tests.toolchain.conftest import trace


def test_means_are_restored(every_layer: FloatModel, images: Any, pixels: Any) -> None:
    inputs = images(every_layer)
    prepared = Prepared(every_layer, inputs, Events())
    plain = Choice("minmax", "multiplier", shifts={"c2": np.full(8, 0.3)})  # a bias that is wrong on purpose
    better = corrected(prepared.builder(plain), prepared.statistics.means, inputs)
    assert set(better.shifts) == {"c0", "c1", "c2", "n4", "d6", "out"}
    wanted = all_tensors(every_layer, network_input(every_layer, pixels))["n2"].mean((0, 1, 2))

    def off(choice: Choice) -> float:
        integer = prepared.builder(choice).build()
        encode(integer)
        found = real(integer, "c2", trace(integer, inputs)["c2"])
        return float(np.abs(found.mean((0, 1, 2)) - wanted).mean())

    assert off(plain) > 0.2
    assert off(better) < 0.02


def test_large_networks_are_corrected_with_fewer_images(every_layer: FloatModel, images: Any) -> None:
    integer = Prepared(every_layer, images(every_layer), Events()).builder(Choice("minmax", "multiplier")).build()
    assert images_for_correction(integer) == 256
    assert images_for_correction(replace(integer, layers=integer.layers * 100_000)) == 16
