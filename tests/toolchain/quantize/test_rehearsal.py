"""A float network that passes its check is quantized, or refused before calibration with the layer's name."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode, encode
from edgemeta.model.float_file import save_float_model
from edgemeta.model.float_reference import all_tensors
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Concat, Conv, Dense, GlobalAverage, Relu
from edgemeta.model.tasks import Classification
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.auto import AutoScheme, quantize_auto
from edgemeta.toolchain.quantize.binary import BinaryScheme, quantize_binary
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibration import Calibration, PreparedImages
from edgemeta.toolchain.quantize.paper import quantize_paper
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.quantize.ranges import Statistics
from edgemeta.toolchain.quantize.rehearsal import rehearse
from edgemeta.toolchain.quantize.scheme import Scheme
from tests.toolchain.quantize.random_floats import random_float_network

LABELS = Classification(("a", "b"))


def images_of(model: FloatModel, seed: int = 1) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (4, *model.input_shape), np.uint8)


def is_moderate(model: FloatModel, pixels: NDArray[np.uint8]) -> bool:
    """Whether no number is beyond what calibration takes: that only images can tell."""
    images = PreparedImages(model, ArrayFrames(pixels, "test"))
    made = [block.after for block in blocks_of(model)]
    tensors = [all_tensors(model, images.real(image)) for image in images]
    return bool(max(np.abs(each[name]).max() for each in tensors for name in made) <= 2.0**50)


def assert_quantized_or_refused(seed: int) -> None:
    model = random_float_network(seed)
    rehearse(model, "random")
    pixels = images_of(model, seed)
    for scheme in (quantize_auto, lambda *given: quantize_binary(*given, 3, 4)):
        images = PreparedImages(model, ArrayFrames(pixels, "test"))
        if is_moderate(model, pixels):
            integer = scheme(model, images).model  # type: ignore[operator]
            assert decode(encode(integer)).outputs == integer.outputs  # stored, read and proved
        else:
            with pytest.raises(QuantizeError, match=r"tensor '\w+' becomes (as great as|infinite)"):
                scheme(model, images)  # type: ignore[operator]
    with suppress(QuantizeError):  # it has no calibration
        decode(encode(quantize_paper(model)))


@pytest.mark.parametrize("seed", range(6))
def test_random_networks(seed: int) -> None:
    assert_quantized_or_refused(seed)


@pytest.mark.gate("60 s: two hundred networks, each under three schemes")
@pytest.mark.parametrize("first", range(100, 300, 25))
def test_many_random_networks(first: int) -> None:
    for seed in range(first, first + 25):
        assert_quantized_or_refused(seed)


def network(*layers: Any, shape: tuple[int, int, int] = (6, 6, 3)) -> FloatModel:
    return FloatModel("net", shape, layers, (layers[-1].name,), LABELS)


def test_padding_that_reaches_the_kernel_is_refused_by_the_check(tmp_path: Path) -> None:
    wide = Conv("wide", "input", weights=np.ones((2, 1, 1, 3), np.float32), padding=(1, 1, 1, 1))
    with pytest.raises(ModelError, match=r"layer 'wide': the padding's rows is 1, expected 0 \.\. 0"):
        save_float_model(network(wide, GlobalAverage("out", "wide")), tmp_path / "net.safetensors")


def dead(bias: float, weight: float) -> FloatModel:
    """A channel that its bias switches off, or whose weights are next to nothing, beside one that lives."""
    weights = np.stack([np.full((3, 3, 3), weight), np.full((3, 3, 3), 0.1)]).astype(np.float32)
    conv = Conv("conv", "input", weights=weights, bias=np.array([bias, 0.5], np.float32), padding=(1, 1, 1, 1))
    return network(conv, Relu("relu", "conv"), Dense("out", "relu", weights=np.ones((2, 72), np.float32)))


@pytest.mark.parametrize("bias", [0.0, -1e3, -1e12, 1e3])
@pytest.mark.parametrize("weight", [0.0, 1e-35, 1e-12, 1.0])
def test_a_channel_that_is_dead_or_nearly(bias: float, weight: float) -> None:
    model = dead(bias, weight)
    images = PreparedImages(model, ArrayFrames(images_of(model), "test"))
    assert quantize_auto(model, images, ("minmax",)).agreement.error < 0.05
    decode(encode(quantize_binary(model, images, 3, 8).model))


def test_sums_of_many_products_stay_in_int32() -> None:
    """A dense layer of 90,000 equal weights of both signs."""
    model = network(Dense("out", "input", weights=np.full((2, 90_000), 0.5, np.float32)), shape=(100, 300, 3))
    model = replace(model, mean=(0.0,), scale=(255.0,))
    images = PreparedImages(model, ArrayFrames(images_of(model), "test"))
    decode(encode(quantize_auto(model, images, ("minmax",)).model))
    decode(encode(quantize_binary(model, images, 2, 8).model))


def test_the_image_joined_to_itself() -> None:
    model = network(Concat("both", ("input", "input")), Dense("out", "both", weights=np.ones((2, 216), np.float32)))
    images = PreparedImages(model, ArrayFrames(images_of(model), "test"))
    decode(encode(quantize_auto(model, images, ("mse",)).model))


def test_numbers_that_are_too_great_are_named() -> None:
    model = network(Dense("out", "input", weights=np.full((2, 108), 1e17, np.float32)))
    with pytest.raises(QuantizeError, match=r"net: tensor 'out' becomes as great as .* expected at most 1\.1259e\+15"):
        Statistics(model, blocks_of(model), PreparedImages(model, ArrayFrames(images_of(model), "test")))


def test_what_no_integer_network_can_have_is_refused_before_calibration(tmp_path: Path) -> None:
    """There are no images at all."""
    layers = GlobalAverage("mean", "input"), Dense("out", "mean", weights=np.ones((2, 3), np.float32))
    save_float_model(network(*layers, shape=(8000, 6000, 3)), tmp_path / "net.safetensors")
    calibration = Calibration(tmp_path / "none")
    schemes: tuple[Scheme, ...] = (AutoScheme(calibration), BinaryScheme(calibration))
    for scheme in schemes:
        with pytest.raises(QuantizeError, match=r"net\.safetensors: (layer 'mean'|the tensors have)"):
            quantize(tmp_path / "net.safetensors", tmp_path / "out", scheme)
