"""Networks that learn from their float network instead of labels: detections, embeddings, any pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.model import reference
from edgemeta.model.float_reference import outputs
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import (
    Add,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    FloatLayer,
    Function,
    GlobalAverage,
    Lookup,
    MaxPool,
    Multiplier,
    Pad,
    Product,
    Slice,
    Upsample,
)
from edgemeta.model.tasks import Detection, DetectionLevel, Embedding
from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.data.boxed_images import BoxedImages, load_boxed_images, save_boxed_images
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import CheckpointError, QuantizeError
from edgemeta.toolchain.incremental.command import Imitated, IncrementalScheme
from edgemeta.toolchain.incremental.imitation import PictureParts, batch_of, with_norms, without_norm
from edgemeta.toolchain.incremental.run import imitated, integer_network
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.compare import Expected
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.torch_network import imitation_loss
from edgemeta.toolchain.train.checkpoint import weights_digest
from tests.float_networks import conv, norm
from tests.toolchain.incremental.frozen import frozen_share

SETTINGS = IncrementalSettings(shares=(0.5, 1.0), epochs=2, batch=8, lr=0.01, held_out=0.2)
LABELS = ("cat", "dog")


def swish(name: str, source: str) -> Function:
    return Function(name, source, "silu")


@pytest.fixture
def detector() -> FloatModel:
    """YOLOX's structure in small: focus, swish, depthwise, a residual, pooling, an upsampling; 48x32 pixels in BGR."""
    rng = np.random.default_rng(7)
    pad = (1, 1, 1, 1)
    bias = [rng.normal(0, 0.3, 8).astype(np.float32) for _ in range(5)]
    places = ((0, 0), (1, 0), (0, 1), (1, 1))
    slices = [Slice(f"s{y}{x}", "input", start=(y, x, 0), stop=(32, 48, 3), step=(2, 2, 1)) for y, x in places]
    first = conv("stem", "focus", (8, 3, 3, 12), rng, bias=bias[0], padding=pad)
    layers: list[FloatLayer] = [
        *slices,
        Concat("focus", tuple(each.name for each in slices)),
        Conv("stem", "focus", weights=first.real_weights / 128, bias=bias[0], padding=pad),
        swish("a", "stem"),
        conv("deep", "a", (8, 3, 3, 1), rng, bias=bias[1], padding=pad, groups=8, stride=(2, 2)),
        swish("b", "deep"),
        conv("point", "b", (8, 1, 1, 8), rng, bias=bias[2]),
        swish("c", "point"),
        Add("sum", ("b", "c")),
        MaxPool("pool", "sum", kernel=(3, 3), stride=(1, 1), padding=pad),
        Concat("spp", ("sum", "pool")),
        conv("mix", "spp", (8, 1, 1, 16), rng, bias=bias[3]),
        swish("d", "mix"),
        Upsample("up", "d", factor=(2, 2)),
        Concat("pan", ("up", "a")),
        conv("last", "pan", (8, 3, 3, 16), rng, bias=bias[4], padding=pad, stride=(2, 2)),
        swish("e", "last"),
        conv("boxes", "e", (4, 1, 1, 8), rng),
        conv("objects", "e", (1, 1, 1, 8), rng),
        conv("classes", "e", (2, 1, 1, 8), rng),
    ]
    task = Detection(LABELS, "yolox", (DetectionLevel("boxes", "classes", "objects"),), score_threshold=0.5)
    names = ("boxes", "objects", "classes")
    return FloatModel("small", (32, 48, 3), tuple(layers), names, task, (0,), (1,), crop="letterbox", colour="bgr")


@pytest.fixture
def pictures() -> Any:
    """Forty smooth pictures of 40x60 pixels."""
    rng = np.random.default_rng(3)
    coarse = rng.integers(0, 256, (40, 4, 6, 3)).repeat(10, 1).repeat(10, 2)
    return np.clip(coarse + rng.normal(0, 9, (40, 40, 60, 3)), 0, 255).astype(np.uint8)


def parts_of(model: FloatModel, pictures: Any) -> PictureParts:
    return PictureParts(PreparedImages(model, ArrayFrames(pictures)), 0.2)


def test_a_detector_becomes_integers_without_a_multiplier(tmp_path: Path, detector: FloatModel, pictures: Any) -> None:
    parts = parts_of(detector, pictures)
    trained = imitated(detector, SETTINGS, parts, tmp_path)
    assert frozen_share(trained.network) == 1
    integer, floats = integer_network(trained.network, parts.images)
    for layer in integer.layers:
        assert not isinstance(getattr(layer, "requantize", None), Multiplier), layer.name
        if isinstance(layer, Conv):
            assert isinstance(layer.weights, PowerOfTwoWeights)
    assert not [layer for layer in integer.layers if isinstance(layer, Lookup) and layer.name in "abcde"]  # in tables
    batch = np.concatenate(list(parts.images))
    for one, other in zip(integer_session(integer).run(batch), reference.run(integer, batch), strict=True):
        assert np.array_equal(one, other)
    assert Expected(floats, parts.images).measure(integer, "").error < 0.05
    assert trained.accuracy is not None
    assert trained.accuracy > 0  # nearer than the mean of each output


