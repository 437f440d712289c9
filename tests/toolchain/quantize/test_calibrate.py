"""Statistics of float tensors over the calibration images."""

from typing import Any

import numpy as np
import pytest

from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.float_model.forward import all_tensors, network_input
from edgemeta.toolchain.float_model.graph import Conv, FloatModel
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics


def test_ranges_reach_and_means(every_layer: FloatModel, images: Any, pixels: Any) -> None:
    seen: list[tuple[int, int]] = []
    blocks = blocks_of(every_layer)
    statistics = Statistics(every_layer, blocks, images(every_layer), lambda *at: seen.append(at))
    tensors = all_tensors(every_layer, network_input(every_layer, pixels))
    for block in blocks:
        tensor, histogram = tensors[block.after], statistics.histograms[block.after]
        assert histogram.greatest == pytest.approx(max(float(tensor.max()), 0), rel=1e-4)
        assert histogram.least == pytest.approx(min(float(tensor.min()), 0), rel=1e-4)
        np.testing.assert_allclose(statistics.reach[block.after], np.abs(tensor).max((0, 1, 2)), rtol=1e-4)
    for name in ("n0", "c1", "n2", "out"):
        np.testing.assert_allclose(statistics.means[name], tensors[name].mean((0, 1, 2)), rtol=1e-3, atol=1e-4)
    assert seen == [(i, 20) for i in range(1, 21)]


def test_infinite_tensors_are_refused(images: Any) -> None:
    weight = np.full((1, 1, 1, 3), 3e38, np.float32)
    model = FloatModel(
        "m", (32, 32, 3), (Conv("c", "input", weight), Conv("d", "c", weight[..., :1])), ("d",), Embedding()
    )
    with pytest.raises(QuantizeError, match="becomes infinite on the calibration images"), np.errstate(all="ignore"):
        Statistics(model, blocks_of(model), images(model))
