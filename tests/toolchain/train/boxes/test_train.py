"""A detector of own pictures is trained, stopped, continued, exported and measured: squares of two colours."""

import contextlib
import io
import shutil
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.model.float_file import load_float_model, save_float_model
from edgemeta.model.layers import Conv
from edgemeta.toolchain.data.boxed_images import load_boxed_images
from edgemeta.toolchain.errors import CheckpointError, DataError
from edgemeta.toolchain.evaluate.detection import evaluate_float_detector
from edgemeta.toolchain.progress import TrainingEvent
from edgemeta.toolchain.simulate.eight_bits import in_eight_bits
from edgemeta.toolchain.train.boxes.recipe import BoxRecipe
from edgemeta.toolchain.train.boxes.train import BoxResult, BoxWishes, train_boxes
from edgemeta.toolchain.train.boxes.views import BoxViewSettings

pytestmark = pytest.mark.gate("trains a detector until it finds its squares: half a minute")

LABELS = ("red", "blue")
SMALL = BoxWishes(size=(64, 64), width=0.25, epochs=12)
RECIPE = BoxRecipe(
    batch=8,
    lr=5e-3,
    warmup_epochs=1,
    ema=0.9,
    quantized_epochs=2,
    evaluate_every=8,
    least_views=64,
    small=0.0,
    views=BoxViewSettings(scale=(0.7, 1.6), in_mosaic=(0.5, 1.3)),  # eight epochs learn few sizes
)


def write_squares(path: Path, count: int, seed: int, source: str = "squares") -> Path:
    """An archive of pictures of some sizes with one or two squares, red or blue, before a grey."""
    rng = np.random.default_rng(seed)
    files, boxes, images, labels = [], [], [], []
    for number in range(count):
        height, width = rng.integers(56, 80, 2).tolist()
        pixels = np.full((height, width, 3), rng.integers(60, 200), np.uint8)
        for half in range(int(rng.integers(1, 3))):
            label, side = int(rng.integers(2)), int(rng.integers(18, 26))
            x = int(rng.integers(0, width // 2 - side + 1)) + half * (width // 2)
            y = int(rng.integers(0, height - side))
            pixels[y : y + side, x : x + side] = ((20, 20, 230), (230, 20, 20))[label]  # B, G, R
            boxes.append((x, y, x + side, y + side))
            images.append(number)
            labels.append(label)
        files.append(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 95])[1].ravel())
    content = io.BytesIO()
    np.savez(
        content,
        jpeg=np.concatenate(files),
        offsets=np.cumsum([0, *map(len, files)]).astype(np.uint32),
        boxes=np.array(boxes, np.float32),
        box_image=np.array(images, np.int32),
        box_label=np.array(labels, np.uint8),
        labels=np.array(LABELS),
        source=np.zeros(count, np.uint8),
        sources=np.array([source]),
    )
    path.write_bytes(content.getvalue())
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BoxResult, list[TrainingEvent]]:
    folder = tmp_path_factory.mktemp("boxes")
    data = write_squares(folder / "squares.npz", 48, 1)
    test = write_squares(folder / "test.npz", 16, 2)
    events: list[TrainingEvent] = []
    result = train(folder, data, SMALL, test=test, events=events)
    return folder, result, events


def train(
    folder: Path,
    data: Path,
    wishes: BoxWishes,
    *,
    test: Path | None = None,
    events: list[TrainingEvent] | None = None,
    name: str = "run",
) -> BoxResult:
    """Train in `folder`."""
    watch = (lambda _: None) if events is None else events.append
    out = folder / f"{name}.safetensors"
    return train_boxes(
        data, folder / name, out, wishes, in_eight_bits, test=test, threads=1, progress=watch, recipe=RECIPE
    )


def test_the_squares_are_found(trained: tuple[Path, BoxResult, list[TrainingEvent]]) -> None:
    _, result, events = trained
    assert result.test is not None
    assert result.test.at_half > 0.8
    assert {each.label for each in result.test.labels} == set(LABELS)
    assert result.epoch > SMALL.epochs  # of those at 8 bits
    assert events[-1].epoch == events[-1].epochs == result.epochs


def test_the_exported_network_is_what_was_measured(trained: tuple[Path, BoxResult, list[TrainingEvent]]) -> None:
    _, result, _ = trained
    model = load_float_model(result.path)
    again = evaluate_float_detector(model, load_boxed_images(result.held_out), lambda _done, _total: None)
    assert again.at_half == pytest.approx(result.validation.at_half, abs=0.05)  # measured in bfloat16 where there is


def test_the_card_names_every_source_and_its_licence(trained: tuple[Path, BoxResult, list[TrainingEvent]]) -> None:
    folder, result, _ = trained
    assert "| squares | 41 | not stated |" in result.card.read_text("utf-8")
    licences = folder / "licences.yaml"
    licences.write_text("squares: CC0\n", "utf-8")
    wishes = replace(SMALL, licences=licences)
    train(folder, folder / "squares.npz", wishes, test=folder / "test.npz")  # complete: it is only written again
    assert "| squares | 41 | CC0 |" in result.card.read_text("utf-8")
    licences.write_text("- CC0\n", "utf-8")
    with pytest.raises(DataError, match="is no list of texts by name"):
        train(folder, folder / "squares.npz", wishes, test=folder / "test.npz")


