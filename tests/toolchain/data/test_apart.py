"""Pictures that two data sets have in common."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.data.apart import check_apart, without_copies
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import DataError

PATHS = Path("train"), Path("test")


def test_data_sets_apart(pixels: Any, classes: Any) -> None:
    check_apart(Dataset(pixels[:10], classes[:10]), Dataset(pixels[10:], classes[10:]), *PATHS, pytest.fail)


def test_common_pictures_are_counted_by_their_pixels(pixels: Any, classes: Any, said: list[str]) -> None:
    test = Dataset(pixels[:12].copy()[::-1], classes[:12])
    check_apart(Dataset(pixels[10:], classes[10:]), test, *PATHS, said.append)
    assert said == ["test: 2 of 12 test pictures are also training pictures of train"]


def test_test_pictures_that_are_all_training_pictures(pixels: Any, classes: Any) -> None:
    train = Dataset(pixels, classes)
    for test in (train, train.take(np.array([3, 17]))):
        with pytest.raises(DataError, match=r"test: all .* test pictures are also training pictures of train"):
            check_apart(train, test, *PATHS, pytest.fail)


def test_pictures_of_another_data_set_are_left_out(pixels: Any, classes: Any) -> None:
    data, others = Dataset(pixels, classes), Dataset(pixels[5:8].copy(), classes[:3])
    rest = without_copies(data, others)
    assert np.array_equal(rest.x, np.delete(pixels, [5, 6, 7], axis=0))
    assert np.array_equal(rest.y, np.delete(classes, [5, 6, 7]))
    assert len(without_copies(others, data)) == 0
