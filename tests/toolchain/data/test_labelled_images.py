"""Images of any data set as a network takes them, their classes matched with its labels by name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.graph import Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import preprocess
from edgemeta.plugins.pictures import read_picture
from edgemeta.toolchain.data.labelled_images import in_labels, network_pixels, open_images
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.evaluate.classification import _evaluation


@dataclass(frozen=True, eq=False)
class Input:
    """What a frame becomes."""

    input: TensorType
    preprocessing: Preprocessing


SQUARES = Input(TensorType((12, 12, 3)), Preprocessing("center", "rgb", np.arange(-128, 128, dtype=np.int8)[None]))
SHUFFLED = np.stack([np.random.default_rng(channel).permutation(256) for channel in range(3)]).astype(np.uint8)
LETTERS = Input(
    TensorType((20, 30, 3), signed=False), Preprocessing("letterbox", "bgr", SHUFFLED, (114, 3, 7), "corner")
)
GRAY = Input(TensorType((9, 5, 1)), Preprocessing("full", "gray", np.arange(-128, 128, dtype=np.int8)[None]))


def everything(path: Path, labels: tuple[str, ...], model: Input) -> tuple[NDArray[Any], list[int]]:
    batches = list(network_pixels(open_images(path, labels, pytest.fail), model))
    return np.concatenate([pixels for pixels, _ in batches]), np.concatenate([y for _, y in batches]).tolist()


@pytest.mark.parametrize("model", [SQUARES, LETTERS, GRAY])
def test_pictures_are_as_the_service_makes_them(class_folder: Path, model: Input) -> None:
    labels = ("car", "boat", "bird")
    pixels, y = everything(class_folder, labels, model)
    assert y == [2, 2, 1, 1, 1, 0, 0, 0, 0]
    files = sorted(class_folder.glob("*/*.png"))
    table = model.preprocessing.table
    for image, file in zip(pixels, files, strict=True):
        wanted = preprocess(read_picture(file), model.input, model.preprocessing)
        assert (table[np.arange(len(table)), image] == wanted).all()


def test_images_of_an_archive_take_the_same_way(write_npz: Any, pixels: Any, classes: Any) -> None:
    path = write_npz(x=pixels, y=classes, labels=list("abcdefghij"))
    found, y = everything(path, tuple("jihgfedcba"), SQUARES)
    assert y == (9 - classes).tolist()
    wanted = [
        preprocess(np.ascontiguousarray(each[..., ::-1]), SQUARES.input, SQUARES.preprocessing) for each in pixels
    ]
    assert (found.astype(int) - 128 == np.stack(wanted)).all()


def test_more_images_than_a_batch(write_npz: Any, pixels: Any) -> None:
    many = np.concatenate([pixels] * 11)
    path = write_npz(x=many, y=np.arange(220) % 7, labels=list("abcdefg"))
    sizes = [len(y) for _, y in network_pixels(open_images(path, tuple("abcdefg"), pytest.fail), SQUARES)]
    assert sizes == [100, 100, 20]


def test_batches_of_large_images_are_small(class_folder: Path) -> None:
    large = Input(TensorType((500, 500, 3)), SQUARES.preprocessing)
    images = open_images(class_folder, ("bird", "boat", "car"), pytest.fail)
    assert [pixels.shape for pixels, _ in network_pixels(images, large)] == [(1, 500, 500, 3)] * 9


def test_an_archive_without_names_is_numbered_as_the_labels(write_npz: Any, pixels: Any, classes: Any) -> None:
    path = write_npz(x=pixels, y=classes)
    assert open_images(path, tuple("abcdefghij"), pytest.fail).y.tolist() == classes.tolist()
    with pytest.raises(DataError, match=r"labels run from 0 to 9, expected 0\.\.1"):
        open_images(path, ("a", "b"), pytest.fail)


def test_names_that_do_not_match(class_folder: Path, said: list[str]) -> None:
    images = open_images(class_folder, ("hat", "bird", "boat", "car", "tree"), said.append)
    assert images.y.tolist() == [1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert said == [f"{class_folder}: lacks classes of the model: hat, tree"]
    with pytest.raises(DataError, match=r"things: the class 'boat' is no label of the model, expected bird, car$"):
        open_images(class_folder, ("bird", "car"), said.append)


def test_damaged_pictures_are_left_out(class_folder: Path, said: list[str]) -> None:
    (class_folder / "boat" / "1.png").write_bytes(b"damaged")
    batches = list(network_pixels(open_images(class_folder, ("bird", "boat", "car"), said.append), SQUARES))
    assert batches[0][1].tolist() == [0, 0, 1, 1, 2, 2, 2, 2]
    assert len(said) == 1
    for path in class_folder.glob("*/*.png"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match="none of the images can be decoded"):
        list(network_pixels(open_images(class_folder, ("bird", "boat", "car"), said.append), SQUARES))


def test_a_folder_of_one_class_can_be_measured(class_folder: Path, said: list[str]) -> None:
    for label in ("bird", "boat"):
        for path in (class_folder / label).iterdir():
            path.unlink()
        (class_folder / label).rmdir()
    keep: Callable[[str], None] = said.append
    assert open_images(class_folder, ("car", "boat"), keep).y.tolist() == [0, 0, 0, 0]


def test_labels_of_one_name_count_as_one() -> None:
    """As ImageNet's two cranes."""
    labels = ("car", "crane", "tram", "crane")
    matched = in_labels(np.array([0, 1, 1]), ("tram", "crane"), labels, Path("data"), lambda text: None)
    assert matched.tolist() == [2, 1, 1]
    logits = np.eye(4, dtype=np.int64)[[2, 3, 0]]  # the second crane is right
    found = _evaluation(logits, np.array([2, 3, 1]), labels, None)
    assert found.top1 == pytest.approx(2 / 3)
    assert [(each.label, each.images, each.right) for each in found.recalls] == [("crane", 2, 1), ("tram", 1, 1)]
