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
from edgemeta.model.preprocess import (
    Rectangle,
    content_rectangle,
    coverage,
    crop_rectangle,
    placement,
    preprocess,
    resize_area,
)

IDENTITY = np.arange(256, dtype=np.uint8)[np.newaxis]
CORNER = Preprocessing("letterbox", "rgb", IDENTITY, align="corner")
CENTER = Preprocessing("letterbox", "rgb", IDENTITY)
side = st.integers(1, 17)
large_side = st.integers(1, 4000)
target_side = st.integers(1, 640)


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


@given(large_side, large_side, target_side, target_side)
def test_a_letterbox_has_the_aspect_of_the_frame(frame_height: int, frame_width: int, height: int, width: int) -> None:
    content = content_rectangle((frame_height, frame_width), (height, width), CENTER)
    scale = min(Fraction(height, frame_height), Fraction(width, frame_width))
    assert content.height == max(1, floor(frame_height * scale + Fraction(1, 2)))
    assert content.width == max(1, floor(frame_width * scale + Fraction(1, 2)))
    margins = height - content.height - content.top, width - content.width - content.left
    assert 0 <= margins[0] - content.top <= 1
    assert 0 <= margins[1] - content.left <= 1
    corner = content_rectangle((frame_height, frame_width), (height, width), CORNER)
    assert corner == Rectangle(0, 0, content.height, content.width)


def test_known_letterboxes() -> None:
    assert content_rectangle((360, 480), (416, 416), CENTER) == Rectangle(52, 0, 312, 416)
    assert content_rectangle((360, 480), (416, 416), CORNER) == Rectangle(0, 0, 312, 416)
    assert content_rectangle((1080, 1920), (640, 640), CENTER) == Rectangle(140, 0, 360, 640)
    assert content_rectangle((1920, 1080), (640, 640), CENTER) == Rectangle(0, 140, 640, 360)
    assert content_rectangle((5, 6), (3, 3), CENTER) == Rectangle(0, 0, 3, 3)  # 2.5 rows: a half rounds up
    assert content_rectangle((1, 1000), (300, 300), CENTER) == Rectangle(149, 0, 1, 300)  # 0.3 rows: at least one
    assert content_rectangle((7, 7), (9, 9), CENTER) == Rectangle(0, 0, 9, 9)
    stretched = Preprocessing("full", "rgb", IDENTITY)
    assert content_rectangle((360, 480), (416, 416), stretched) == Rectangle(0, 0, 416, 416)


