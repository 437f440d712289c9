"""What the held-out pictures say."""

import numpy as np
import pytest

from edgemeta.model.layers import TensorType
from edgemeta.toolchain.teach.findings import find, near_duplicates, wilson
from edgemeta.toolchain.teach.pictures import Pictures


def test_the_interval_is_wilsons() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-3)  # Newcombe 1998's formula 3
    assert wilson(60, 60)[0] == pytest.approx(0.9398, abs=1e-3)
    assert wilson(60, 60)[1] == pytest.approx(1)


def test_pictures_of_two_classes_that_are_nearly_the_same_are_found() -> None:
    thumbnails = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3)).astype(np.int16)
    thumbnails[2] = thumbnails[0] + 3
    thumbnails[3] = thumbnails[1] + 3
    assert near_duplicates(np.array([0, 0, 1, 0]), thumbnails) == [(0, 2)]


def test_confusing_pictures_are_named_the_surest_first() -> None:
    y = np.array([0, 0, 1, 1])
    logits = np.array([[5, 0], [0, 1], [9, 0], [0, 5]], np.int32)
    kind = TensorType((1, 1, 2), 32, scale=1.0)
    thumbnails = (99 * np.arange(4, dtype=np.int16)).reshape(4, 1, 1, 1)
    pictures = Pictures(("a", "b"), ("a/0", "a/1", "b/0", "b/1"), y, {}, thumbnails, "")
    found = find(pictures, logits, logits, kind, 1.0)
    assert [(each.picture, each.taken_for) for each in found.confusions] == [("b/0", "a"), ("a/1", "b")]
    assert found.accuracy == 0.5
    assert found.recall == {"a": 0.5, "b": 0.5}
    assert found.warnings[0].endswith("a 18 more, b 18 more")
