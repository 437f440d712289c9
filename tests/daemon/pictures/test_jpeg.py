"""JPEGs of at most so many bytes, read back by OpenCV."""

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.pictures.jpeg import LEAST_SIDE, encode, fitted, scaled

NOISE = np.random.default_rng(0).integers(0, 256, (480, 640, 3)).astype(np.uint8)
"""Nothing takes more bytes as JPEG."""


def decoded(jpeg: bytes) -> Pixels:
    pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    return np.asarray(pixels, np.uint8)


@pytest.mark.parametrize("most", [10_000_000, 300_000, 150_000, 60_000, 20_000, 6_000])
def test_a_picture_has_at_most_so_many_bytes_and_its_shape(most: int) -> None:
    jpeg = fitted(NOISE, most, 80)
    assert jpeg is not None
    assert len(jpeg) <= most
    height, width = decoded(jpeg).shape[:2]
    assert abs(width / height - 4 / 3) < 0.05
    assert max(height, width) >= LEAST_SIDE


def test_quality_goes_before_size() -> None:
    whole, half = len(encode(NOISE, 80)), len(encode(NOISE, 30))
    jpeg = fitted(NOISE, half, 80)
    assert half < whole
    assert jpeg is not None
    assert decoded(jpeg).shape == NOISE.shape


def test_what_fits_is_not_changed_and_what_fits_at_no_size_is_none() -> None:
    assert fitted(NOISE, 10_000_000, 80) == encode(NOISE, 80)
    assert fitted(NOISE, 400, 80) is None
    assert fitted(NOISE[:1, :1], 10, 80) is None


@pytest.mark.parametrize(("shape", "side", "expected"), [((480, 640), 320, (240, 320)), ((9, 3), 99, (9, 3))])
def test_a_larger_picture_is_scaled_to_its_longest_side(
    shape: tuple[int, int], side: int, expected: tuple[int, int]
) -> None:
    assert scaled(np.zeros((*shape, 3), np.uint8), side).shape[:2] == expected
