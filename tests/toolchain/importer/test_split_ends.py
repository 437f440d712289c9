"""A last convolution of which only some output channels are wanted, with the activation that is fused into it."""

from pathlib import Path

import numpy as np

from edgemeta.model.graph import Model
from edgemeta.toolchain.importer.import_network import import_network
from tests.toolchain.importer.tflite_writer import Scale, TfliteNet

RELU, CELLS, LABELS = 1, 16, 2


def test_the_background_of_an_int8_end_with_an_activation_is_split_off(tmp_path: Path) -> None:
    rng, net = np.random.default_rng(1), TfliteNet()
    source, result = Scale((1 / 127.5,), (0,)), Scale((0.05,), (-128,))
    image, ends = net.tensor((1, 32, 32, 3), "int8", source), []
    for channels in (8, 2 * (LABELS + 1)):
        weight = net.constant(rng.integers(-127, 128, (channels, 8, 8, 3)).astype(np.int8), Scale((0.01,)))
        bias = net.constant(rng.integers(-99, 99, channels).astype(np.int32), Scale((0.01 / 127.5,)))
        options = {"StrideW": 8, "StrideH": 8, "FusedActivationFunction": RELU}
        end = net("CONV_2D", [image, weight, bias], (1, 4, 4, channels), "Conv2DOptions", result, **options)
        shape = net.constant(np.array([1, 2 * CELLS, channels // 2], np.int32))
        ends.append(net("RESHAPE", [end, shape], (1, 2 * CELLS, channels // 2), "ReshapeOptions"))
    places = (np.mgrid[:4, :4].reshape(2, -1).T + 0.5) / 4
    anchors = net.constant(np.array([[*place, side, side] for place in places for side in (0.2, 0.4)], np.float32))
    shapes: list[tuple[int, ...]] = [(1, 10, 4), (1, 10), (1, 10), (1,)]
    operator = "CUSTOM TFLite_Detection_PostProcess"
    first = net(operator, [*ends, anchors], shapes, None, kind="float32", num_classes=LABELS)
    path = net.write(tmp_path / "ssd.tflite", image, [first, first + 1, first + 2, first + 3])
    made = import_network(path, tmp_path / "model.safetensors", {})
    assert isinstance(made.model, Model)
    assert list(made.outputs.values()) == [(4, 4, 8), (4, 4, 2 * LABELS)]
    assert made.layers == {"Conv": 2}