def test_a_continued_run_has_the_same_bits(tmp_path: Path, detector: FloatModel, pictures: Any) -> None:
    class KilledError(Exception):
        """Stands for a power cut."""

    def watch(event: Any) -> None:
        if event.epoch == 2:
            raise KilledError

    parts = parts_of(detector, pictures[:16])
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = imitated(detector, SETTINGS, parts, tmp_path / "whole")
    with pytest.raises(KilledError):
        imitated(detector, SETTINGS, parts, tmp_path / "parts", watch)
    continued = imitated(detector, SETTINGS, parts, tmp_path / "parts")
    assert weights_digest(continued.network) == weights_digest(whole.network)
    with pytest.raises(CheckpointError, match="made with other training data"):
        imitated(detector, SETTINGS, parts_of(detector, 255 - pictures[:16]), tmp_path / "parts")


def test_batch_norms_that_are_added_change_nothing(detector: FloatModel, pictures: Any) -> None:
    parts = parts_of(detector, pictures)
    model = with_norms(detector, parts.batches(parts.learned, 8))
    norms = [layer for layer in model.layers if isinstance(layer, BatchNorm)]
    assert {layer.input for layer in norms} == without_norm(detector).difference(detector.outputs)
    x = parts.images.real(parts.images[0])
    for one, other in zip(outputs(detector, x), outputs(model, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    assert [layer.name for layer in with_norms(model, []).layers] == [layer.name for layer in model.layers]


def test_the_loss_by_hand() -> None:
    targets = torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0, 5.0]])
    wanted = (torch.tensor([[1.0, 5.0]]), torch.tensor([[5.0, 5.0]]))
    assert imitation_loss(wanted, targets).item() == pytest.approx((2 / 1 + 0) / 2)


def test_large_pictures_come_in_small_batches(detector: FloatModel) -> None:
    assert batch_of(detector, SETTINGS, 100) == 8
    assert batch_of(detector, SETTINGS, 5) == 5
    layers = (GlobalAverage("g", "input"),)
    assert batch_of(FloatModel("m", (416, 416, 3), layers, ("g",), Embedding()), IncrementalSettings(), 100) == 8


def boxed(pictures: Any, path: Path) -> Path:
    count = len(pictures)
    corners = np.tile(np.array([[5, 5, 30, 35]], np.float32), (count, 1))
    save_boxed_images(BoxedImages(pictures, corners, np.arange(count) % 2, np.arange(count), LABELS), path)
    return path


def test_the_scheme_measures_outputs_and_boxes(tmp_path: Path, detector: FloatModel, pictures: Any) -> None:
    scheme = IncrementalScheme(boxed(pictures, tmp_path / "set.npz"), tmp_path / "run", SETTINGS)
    made = scheme.run(detector, (), Events())
    assert isinstance(made.validation, Imitated)
    assert made.validation.images == 8
    assert made.validation.boxes is not None
    assert made.validation.boxes.images == len(load_boxed_images(tmp_path / "run" / "validation.npz")) == 8
    stated = made.model.provenance
    assert (stated["scheme"], stated["validation_images"]) == ("incremental", 8)
    assert {"validation_output_error", "validation_map50", "float_validation_map50", "train_pixels_sha256"} <= {*stated}


def test_an_embedding_of_gray_pictures_in_a_folder(tmp_path: Path, write_pictures: Any) -> None:
    """One channel, a batch norm behind an addition, a function behind it that stays a table of its own, padding."""
    rng = np.random.default_rng(2)
    layers = (
        conv("c", "input", (6, 3, 3, 1), rng, stride=(2, 2)),
        norm("cn", "c", 6, rng),
        conv("k", "cn", (6, 1, 1, 6), rng),
        Add("sum", ("cn", "k")),
        norm("n", "sum", 6, rng),
        Pad("padded", "n", padding=(0, 1, 1, 0)),
        Add("twice", ("padded", "padded")),
        Function("t", "twice", "tanh"),
        GlobalAverage("g", "t"),
        Dense("v", "g", weights=rng.normal(0, 0.4, (5, 6)).astype(np.float32)),
    )
    model = FloatModel("gray", (24, 16, 1), layers, ("v",), Embedding(), (120,), (64,), colour="y")
    made = IncrementalScheme(write_pictures(12), tmp_path / "run", SETTINGS).run(model, (), Events())
    assert isinstance(made.validation, Imitated)
    assert made.validation.boxes is None
    assert made.validation.agreement.error < 1
    assert [layer.name for layer in made.model.layers if isinstance(layer, Lookup)] == ["t"]


@pytest.fixture
def write_pictures(tmp_path: Path, pictures: Any) -> Callable[[int], Path]:
    """A function that writes so many pictures into a folder."""
    import cv2

    def write(count: int) -> Path:
        folder = tmp_path / "pictures"
        folder.mkdir()
        for number in range(count):
            cv2.imwrite(str(folder / f"{number}.png"), pictures[number])
        return folder

    return write


def test_what_does_not_fit_is_refused_before_the_training(
    tmp_path: Path, detector: FloatModel, write_pictures: Any
) -> None:
    folder = write_pictures(1)
    with pytest.raises(QuantizeError, match="other pixels are for labelled images"):
        IncrementalScheme(folder, tmp_path / "a", SETTINGS, alternates=folder).run(detector, (), Events())
    model = FloatModel("m", (32, 32, 3), (Product("p", ("input", "input")),), ("p",), Embedding())
    with pytest.raises(QuantizeError, match="layer 'p' is a Product, which scheme incremental does not have"):
        IncrementalScheme(folder, tmp_path / "b", SETTINGS).run(model, (), Events())
    assert not (tmp_path / "b").exists()
