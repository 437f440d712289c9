"""A detector is trained, continued after a stop, exported and measured; squares of two colours are found."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.model.float_file import load_float_model
from edgemeta.toolchain.data.boxed_images import BoxedImages, load_boxed_images, save_boxed_images
from edgemeta.toolchain.errors import CheckpointError, DataError
from edgemeta.toolchain.evaluate.detection import evaluate_float_detector
from edgemeta.toolchain.progress import TrainingEvent
from edgemeta.toolchain.train.detector.train import DetectorResult, train_detector

SIZE = 64
LABELS = ("red", "blue")
RECIPE = """
name: squares
validation: 0.25
network: {family: yolov3-tiny, width: 0.125}
epochs: %d
batch: 8
lr: 0.03
warmup_epochs: 1
ema: 0.9
evaluate_every: 2
"""


def squares(count: int, seed: int) -> BoxedImages:
    """One or two squares in each image, red or blue, before a grey of its own."""
    rng = np.random.default_rng(seed)
    x = (
        np.repeat(rng.integers(60, 200, (count, 1, 1, 1)), SIZE * SIZE * 3)
        .reshape(count, SIZE, SIZE, 3)
        .astype(np.uint8)
    )
    boxes, classes, images = [], [], []
    for number in range(count):
        for half in rng.permutation(2)[: rng.integers(1, 3)]:  # each in its half of the image, so none hides another
            side = int(rng.integers(12, 28))
            left = int(rng.integers(0, SIZE // 2 - side + 1)) + SIZE // 2 * int(half)
            top = int(rng.integers(0, SIZE - side + 1))
            label = int(rng.integers(2))
            colour = (220, 30, 30) if label == 0 else (30, 30, 220)
            cv2.rectangle(x[number], (left, top), (left + side - 1, top + side - 1), colour, -1)
            boxes.append((left, top, left + side, top + side))
            classes.append(label)
            images.append(number)
    return BoxedImages(x, np.array(boxes, np.float32), np.array(classes), np.array(images), LABELS)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("squares")
    save_boxed_images(squares(120, 1), folder / "train.npz")
    save_boxed_images(squares(30, 2), folder / "test.npz")
    return folder


def trained(files: Path, folder: Path, epochs: int, name: str = "out.safetensors", **options: object) -> DetectorResult:
    recipe = folder / f"recipe-{epochs}.yaml"
    recipe.write_text(RECIPE % epochs, "utf-8")
    data, test = files / "train.npz", files / "test.npz"
    return train_detector(recipe, data, test, folder / "run", folder / name, threads=1, **options)  # type: ignore[arg-type]


@pytest.mark.gate("6 s: a detector is trained")
def test_squares_are_found(files: Path, tmp_path: Path) -> None:
    result = trained(files, tmp_path, 25)
    assert result.precision.at_half > 0.7  # 0.796 in float32 on AVX2; other processors round and train differently
    assert {each.label for each in result.precision.labels} == set(LABELS)
    assert result.held_out is not None
    kept = load_boxed_images(result.held_out)
    assert len(kept) == 30
    model = load_float_model(result.path)
    test = load_boxed_images(files / "test.npz")
    assert evaluate_float_detector(model, test, lambda _done, _total: None) == result.precision
    assert model.provenance["test_map50"] == result.precision.at_half
    assert (model.crop, model.fill) == ("letterbox", (128,))


class _StoppedError(Exception):
    pass


def test_a_stopped_run_ends_as_one_that_was_not(files: Path, tmp_path: Path) -> None:
    whole = trained(files, tmp_path, 3)
    weights = load_float_model(whole.path)

    def stop(event: TrainingEvent) -> None:
        if event.epoch == 2 and event.step == event.steps:
            raise _StoppedError

    again = tmp_path / "again"
    again.mkdir()
    with pytest.raises(_StoppedError):
        trained(files, again, 3, progress=stop)
    continued = load_float_model(trained(files, again, 3).path)
    for one, other in zip(weights.layers, continued.layers, strict=True):
        for name in ("weight", "bias", "mean", "gamma"):
            assert np.array_equal(getattr(one, name, None), getattr(other, name, None))  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="another recipe or seed"):
        trained(files, again, 2)


def test_images_that_do_not_fit(files: Path, tmp_path: Path) -> None:
    data = load_boxed_images(files / "train.npz")
    few = tmp_path / "few"
    few.mkdir()
    save_boxed_images(data.take(np.arange(6)), few / "train.npz")
    save_boxed_images(data.take(np.arange(3)), few / "test.npz")
    with pytest.raises(DataError, match="there are 4 training images, expected at least one batch of 8"):
        trained(few, tmp_path, 2)
    cut = replace(data, x=data.x[:, :, :48], boxes=np.minimum(data.boxes, 48))
    odd = tmp_path / "odd"
    odd.mkdir()
    good = (cut.boxes[:, 2] > cut.boxes[:, 0]) & (cut.boxes[:, 3] > cut.boxes[:, 1])
    cut = replace(cut, boxes=cut.boxes[good], classes=cut.classes[good], images=cut.images[good])
    save_boxed_images(cut, odd / "train.npz")
    save_boxed_images(cut, odd / "test.npz")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(DataError, match="are 48x64 pixels, expected squares of a multiple of 32"):
        trained(odd, other, 2)
