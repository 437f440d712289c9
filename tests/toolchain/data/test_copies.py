"""Pictures with equal pixels are found."""

from typing import Any

import numpy as np

from edgemeta.toolchain.data.copies import contradictions, picture_digests


def test_digests_tell_pictures_apart(pixels: Any) -> None:
    digests = picture_digests(pixels)
    assert len(set(digests)) == 20
    assert picture_digests(np.asfortranarray(pixels)) == digests


def test_one_picture_under_two_classes(pixels: Any, classes: Any) -> None:
    assert contradictions(pixels, classes) == []
    pixels[13] = pixels[2]
    pixels[12] = pixels[2]  # both of class 2
    assert contradictions(pixels, classes) == [(2, 13)]
