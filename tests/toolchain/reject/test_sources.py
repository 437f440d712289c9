"""Data sets without names of their own, and in another order of classes, as known and foreign pictures."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.reject.sources import foreign_pictures, labelled


def test_an_archive_without_names_is_numbered_as_the_labels(write_npz: Any, pixels: Any, classes: Any) -> None:
    """Such as CIFAR-10's; for foreign pictures the classes do not matter."""
    model, path = load(find("resnet8-cifar10")), write_npz(x=pixels, y=classes)
    data = labelled(path, model, "train", pytest.fail)
    assert data.labels == model.labels
    assert data.y.tolist() == classes.tolist()
    assert len(foreign_pictures(path, pytest.fail)) == 20


def test_classes_are_matched_by_name(write_npz: Any, pixels: Any, classes: Any, tmp_path: Path) -> None:
    model = load(find("resnet8-cifar10"))
    data = labelled(write_npz(x=pixels, y=classes, labels=model.labels[::-1]), model, "train", pytest.fail)
    assert data.labels == model.labels
    assert data.y.tolist() == (9 - classes).tolist()
    np.savez(tmp_path / "other.npz", x=pixels, y=classes, labels=list("abcdefghij"))
    with pytest.raises(DataError, match=r"other\.npz: the class 'a' is no label of the model"):
        labelled(tmp_path / "other.npz", model, "train", pytest.fail)
