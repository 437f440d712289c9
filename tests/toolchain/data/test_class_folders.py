"""Folders of pictures as lists: order, what is left out, and every mistake as one sentence."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgemeta.toolchain.data import class_folders
from edgemeta.toolchain.data.class_folders import is_class_folder, list_class_folders
from edgemeta.toolchain.errors import DataError


def refused(path: Path, match: str) -> None:
    with pytest.raises(DataError, match=match) as error:
        list_class_folders(path, lambda sentence: None)
    text = str(error.value)
    assert text.startswith(str(path))
    assert "\n" not in text


def test_labels_and_files_are_in_order_of_their_names(class_folder: Path, said: list[str]) -> None:
    files = list_class_folders(class_folder, said.append)
    assert files.labels == ("bird", "boat", "car")
    assert files.names == (
        *("bird/0.png", "bird/1.png", "boat/0.png", "boat/1.png", "boat/2.png"),
        *("car/0.png", "car/1.png", "car/2.png", "car/3.png"),
    )
    assert files.y.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert files.file(2) == class_folder / "boat" / "0.png"
    assert said == []


def test_the_order_of_the_directory_does_not_matter(class_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = list_class_folders(class_folder, print)
    scan = os.scandir

    class Reversed:
        def __init__(self, path: Path) -> None:
            with scan(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[os.DirEntry[str]]:
            return self.entries

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(class_folders.os, "scandir", Reversed)
    assert list_class_folders(class_folder, print).names == plain.names


def test_what_is_left_out_is_named(class_folder: Path, said: list[str]) -> None:
    whole = list_class_folders(class_folder, said.append).names
    (class_folder / ".git").mkdir()
    (class_folder / "README.md").write_text("about")
    shutil.copy(class_folder / "car" / "0.png", class_folder / "beside.png")
    for name in (".DS_Store", ".hidden.png", "Thumbs.db"):
        (class_folder / "car" / name).write_bytes(b"")
    (class_folder / "bird" / "small").mkdir()
    os.mkfifo(class_folder / "boat" / "pipe.png")
    assert list_class_folders(class_folder, said.append).names == whole
    assert said == [
        f"{class_folder}: 1 picture (beside.png) beside the folders of the classes, left out",
        f"{class_folder}: 2 entries (.git, README.md) hidden or no picture, left out",
        f"{class_folder}/bird: 1 folder (small) within a class, left out",
        f"{class_folder}/boat: 1 entry (pipe.png) hidden or no picture, left out",
        f"{class_folder}/car: 3 entries (.DS_Store, .hidden.png, Thumbs.db) hidden or no picture, left out",
    ]


def test_mistakes_in_the_folder(class_folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(empty, "has no folders, expected one of pictures for each class")
    refused(tmp_path / "none", "cannot be read: No such file")
    (empty / "hat").mkdir()
    refused(empty, r"empty/hat: has no pictures, expected at least one of this class \(\.bmp")
    shutil.copy(class_folder / "car" / "0.png", empty / "hat" / "0.PNG")
    refused(empty, "has only the class 'hat', expected at least 2 folders")
    (class_folder / "Car").mkdir()
    refused(class_folder, "the folders 'Car' and 'car' differ only in case")


def test_a_folder_of_folders_of_classes_is_refused(class_folder: Path, tmp_path: Path) -> None:
    """For example the folder above train/ and validation/."""
    above = tmp_path / "above"
    shutil.copytree(class_folder, above / "train")
    shutil.copytree(class_folder, above / "validation")
    refused(above, r"train: its pictures lie in folders of their own \(bird, boat, car\), expected them directly")


@pytest.mark.parametrize("name", ["a\nb", "x" * 201, os.fsdecode(b"caf\xe9")])
def test_a_name_that_cannot_be_a_label(class_folder: Path, name: str) -> None:
    (class_folder / "car").rename(class_folder / name)
    refused(class_folder, r"the name of a class folder is .*, expected 1 \.\. 200 printable characters")


def test_300_classes(class_folder: Path, tmp_path: Path) -> None:
    many = tmp_path / "many"
    for number in range(300):
        (many / f"class {number:03}").mkdir(parents=True)
        shutil.copy(class_folder / "car" / "0.png", many / f"class {number:03}" / "a.png")
    files = list_class_folders(many, print)
    assert len(files.labels) == len(files) == 300
    assert (files.y == np.arange(300)).all()


def test_which_folder_is_one_of_classes(class_folder: Path, tmp_path: Path) -> None:
    assert is_class_folder(class_folder)
    assert not is_class_folder(class_folder / "car")
    assert not is_class_folder(class_folder / "car" / "0.png")
    assert not is_class_folder(tmp_path / "none")
