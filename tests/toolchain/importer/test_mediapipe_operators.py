"""Custom operators of MediaPipe, beside the operators of TFLite that compute the same."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.importer.self_check import run
from edgemeta.toolchain.importer.tflite_network import import_tflite
from tests.toolchain.importer.tflite_writer import TfliteNet

SAME, VALID = 0, 1
SHAPE = (1, 9, 8, 3)


def written(path: Path, padding: int, shape: tuple[int, ...], stride: int, *, is_custom: bool) -> Path:
    rng, net = np.random.default_rng(38), TfliteNet()
    image = net.tensor(SHAPE)
    weight, shift = (net.constant(rng.normal(size=sides).astype(np.float32)) for sides in ((4, 3, 4, 3), (4,)))
    if is_custom:
        record = struct.pack("<3i", padding + 1, stride, stride)
        net("CUSTOM Convolution2DTransposeBias", [image, weight, shift], shape, record=record)
    else:
        options: dict[str, Any] = {"Padding": padding, "StrideW": stride, "StrideH": stride}
        size = net.constant(np.array(shape, np.int32))
        net("TRANSPOSE_CONV", [size, weight, image, shift], shape, "TransposeConvOptions", **options)
    return net.write(path, image, net.operations[-1][2])


@pytest.mark.parametrize(("padding", "shape", "stride"), [(SAME, (1, 18, 16, 4), 2), (VALID, (1, 27, 25, 4), 3)])
def test_a_transposed_convolution_with_bias_is_that_of_tflite(
    padding: int, shape: tuple[int, ...], stride: int, tmp_path: Path
) -> None:
    image = np.random.default_rng(5).normal(size=(1, 3, 9, 8)).astype(np.float32)
    found = []
    for is_custom in (True, False):
        path = written(tmp_path / f"{is_custom}.tflite", padding, shape, stride, is_custom=is_custom)
        _, imported = import_tflite(path)
        found += run(imported, image).values()
    np.testing.assert_array_equal(*found)