def test_a_stopped_training_makes_the_same_network(tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    def stop(event: TrainingEvent) -> None:
        if event.epoch in (1, 3) and event.step == event.steps and event.epoch not in seen:
            seen.append(event.epoch)
            raise StoppedError

    seen: list[int] = []
    data, recipe = write_squares(tmp_path / "few.npz", 12, 3), replace(RECIPE, least_views=16)
    wishes = replace(SMALL, epochs=2)
    for name, watch in (("whole", None), ("stopped", stop), ("stopped", stop), ("stopped", stop)):
        out = tmp_path / f"{name}.safetensors"
        with contextlib.suppress(StoppedError):
            train_boxes(data, tmp_path / name, out, wishes, in_eight_bits, threads=1, progress=watch, recipe=recipe)
    assert seen == [1, 3]
    first, second = (load_float_model(tmp_path / f"{name}.safetensors") for name in ("whole", "stopped"))
    for mine, theirs in zip(first.layers, second.layers, strict=True):
        if isinstance(mine, Conv):
            assert isinstance(theirs, Conv)
            assert (mine.real_weights == theirs.real_weights).all()


def test_a_run_belongs_to_its_data_and_network(trained: tuple[Path, BoxResult, list[TrainingEvent]]) -> None:
    folder, _, _ = trained
    with pytest.raises(CheckpointError, match="another recipe or seed"):
        train(folder, folder / "squares.npz", replace(SMALL, width=0.5))
    with pytest.raises(CheckpointError, match="other training data"):
        train(folder, folder / "test.npz", SMALL)


def test_it_starts_from_a_trained_network_of_other_labels(trained: tuple[Path, BoxResult, list[TrainingEvent]]) -> None:
    folder, result, _ = trained
    data = write_squares(folder / "few.npz", 12, 3)
    members = dict(np.load(data))
    np.savez(data, **members | {"labels": np.array(["rouge", "bleu", "vert"])})
    begun = train(folder, data, replace(SMALL, size=None, start=result.path, epochs=3), name="few")
    assert begun.validation.at_half > 0.7
    model = load_float_model(begun.path)
    assert model.labels == ("rouge", "bleu", "vert")
    assert model.input_shape == (64, 64, 3)  # as the one it starts from
    assert model.provenance["start"] == {
        "name": "grids-w0.25-64-squares",
        "sha256": model.provenance["start"]["sha256"],
    }  # type: ignore[index]


def test_a_teacher_labels_pictures_that_nobody_did(trained: tuple[Path, BoxResult, list[TrainingEvent]]) -> None:
    folder, result, _ = trained
    pictures = folder / "yard"
    pictures.mkdir()
    cv2.imwrite(str(pictures / "0.png"), np.full((64, 64, 3), 90, np.uint8))
    empty = folder / "empty"
    shutil.copytree(pictures, empty)
    given = {"unlabelled": (pictures,), "empty": (empty,)}
    wishes = replace(SMALL, epochs=1, quantized_epochs=0, teacher=result.path, **given)
    taught = train(folder, folder / "test.npz", wishes, name="taught")
    provenance = load_float_model(taught.path).provenance
    assert provenance["unlabelled_images"] == 1
    assert provenance["sources"] == {"empty": 1, "squares": 14, "yard": 1}
    assert "| teacher: grids-w0.25-64-squares | the network | not stated |" in taught.card.read_text("utf-8")


def test_wishes_that_do_not_fit_are_refused(trained: tuple[Path, BoxResult, list[TrainingEvent]]) -> None:
    folder, result, _ = trained
    with pytest.raises(
        DataError, match=r"squares.npz: has pictures without boxes, expected a teacher that labels them"
    ):
        train(folder, folder / "test.npz", replace(SMALL, unlabelled=(folder / "squares.npz",)), name="x")
    other = folder / "other.safetensors"
    model = load_float_model(result.path)
    save_float_model(replace(model, task=replace(model.task, labels=("a", "b"))), other)  # type: ignore[type-var]
    with pytest.raises(DataError, match=r"other.safetensors: knows none of the labels red, blue"):
        train(folder, folder / "test.npz", replace(SMALL, teacher=other), name="y")
    with pytest.raises(DataError, match="has no source 'sqares' to leave out, expected squares"):
        train(folder, folder / "squares.npz", replace(SMALL, without=("sqares",)), name="w")
    data = write_squares(folder / "cats.npz", 4, 3)
    np.savez(data, **dict(np.load(data)) | {"labels": np.array(["cat", "dog"])})
    with pytest.raises(DataError, match="has the label 'cat', expected those of the training pictures: red, blue"):
        train(folder, folder / "squares.npz", SMALL, test=data, name="z")