@settings(max_examples=60)
@given(side, side, side, side, st.sampled_from(["center", "corner"]), st.integers(0, 2**32 - 1))
def test_a_letterbox_is_the_stretched_frame_inside_its_fill(
    frame_height: int, frame_width: int, height: int, width: int, align: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    frame = rng.integers(0, 256, (frame_height, frame_width, 3), np.uint8)
    table = rng.integers(-128, 128, (3, 256)).astype(np.int8)
    fill = tuple(map(int, rng.integers(0, 256, 3)))
    boxed = Preprocessing("letterbox", "rgb", table, fill, align)
    content = content_rectangle((frame_height, frame_width), (height, width), boxed)
    tensor = preprocess(frame, TensorType((height, width, 3)), boxed)
    expected = np.broadcast_to([table[c, fill[c]] for c in range(3)], (height, width, 3)).copy()
    inside = TensorType((content.height, content.width, 3))
    expected[content.top : content.top + content.height, content.left : content.left + content.width] = preprocess(
        frame, inside, Preprocessing("full", "rgb", table)
    )
    np.testing.assert_array_equal(tensor, expected, strict=True)


def test_one_fill_is_for_all_channels() -> None:
    frame = np.array([[[10, 20, 30]]], np.uint8)
    boxed = Preprocessing("letterbox", "bgr", IDENTITY, (114,), "corner")
    tensor = preprocess(frame, TensorType((1, 2, 3), signed=False), boxed)
    assert tensor.tolist() == [[[10, 20, 30], [114, 114, 114]]]


def test_a_placement_maps_boxes_to_the_frame() -> None:
    """A 480x360 frame in an input of 416x416: scale 480 / 416, 52 rows of fill above where it is centred."""
    shape, target = (360, 480, 3), TensorType((416, 416, 3))
    scale = 480 / 416
    centred = placement(CENTER, target, shape)
    assert (centred.scale_x, centred.scale_y) == (scale, scale)
    assert (centred.offset_x, centred.offset_y) == (0, -52 * scale)
    assert centred.to_frame((0, 52, 416, 364)) == pytest.approx((0, 0, 480, 360))
    assert centred.to_frame((104, 130, 208, 208)) == pytest.approx((120, 90, 240, 180))
    assert placement(CORNER, target, shape).to_frame((104, 78, 208, 156)) == pytest.approx((120, 90, 240, 180))
    stretched = placement(Preprocessing("full", "rgb", IDENTITY), target, shape)
    assert stretched.to_frame((104, 104, 208, 208)) == pytest.approx((120, 90, 240, 180))
    cut = placement(Preprocessing("center", "rgb", IDENTITY), target, shape)
    assert cut.to_frame((0, 0, 416, 416)) == pytest.approx((60, 0, 420, 360))


def test_boxes_are_clipped_to_the_frame() -> None:
    centred = placement(CENTER, TensorType((416, 416, 3)), (360, 480, 3))
    assert centred.to_frame((-30, 0, 500, 416)) == (0, 0, 480, 360)
    assert centred.to_frame((10, 0, 20, 40))[1::2] == (0, 0)
    cut = placement(Preprocessing("center", "rgb", IDENTITY), TensorType((36, 36, 3)), (360, 480))
    assert cut.to_frame((-9, 0, 40, 36)) == (0, 0, 460, 360)  # beyond the crop, but inside the frame


@settings(max_examples=60)
@given(
    frame_size=st.tuples(st.integers(40, 200), st.integers(40, 200)),
    size=st.tuples(st.integers(40, 200), st.integers(40, 200)),
    crop=st.sampled_from(["center", "full", "letterbox"]),
    align=st.sampled_from(["center", "corner"]),
)
def test_what_is_seen_in_the_input_lies_there_in_the_frame(frame_size, size, crop, align) -> None:
    """A white rectangle on black: the pixels of the input that it touches map to its sides, to one of their pixels."""
    rows, columns = frame_size
    top, left, bottom, right = rows * 2 // 5, columns * 2 // 5, rows * 3 // 5, columns * 3 // 5
    frame = np.zeros((rows, columns), np.uint8)
    frame[top:bottom, left:right] = 255
    target = TensorType((*size, 1), signed=False)
    preprocessing = Preprocessing(crop, "gray", IDENTITY, align=align)
    seen = preprocess(frame, target, preprocessing)[:, :, 0]
    ys, xs = np.nonzero(seen)
    place = placement(preprocessing, target, frame.shape)
    box = place.to_frame((xs.min(), ys.min(), xs.max() + 1, ys.max() + 1))
    cut = crop_rectangle(frame_size, size, crop)
    left, right = np.clip((left, right), cut.left, cut.left + cut.width)
    top, bottom = np.clip((top, bottom), cut.top, cut.top + cut.height)
    allowed = max(place.scale_x, place.scale_y)
    assert np.abs(np.array(box) - (left, top, right, bottom)).max() <= allowed + 1e-9


@pytest.mark.parametrize("colour", ["r", "g", "b", "y", "a", "rg", "yyy", "bgra", "argb", "yrgb", "rgby", "ya"])
def test_channels_in_any_order(colour: str) -> None:
    """Each channel holds what its letter names, of colour frames and of gray ones."""
    target = TensorType((1, 1, len(colour)), signed=False)
    for frame, planes in (
        (np.array([[[10, 20, 30]]], np.uint8), {"r": 30, "g": 20, "b": 10, "y": 22, "a": 255}),
        (np.array([[77]], np.uint8), {"r": 77, "g": 77, "b": 77, "y": 77, "a": 255}),
    ):
        tensor = preprocess(frame, target, Preprocessing("full", colour, IDENTITY))
        assert tensor.tolist() == [[[planes[letter] for letter in colour]]]


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
