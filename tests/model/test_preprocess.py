"""The frame's way to integers, against exact fractions computed pixel by pixel."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import Rectangle, coverage, crop_rectangle, preprocess, resize_area

IDENTITY = np.arange(256, dtype=np.uint8)[np.newaxis]
side = st.integers(1, 17)


def overlap(i: int, target: int, j: int, source: int) -> Fraction:
    """Share of output pixel i that lies in source pixel j, both axes scaled to length 1."""
    left = max(Fraction(i, target), Fraction(j, source))
    right = min(Fraction(i + 1, target), Fraction(j + 1, source))
    return max(Fraction(0), right - left) * target


def plain_resize(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    source_height, source_width, channels = pixels.shape
    result = np.zeros((height, width, channels), np.uint8)
    for i, j, c in np.ndindex(height, width, channels):
        mean = sum(
            overlap(i, height, y, source_height) * overlap(j, width, x, source_width) * int(pixels[y, x, c])
            for y in range(source_height)
            for x in range(source_width)
        )
        result[i, j, c] = floor(mean + Fraction(1, 2))
    return result


@given(side, side)
def test_coverage_is_the_exact_overlap(source: int, target: int) -> None:
    spans = coverage(source, target)
    assert len(spans) == target
    for i, span in enumerate(spans):
        total = int(span.weights.sum())
        assert (span.weights > 0).all()
        dense = [Fraction(0)] * source
        for offset, weight in enumerate(span.weights):
            dense[span.start + offset] = Fraction(int(weight), total)
        assert dense == [overlap(i, target, j, source) for j in range(source)]


@settings(max_examples=40)
@given(side, side, st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.integers(0, 2**32 - 1))
@pytest.mark.gate("5 s of fractions")
def test_resize_equals_exact_fractions(
    source_height: int, source_width: int, height: int, width: int, channels: int, seed: int
) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (source_height, source_width, channels), dtype=np.uint8)
    np.testing.assert_array_equal(resize_area(pixels, height, width), plain_resize(pixels, height, width))


def test_half_rounds_up() -> None:
    assert resize_area(np.array([[[0], [1]]], np.uint8), 1, 1).item() == 1
    assert resize_area(np.array([[[254], [255]]], np.uint8), 1, 1).item() == 255


@given(st.integers(1, 4000), st.integers(1, 4000), st.integers(1, 300), st.integers(1, 300))
def test_centre_crop_is_inside_and_has_the_aspect(frame_height: int, frame_width: int, height: int, width: int) -> None:
    region = crop_rectangle((frame_height, frame_width), (height, width), "center")
    assert region.top >= 0
    assert region.top + region.height <= frame_height
    assert region.left >= 0
    assert region.left + region.width <= frame_width
    assert region.height == frame_height or region.width == frame_width
    # One pixel less than the exact aspect at most, on the side that was cut.
    assert abs(region.width * height - region.height * width) < max(height, width) or 1 in (region.width, region.height)
    margins = frame_height - region.height - region.top, frame_width - region.width - region.left
    assert 0 <= margins[0] - region.top <= 1
    assert 0 <= margins[1] - region.left <= 1


def test_known_rectangles() -> None:
    assert crop_rectangle((480, 640), (32, 32), "center") == Rectangle(0, 80, 480, 480)
    assert crop_rectangle((641, 480), (32, 32), "center") == Rectangle(80, 0, 480, 480)
    assert crop_rectangle((480, 640), (32, 32), "full") == Rectangle(0, 0, 480, 640)
    assert crop_rectangle((1, 1000), (300, 1), "center") == Rectangle(0, 499, 1, 1)


def test_colour_orders_and_table() -> None:
    frame = np.array([[[10, 20, 30]]], np.uint8)
    table = np.stack([np.arange(256) - 128, np.zeros(256), np.full(256, 7)]).astype(np.int8)
    target = TensorType((1, 1, 3))
    rgb = preprocess(frame, target, Preprocessing("full", "rgb", table))
    assert rgb.dtype == np.int8
    assert rgb.tolist() == [[[30 - 128, 0, 7]]]
    assert preprocess(frame, target, Preprocessing("full", "bgr", IDENTITY)).tolist() == [[[10, 20, 30]]]
    gray = preprocess(frame, TensorType((1, 1, 1), signed=False), Preprocessing("full", "gray", IDENTITY))
    assert gray.tolist() == [[[(4899 * 30 + 9617 * 20 + 1868 * 10 + 8192) >> 14]]]


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_gray_is_the_weighted_sum_rounded_half_up(bgr: tuple[int, int, int]) -> None:
    exact = Fraction(1868 * bgr[0] + 9617 * bgr[1] + 4899 * bgr[2], 2**14)
    frame = np.array([[bgr]], np.uint8)
    gray = preprocess(frame, TensorType((1, 1, 1), signed=False), Preprocessing("full", "gray", IDENTITY))
    assert gray.item() == floor(exact + Fraction(1, 2))


@given(st.integers(0, 255))
def test_gray_pixels_stay_gray(level: int) -> None:
    colour, gray = np.full((3, 5, 3), level, np.uint8), np.full((3, 5), level, np.uint8)
    one, three = TensorType((2, 2, 1), signed=False), TensorType((2, 2, 3), signed=False)
    for frame in (colour, gray):
        assert (preprocess(frame, one, Preprocessing("center", "gray", IDENTITY)) == level).all()
        assert preprocess(frame, three, Preprocessing("center", "rgb", IDENTITY)).tolist() == [[[level] * 3] * 2] * 2


@pytest.mark.parametrize("shape", [(48, 64, 3), (32, 32, 3), (40, 20)])
def test_the_tensor_is_contiguous(shape: tuple[int, ...]) -> None:
    """Compiled backends read it as plain memory."""
    for colour in ("rgb", "bgr"):
        table = np.zeros((3, 256), np.int8)
        tensor = preprocess(np.zeros(shape, np.uint8), TensorType((32, 32, 3)), Preprocessing("center", colour, table))
        assert tensor.flags.c_contiguous


def test_one_pixel_is_enlarged_to_the_input() -> None:
    frame = np.array([[[1, 2, 3]]], np.uint8)
    tensor = preprocess(frame, TensorType((32, 32, 3), signed=False), Preprocessing("center", "rgb", IDENTITY))
    assert (tensor == [3, 2, 1]).all()
    assert tensor.shape == (32, 32, 3)


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (np.zeros((2, 2, 3), np.float32), "type float32, expected uint8"),
        (np.zeros((2, 2, 4), np.uint8), r"shape \[2, 2, 4\], expected \[H, W, 3\]"),
        (np.zeros(5, np.uint8), r"shape \[5\]"),
        (np.zeros((0, 5, 3), np.uint8), "at least one pixel"),
        (np.zeros((5, 0), np.uint8), "at least one pixel"),
    ],
)
def test_invalid_frames_are_refused(frame: np.ndarray, sentence: str) -> None:
    with pytest.raises(FrameError, match=sentence):
        preprocess(frame, TensorType((1, 1, 3)), Preprocessing("full", "rgb", IDENTITY))
