"""Names of choices."""

import numpy as np

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, GlobalAverage, Relu
from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.quantize.auto import quantize_auto
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.folded import Choice


def test_names_of_choices() -> None:
    assert Choice("mse", "table").text == "table, mse"
    assert Choice("minmax", "multiplier", refitted=True).text == "multiplier, minmax, refitted"


def test_a_channel_that_training_has_switched_off_is_0() -> None:
    """A channel of almost 0 before a depthwise weight of almost 0, with a bias a thousand times as great as both.

    In units of its sums that bias is beyond int32 where the channel has a scale of its own, or was equalized, unless
    the weights have a coarser scale.
    """
    rng = np.random.default_rng(41)
    ahead, apart = rng.normal(0, 0.5, (8, 1, 1, 3)), rng.normal(0, 0.5, (8, 3, 3, 1))
    ahead[3] *= 1e-4
    apart[3] *= 1e-6
    bias, beside = rng.normal(0, 0.1, 8), rng.normal(0, 0.3, 8)
    bias[3], beside[3] = 4.8e-6, -1.8e-4
    layers = (
        Conv("p", "input", weights=ahead.astype(np.float32), bias=bias.astype(np.float32)),
        Conv("d", "p", weights=apart.astype(np.float32), bias=beside.astype(np.float32), groups=8),
        Relu("r", "d"),
        GlobalAverage("g", "r"),
    )
    model = FloatModel("m", (8, 8, 3), layers, ("g",), Embedding(), scale=(255.0, 255.0, 255.0))
    images = PreparedImages(model, ArrayFrames(rng.integers(0, 256, (4, 8, 8, 3)).astype(np.uint8)))
    assert quantize_auto(model, images).agreement.error < 1e-3
