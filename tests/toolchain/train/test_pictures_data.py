"""Own pictures: the fixed split, sizes, names, what is refused."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.data.dataset import load_dataset
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.train.pictures_data import data_name, load_pictures, load_test


def load(path: Path, size: int | None = 24) -> Any:
    return load_pictures(path, size, 4 / 3, 0.2, 1)


def test_a_fixed_stratified_split(picture_folder: Path) -> None:
    data = load(picture_folder)
    assert (data.name, data.size) == ("gate", 24)
    assert data.training.x.shape == (16, 32, 32, 3)
    assert data.validation.x.shape == (4, 24, 24, 3)
    assert np.bincount(data.validation.y).tolist() == [2, 2]
    assert data.training.names is not None
    assert data.validation.names is not None
    assert sorted(data.training.names + data.validation.names) == list(
        load_dataset(picture_folder, size=24).names or ()
    )
    again = load(picture_folder)
    assert again.validation.names == data.validation.names


def test_validation_pixels_are_those_that_the_service_sees(picture_folder: Path) -> None:
    data, whole = load(picture_folder), load_dataset(picture_folder, size=24)
    assert whole.names is not None
    places = [whole.names.index(name) for name in data.validation.names]
    assert (data.validation.x == whole.x[places]).all()
    assert (data.validation.y == whole.y[places]).all()


def test_images_of_a_file_keep_their_size(write_npz: Any, pixels: Any, classes: Any) -> None:
    path = write_npz(x=pixels, y=classes, labels=np.array([f"c{i}" for i in range(10)]))
    data = load(path, None)
    assert (data.name, data.size) == ("set", 32)
    assert (len(data.training), len(data.validation)) == (10, 10)
    with pytest.raises(DataError, match="images are 32x32 pixels, expected 24x24"):
        load(path)
    wide = write_npz(x=pixels[:, :16], y=classes, labels=np.array([f"c{i}" for i in range(10)]))
    with pytest.raises(DataError, match="images are 32x16 pixels, expected squares"):
        load(wide, None)


def test_a_class_needs_two_pictures(picture_folder: Path) -> None:
    for picture in sorted((picture_folder / "open").iterdir())[1:]:
        picture.unlink()
    with pytest.raises(DataError, match="class 'open' has 1 images, expected at least 2, of which one validates"):
        load(picture_folder)


def test_test_images_may_lack_a_class_but_bring_none(
    picture_folder: Path, make_pictures: Callable[..., Path], tmp_path: Path
) -> None:
    three = make_pictures(tmp_path / "three", ("ajar", "closed", "open"), seed=3)
    said: list[str] = []
    test = load_test(picture_folder, three, load(three), said.append)
    assert test.labels == ("ajar", "closed", "open")
    assert np.bincount(test.y).tolist() == [0, 10, 10]
    assert said == [f"{picture_folder}: lacks classes of the model: ajar"]
    with pytest.raises(DataError, match="three: the class 'ajar' is no label of the model, expected closed, open"):
        load_test(three, picture_folder, load(picture_folder))


def test_training_pictures_are_no_test_pictures(
    picture_folder: Path, make_pictures: Callable[..., Path], tmp_path: Path
) -> None:
    """Though they are read at another size for the training."""
    data = load(picture_folder)
    only_training = tmp_path / "copies"
    for label in data.training.labels:
        (only_training / label).mkdir(parents=True)
    for name in data.training.names:
        shutil.copy(picture_folder / name, only_training / name)
    with pytest.raises(DataError, match="all 16 test pictures are also training pictures"):
        load_test(only_training, picture_folder, data)
    said: list[str] = []
    load_test(picture_folder, picture_folder, data, said.append)
    assert said == [f"{picture_folder}: 16 of 20 test pictures are also training pictures of {picture_folder}"]


@pytest.mark.parametrize(
    ("path", "name"), [("gate", "gate"), ("gate/train", "gate"), ("gate/Validation", "gate"), ("gate.npz", "gate")]
)
def test_data_are_called_by_what_says_something(tmp_path: Path, path: str, name: str) -> None:
    place = tmp_path / path
    place.parent.mkdir(exist_ok=True)
    if place.suffix:
        place.write_bytes(b"")
    else:
        place.mkdir(parents=True)
    assert data_name(place) == name
