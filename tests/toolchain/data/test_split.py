"""The fixed split: stratified, the same in any order, and copies of a picture stay together."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.toolchain.data.dataset import Dataset, load_dataset
from edgemeta.toolchain.data.split import choose, split
from edgemeta.toolchain.errors import DataError


def numbered(count: int) -> list[str]:
    return [f"{i}.jpg" for i in range(count)]


def test_both_parts_together_are_the_data_set(class_folder: Path) -> None:
    data = load_dataset(class_folder, size=8)
    rest, part = split(data, 0.3, seed=1)
    assert rest.labels == part.labels == data.labels
    assert sorted((rest.names or ()) + (part.names or ())) == list(data.names or ())
    assert np.bincount(part.y).tolist() == [1, 1, 1]
    assert np.bincount(rest.y).tolist() == [1, 2, 3]
    for each in (rest, part):
        for i, name in enumerate(each.names or ()):
            assert name.startswith(data.labels[each.y[i]])
            assert (each.x[i] == data.x[(data.names or ()).index(name)]).all()


@settings(max_examples=200)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.floats(0.01, 0.99), st.integers(0, 2**32), st.randoms())
def test_counts_and_independence_of_order(classes: list[int], share: float, seed: int, random: Any) -> None:
    y, keys = np.array(classes), numbered(len(classes))
    part = choose(y, keys, share, seed)
    for label in set(classes):
        count, taken = classes.count(label), int(part[y == label].sum())
        assert taken == (0 if count == 1 else min(max(1, int(share * count + 0.5)), count - 1))
    order = list(range(len(classes)))
    random.shuffle(order)
    assert (choose(y[order], [keys[i] for i in order], share, seed) == part[order]).all()


def test_the_split_is_fixed_for_ever() -> None:
    """A release that changed it would mix training and validation pictures of older runs."""
    part = choose(np.zeros(10, int), numbered(10), 0.3, seed=0)
    assert np.flatnonzero(part).tolist() == [1, 2, 6]


def test_another_seed_is_another_split() -> None:
    y = np.zeros(100, int)
    parts = {choose(y, numbered(100), 0.5, seed).tobytes() for seed in range(20)}
    assert len(parts) == 20


@settings(max_examples=200)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=40), st.floats(0.05, 0.95))
def test_copies_of_a_picture_stay_together(pictures: list[int], share: float) -> None:
    copies = [str(each) for each in pictures]
    part = choose(np.zeros(len(pictures), int), numbered(len(pictures)), share, 0, copies)
    assert 0 < part.sum() < len(part)
    for each in set(pictures):
        sides = set(part[np.array(pictures) == each].tolist())
        assert len(sides) == 1 or set(pictures) == {each}


def test_pictures_without_names_are_told_apart_by_pixels(pixels: Any, classes: Any) -> None:
    data = Dataset(pixels, classes)
    order = np.random.default_rng(1).permutation(20)
    _, part = split(data, 0.5, seed=3)
    _, other = split(data.take(order), 0.5, seed=3)
    assert sorted(image.tobytes() for image in part.x) == sorted(image.tobytes() for image in other.x)
    assert np.bincount(part.y).tolist() == [1] * 10


@pytest.mark.parametrize("share", [0, 1, -0.5, 1.5, float("nan")])
def test_shares_that_are_refused(share: float) -> None:
    with pytest.raises(DataError, match="expected more than 0 and less than 1"):
        choose(np.zeros(3, int), numbered(3), share, 0)
