"""What TFLite files of integers have beside their operators: zero points, widths, and parts that are not quantized."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.model.layers import Conv
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.integer_network import integer_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.importer.tflite_network import import_tflite
from tests.toolchain.importer.litert import ReferenceKernels, integer_steps
from tests.toolchain.importer.tflite_cases import (
    INPUT_SCALE,
    MAP_SCALE,
    OUT_SCALE,
    RELU,
    RNG,
    SHAPE,
    C,
    H,
    W,
    bias,
    int8_conv,
    int8_dense,
    mean,
    weights,
    written_int8,
)
from tests.toolchain.importer.tflite_writer import Scale, TfliteNet
from tests.toolchain.importer.views import run


def test_a_bias_whose_scales_lie_along_an_axis_that_it_has_not(tmp_path: Path) -> None:
    """TFLite Micro's own files have the weights' axis, 3, there; LiteRT refuses them."""

    def case(n: TfliteNet, x: int, axis: int) -> int:
        weight = weights(n, 1, 3, 3, C, axis=3)
        values = bias(n, weight, MAP_SCALE)
        name, shape, kind, array, scale = n.tensors[values]
        assert scale is not None
        n.tensors[values] = name, shape, kind, array, replace(scale, axis=axis)
        options = {"StrideW": 1, "StrideH": 1, "DepthMultiplier": 1}
        return n("DEPTHWISE_CONV_2D", [x, weight, values], SHAPE, "DepthwiseConv2DOptions", OUT_SCALE, **options)

    path = written_int8(lambda n, x: case(n, x, 3), tmp_path)
    network, imported = import_tflite(path)
    layer = integer_network(network, imported, imported.tensors, path).layers[-1]
    assert isinstance(layer, Conv)
    stored = network.quantization[imported.origins[layer.name].inputs[2]].values
    np.testing.assert_array_equal(layer.bias, stored)


def test_activations_of_16_bits_are_a_float_network(tmp_path: Path) -> None:
    """16x8: int16 activations without zero point, int8 weights, an int64 bias."""
    net, scale, out = TfliteNet(), Scale((0.0001,)), Scale((0.0005,))
    image = net.tensor((1, H, W, 3), "int16", scale)
    weight = weights(net, C, 1, 1, 3)
    known = net.tensors[weight][4]
    assert known is not None
    steps = Scale(tuple(scale.scale[0] * each for each in known.scale))
    shift = net.constant(RNG.integers(-200_000, 200_000, C), steps)
    net("CONV_2D", [image, weight, shift], SHAPE, "Conv2DOptions", out, StrideW=1, StrideH=1)
    path = net.write(tmp_path / "wide.tflite", image, net.operations[-1][2])
    kernels = ReferenceKernels(path)
    assert not kernels.imported.quantized
    assert "16 bits" in kernels.imported.notes[0]
    integers16 = RNG.integers(-32767, 32768, (1, H, W, 3)).astype(np.int16)
    kernels(integers16)
    (name,) = kernels.network.outputs
    found = run(kernels.imported, (integers16 * np.float32(scale.scale[0])).transpose(0, 3, 1, 2))[name]
    steps_off = found / np.float32(out.scale[0]) - kernels.tensor(name)
    assert np.abs(kernels.tensor(name)).max() > 1000
    assert np.abs(steps_off).max() <= 1.01


def written_uint8(path: Path) -> Path:
    """A convolution of pixels whose weights are uint8 from a zero point of 160 on, one channel beyond int8."""
    net, image_scale = TfliteNet(), Scale((1 / 128,), (128,))
    image = net.tensor((1, H, W, 3), "uint8", image_scale)
    stored = RNG.integers(40, 256, (C, 3, 3, 3)).astype(np.uint8)
    stored[2, 1, 1] = 0, 3, 20
    weight = net.constant(stored, Scale((0.004,), (160,)))
    inputs = [image, weight, bias(net, weight, image_scale)]
    net("CONV_2D", inputs, SHAPE, "Conv2DOptions", Scale((0.05,), (121,)), StrideW=1, StrideH=1)
    return net.write(path / "small.tflite", image, net.operations[-1][2])


def test_uint8_weights_are_kept_where_int8_holds_them(tmp_path: Path) -> None:
    path = written_uint8(tmp_path)
    made = ReferenceKernels(path)
    layer = integer_network(made.network, made.imported, made.imported.tensors, path).layers[0]
    assert isinstance(layer, Conv)
    known = made.network.quantization[next(name for name in made.network.constants if name == "t1")]
    assert known.values is not None
    wanted, fits = known.values.astype(int) - 160, np.arange(C) != 2
    np.testing.assert_array_equal(layer.weights.decode()[fits], wanted[fits])
    step = layer.weights.scale[2] / layer.weights.scale[0]
    assert 160 / 128 <= step <= 320 / 128
    assert np.abs(layer.weights.decode()[2] * step - wanted[2]).max() <= step / 2 + 1e-9
    steps = integer_steps(path, RNG.integers(0, 256, (6, H, W, 3)).astype(np.uint8))
    assert steps.layers[2:].sum() <= 0.01 * steps.layers.sum()


@pytest.mark.parametrize(
    ("scale", "zero", "kind", "wanted"),
    [
        (1 / 255, -128, "int8", "--mean 0 --std 255"),
        (2 / 255, -1, "int8", "--mean 127.5 --std 127.5"),
        (1 / 128, 128, "uint8", "--mean 127.5 --std 127.5"),
        (0.0187, -20, "int8", "--mean 108 --std 53.48"),
    ],
)
def test_an_input_of_another_range_names_numbers_that_fit(
    scale: float, zero: int, kind: str, wanted: str, tmp_path: Path
) -> None:
    net, known = TfliteNet(), Scale((scale,), (zero,))
    image = net.tensor((1, H, W, 3), kind, known)
    weight = weights(net, C, 1, 1, 3)
    inputs = [image, weight, bias(net, weight, known)]
    mean(net, net("CONV_2D", inputs, SHAPE, "Conv2DOptions", OUT_SCALE, StrideW=1, StrideH=1), keep=False)
    path, out = net.write(tmp_path / "small.tflite", image, net.operations[-1][2]), tmp_path / "model.safetensors"
    embedding = TaskSettings(task="embedding")
    with pytest.raises(ImportedFileError, match=f"in this range, such as {wanted}$"):
        import_network(path, out, Pixels((0.0,), (1.0,)), embedding)
    centre, deviation = (float(number) for number in re.findall(r"[\d.]+", wanted))
    import_network(path, out, Pixels((centre,), (deviation,)), embedding)


def test_a_file_for_an_accelerator_is_refused_by_that_name(tmp_path: Path) -> None:
    net = TfliteNet()
    image = net.tensor((1, H, W, 3), "int8", INPUT_SCALE)
    net("CUSTOM ethos-u", [image], (1, 5))
    with pytest.raises(ImportedFileError, match=r"is compiled for an accelerator \(custom operator ethos-u\)"):
        import_tflite(net.write(tmp_path / "small.tflite", image, net.operations[-1][2]))


def test_an_int8_file_becomes_a_model_that_runs(tmp_path: Path) -> None:
    path, out = written_int8(int8_dense, tmp_path), tmp_path / "model.safetensors"
    pixels = Pixels((131.0,), (50.0,))  # the input's steps are 1 / 50, its zero point 3
    result = import_network(path, out, pixels, TaskSettings(labels=("a", "b", "c", "d", "e")))
    assert result.path.exists()
    assert result.layers == {"Conv": 1, "Dense": 1}


def test_pixels_that_the_input_cannot_hold_are_refused(tmp_path: Path) -> None:
    path = written_int8(int8_dense, tmp_path)
    with pytest.raises(ImportedFileError, match=r"its input holds -2\.62 to 2\.48, of which pixels by --mean and "):
        import_network(path, tmp_path / "model.safetensors", Pixels())


def test_an_impossible_zero_point_of_the_input_is_refused(tmp_path: Path) -> None:
    net = TfliteNet()
    image = net.tensor((1, H, W, 3), "int8", Scale((0.02,), (13172,)))
    weight = weights(net, C, 1, 1, 3)
    first = [image, weight, bias(net, weight, INPUT_SCALE)]
    net("CONV_2D", first, SHAPE, "Conv2DOptions", MAP_SCALE, StrideW=1, StrideH=1)
    path = net.write(tmp_path / "small.tflite", image, net.operations[-1][2])
    network, imported = import_tflite(path)
    with pytest.raises(ImportedFileError, match=r"cannot be kept: a zero point of 13172, expected -128 \.\. 127"):
        integer_network(network, imported, imported.tensors, path)


def test_a_network_that_is_quantized_in_part_is_refused_by_name(tmp_path: Path) -> None:
    def case(n: TfliteNet, x: int) -> int:
        number = int8_conv(n, x, C)
        n.tensors[number] = (*n.tensors[number][:4], None)
        return n("TANH", [number], SHAPE, None, Scale((1 / 128,), (0,)))

    path = written_int8(case, tmp_path)
    network, imported = import_tflite(path)
    with pytest.raises(ImportedFileError, match=r"cannot be kept: CONV_2D '1 \(.*\)': its result is not quantized"):
        integer_network(network, imported, imported.tensors, path)


def test_an_activation_behind_a_last_layer_without_integers_is_refused(tmp_path: Path) -> None:
    def case(n: TfliteNet, x: int) -> int:
        number = int8_conv(n, x, C, RELU)
        n.tensors[number] = (*n.tensors[number][:4], None)
        return number

    path = written_int8(case, tmp_path)
    network, imported = import_tflite(path)
    with pytest.raises(ImportedFileError, match=r"cannot be kept: CONV_2D '1 \(.*\)': its result is not quantized"):
        integer_network(network, imported, imported.tensors, path)
