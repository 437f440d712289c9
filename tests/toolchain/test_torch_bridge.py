"""Networks that nobody here made, in PyTorch: the same values, the same bytes when written again, the same integers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.topologies import write_topology
from edgemeta.model import reference
from edgemeta.model.float_file import load_float_model, save_float_model
from edgemeta.model.float_reference import outputs
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import (
    Add,
    AveragePool,
    ChannelShuffle,
    Concat,
    Conv,
    Coordinates,
    Dense,
    FloatLayer,
    Function,
    GlobalAverage,
    MaxPool,
    Pad,
    Product,
    Relu,
    ResizeBilinear,
    Slice,
    Upsample,
    real,
)
from edgemeta.model.layers.functions import FUNCTIONS
from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.torch_network import IntegerNetwork, TorchNetwork  # noqa: E402

RNG = np.random.default_rng(3)
YOLOX = Pixels(colour="bgr", crop="letterbox", align="corner", fill=(114,))
SHAPE = (9, 11, 6)


def weights(*shape: int) -> Any:
    return RNG.normal(0, 0.3, shape).astype(np.float32)


def assert_equal_reals(model: FloatModel, x: Any) -> None:
    network = TorchNetwork(model).eval()
    with torch.no_grad():
        found = network.values(torch.from_numpy(x).permute(0, 3, 1, 2), network.outputs)
    for one, other in zip(found, outputs(model, x), strict=True):
        wanted = other.transpose(0, 3, 1, 2)
        np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-3, atol=2e-5 * max(1.0, np.abs(wanted).max()))


RESIZES: tuple[Coordinates, ...] = ("half_pixel", "align_corners", "asymmetric")
LAYERS: list[FloatLayer] = [
    Conv("y", "input", weights=weights(4, 3, 2, 6), bias=weights(4), stride=(2, 1), padding=(1, 0, 0, 1)),
    Conv("y", "input", weights=weights(6, 3, 3, 1), bias=None, stride=(2, 2), padding=(0, 0, 1, 1), groups=6),
    Conv("y", "input", weights=weights(4, 1, 1, 6), bias=None, stride=(2, 2)),
    Conv(
        "y",
        "input",
        weights=weights(4, 3, 3, 3),
        bias=weights(4),
        stride=(1, 1),
        padding=(2, 2, 2, 2),
        groups=2,
        dilation=(2, 2),
    ),
    Dense("y", "input", weights=weights(5, 9 * 11 * 6), bias=weights(5)),
    Relu("y", "input", 0.4),
    MaxPool("y", "input", kernel=(3, 2), stride=(2, 2), padding=(1, 0, 2, 1)),
    AveragePool("y", "input", kernel=(3, 2), stride=(2, 1), padding=(1, 0, 2, 1)),
    AveragePool("y", "input", kernel=(3, 2), stride=(2, 1), padding=(1, 0, 2, 1), inside=True),
    GlobalAverage("y", "input"),
    Concat("y", ("input", "input")),
    Upsample("y", "input", factor=(3, 2)),
    Product("y", ("input", "input")),
    Add("y", ("input", "input")),
    Pad("y", "input", padding=(1, 2, 3, 0), spacing=(2, 3)),
    Slice("y", "input", start=(1, 0, 2), stop=(9, 10, 6), step=(2, 3, 2)),
    ChannelShuffle("y", "input", groups=3),
    *(ResizeBilinear("y", "input", real(14, 7), coordinates=each) for each in RESIZES),
    *(Function("y", "input", each, 0.2, 0.5) for each in FUNCTIONS),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_every_layer_gives_the_values_of_the_float_graph(layer: FloatLayer) -> None:
    model = FloatModel("one", SHAPE, (layer,), ("y",), Embedding(), colour="rgbrgb")
    assert_equal_reals(model, np.random.default_rng(1).normal(0, 1, (2, *SHAPE)).astype(np.float32))


def test_names_that_a_module_cannot_have() -> None:
    """Dots, methods of a module, and two names that would become one."""
    names = ("a.b", "a/b", "train", "half", "size")
    layers = tuple(Conv(name, "input", weights=weights(1, 1, 1, 3)) for name in names)
    model = FloatModel("names", (4, 4, 3), (*layers, Concat("x", names), GlobalAverage("y", "x")), ("y",), Embedding())
    assert_equal_reals(model, np.ones((1, 4, 4, 3), np.float32))
    again = TorchNetwork(model).train().written()
    assert [layer.name for layer in again.layers] == [*names, "x", "y"]


def test_pixels_become_the_networks_own_input() -> None:
    """In B, G, R order, less a mean, divided by a deviation, of each channel."""
    model = FloatModel("in", (4, 4, 3), (Relu("y", "input"),), ("y",), Embedding(), (3, 9, 27), (2, 4, 8), colour="bgr")
    pixels = np.random.default_rng(2).integers(0, 256, (2, 4, 4, 3))
    x = torch.from_numpy((pixels.transpose(0, 3, 1, 2) - 128.0) / 128.0).float()
    wanted = (pixels[..., ::-1] - np.array([3, 9, 27])) / np.array([2, 4, 8])
    np.testing.assert_array_equal(TorchNetwork(model).own_input(x).permute(0, 2, 3, 1).numpy(), wanted)


def imported(path: Path, folder: Path, pixels: Pixels, **settings: Any) -> Any:
    return import_network(path, folder / "imported.safetensors", pixels, TaskSettings(**settings)).model


def assert_same_bytes(model: FloatModel, folder: Path) -> None:
    first, second = folder / "first.safetensors", folder / "second.safetensors"
    save_float_model(model, first)
    save_float_model(TorchNetwork(load_float_model(first)).written(), second)
    assert first.read_bytes() == second.read_bytes()


def picture(model: FloatModel | Model, count: int = 1) -> Any:
    """Pixels of a picture, smooth and noisy, as the input of the network."""
    shape = model.input_shape if isinstance(model, FloatModel) else model.input.shape
    rng = np.random.default_rng(5)
    waves = 100 * np.sin(np.linspace(0, 9, shape[0]))[:, None, None] + 128 + rng.normal(0, 20, (count, *shape))
    pixels = np.clip(waves, 0, 255)
    if isinstance(model, FloatModel):
        return ((pixels - np.array(model.mean)) / np.array(model.scale)).astype(np.float32)
    return (pixels.astype(np.int64) + (-128 if model.input.signed else 0)).astype(model.input.dtype)


def assert_equal_integers(model: Model, count: int) -> None:
    batch = picture(model, count)
    with torch.no_grad():
        found = IntegerNetwork(model)(torch.from_numpy(batch))
    for one, other in zip(found, reference.run(model, batch), strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.gate("runs YOLOX-nano in NumPy")
def test_yolox_nano(shared_data: Path, tmp_path: Path) -> None:
    """An imported detector: float to PyTorch and back, and the integers of the quantized file."""
    folder = shared_data / "networks"
    model = imported(folder / "yolox_nano.onnx", tmp_path, YOLOX, labels=COCO)
    assert_same_bytes(model, tmp_path)
    assert_equal_reals(model, picture(model))
    integers = imported(folder / "yolox_nano_int8.tflite", tmp_path, Pixels((127.5,), (127.5,), "bgr"))
    assert_equal_integers(integers, 4)


def test_visual_wake_words(shared_data: Path, tmp_path: Path) -> None:
    folder, pixels = shared_data / "networks", Pixels((0.0,), (255.0,))
    model = imported(folder / "vww_96_float.tflite", tmp_path, pixels, labels=("none", "person"))
    assert_same_bytes(model, tmp_path)
    assert_equal_reals(model, picture(model))
    assert_equal_integers(imported(folder / "vww_96_int8.tflite", tmp_path, pixels, labels=("none", "person")), 8)


def test_mobilenet_v2(tmp_path: Path) -> None:
    labels = tuple("abcd")
    model = imported(
        write_topology("mobilenet_v2", tmp_path, 64, 4), tmp_path, Pixels((120.0,), (60.0,)), labels=labels
    )
    assert_same_bytes(model, tmp_path)
    assert_equal_reals(model, picture(model, 2))
