"""Frames preprocessed in C++ equal the definition for all sizes, colours, crops and row strides."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.kernels.cpu import library
from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.kernels.cpu.preprocess import Resizer
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import Rectangle, preprocess
from edgemeta.plugins.preprocess import make_preprocessor
from tests.conformance.cases import Case

ISAS = supported_isas()
SIDES = st.one_of(st.integers(1, 40), st.integers(1, 300), st.sampled_from([32, 64, 480, 640]))


COLOURS = ["rgb", "bgr", "gray", "r", "a", "yy", "bg", "rrb", "yrg", "gba", "rgba", "abgr", "yrgb"]


def make_table(kind: str, target: TensorType, rng: np.random.Generator) -> np.ndarray:
    """A table of the target's type: any values for each channel or for all, or the plain pixel - 128 or pixel."""
    channels = target.shape[2]
    if kind == "plain":
        return (np.arange(256) + target.lo).astype(target.dtype)[np.newaxis]
    return rng.integers(target.lo, target.hi + 1, (channels if kind == "channels" else 1, 256)).astype(target.dtype)


def assert_equal_to_the_definition(frame: np.ndarray, target: TensorType, preprocessing: Preprocessing) -> None:
    expected = preprocess(frame, target, preprocessing)
    for isa in ISAS:
        tensor = np.full(target.shape, 77, target.dtype)
        Resizer(frame.shape, target, preprocessing, isa).run(frame, tensor)
        np.testing.assert_array_equal(tensor, expected, err_msg=isa)


@settings(max_examples=200, deadline=None)
@given(
    frame_size=st.tuples(SIDES, SIDES),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    gray_frame=st.booleans(),
    colour=st.sampled_from(COLOURS),
    crop=st.sampled_from(["center", "full", "letterbox", "letterbox"]),
    align=st.sampled_from(["center", "corner"]),
    table=st.sampled_from(["plain", "channels", "one"]),
    value=st.sampled_from([None, 0, 255]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_instruction_set_equals_the_definition(
    frame_size, size, gray_frame, colour, crop, align, table, value, seed
) -> None:
    rng = np.random.default_rng(seed)
    shape = frame_size if gray_frame else (*frame_size, 3)
    frame = rng.integers(0, 256, shape).astype(np.uint8) if value is None else np.full(shape, value, np.uint8)
    target = TensorType((*size, len(channels_of(colour))), signed=bool(rng.integers(2)))
    fill = tuple(map(int, rng.integers(0, 256, rng.choice([1, target.shape[2]]))))
    border = (fill, align) if crop == "letterbox" else ()
    assert_equal_to_the_definition(frame, target, Preprocessing(crop, colour, make_table(table, target, rng), *border))


@pytest.mark.gate("10 s: the reference on large pictures")
@pytest.mark.parametrize("colour", ["rgb", "bgr", "gray"])
@pytest.mark.parametrize("crop", ["center", "full", "letterbox"])
@pytest.mark.parametrize(
    ("frame_size", "size"),
    [
        ((360, 480), (416, 416)),
        ((480, 640), (640, 640)),
        ((640, 640), (640, 640)),
        ((1080, 1920), (640, 640)),
        ((1081, 607), (640, 639)),
        ((57, 43), (640, 480)),
    ],
)
def test_large_inputs(frame_size, size, crop, colour) -> None:
    rng = np.random.default_rng(4)
    frame = rng.integers(0, 256, (*frame_size, 3)).astype(np.uint8)
    target = TensorType((*size, len(channels_of(colour))))
    assert_equal_to_the_definition(frame, target, Preprocessing(crop, colour, make_table("plain", target, rng)))


@pytest.mark.parametrize(
    "shape", [(480, 640, 3), (481, 641, 3), (1080, 1920, 3), (2161, 3839, 3), (9001, 7), (3, 70001)]
)
@pytest.mark.parametrize("value", [None, 255])
def test_large_frames_do_not_overflow(shape: tuple[int, ...], value: int | None) -> None:
    rng = np.random.default_rng(1)
    frame = rng.integers(0, 256, shape, np.uint8) if value is None else np.full(shape, value, np.uint8)
    target = TensorType((32, 32, 3), signed=False)
    preprocessing = Preprocessing("full", "rgb", np.arange(256, dtype=np.uint8)[np.newaxis])
    assert_equal_to_the_definition(frame, target, preprocessing)


@pytest.mark.parametrize("sides", [(90, 91), (1, 8191), (64, 128), (2, 8191), (255, 257), (2047, 4099)])
def test_means_at_the_border_between_two_integers(sides: tuple[int, int]) -> None:
    """The mean of all pixels is k - 1/2, which rounds up, or one unit of the sum less; in float below 2**13 pixels."""
    count, target = sides[0] * sides[1], TensorType((1, 1, 1), signed=False)
    preprocessing = Preprocessing("full", "gray", np.arange(256, dtype=np.uint8)[np.newaxis])
    for level in (1, 85, 128, 255):
        least = -(-(2 * level - 1) * count // 2)  # the least sum whose mean is at least level - 1/2
        for total, expected in ((least, level), (least - 1, level - 1)):
            frame = np.full(count, total // count, np.uint8)
            frame[: total % count] += 1
            assert_equal_to_the_definition(frame.reshape(sides), target, preprocessing)
            assert preprocess(frame.reshape(sides), target, preprocessing).item() == expected


def test_rows_may_be_strided_reversed_or_mirrored(resnet8: Case) -> None:
    rng = np.random.default_rng(2)
    whole = rng.integers(0, 256, (90, 120, 3)).astype(np.uint8)
    views = [whole[5:65, 10:90], whole[::2, :80][:40], whole[60:0:-1, :80], whole[:60, 100:20:-1], whole[..., ::-1]]
    for view in views:
        prepare = make_preprocessor(resnet8.model, view.shape)
        expected = preprocess(view, resnet8.model.input, resnet8.model.preprocessing)
        np.testing.assert_array_equal(prepare(view)[0], expected, strict=True)


@pytest.mark.parametrize("shape", [(90, 120, 3), (90, 120)])
def test_regions_become_a_batch(resnet8: Case, shape: tuple[int, ...]) -> None:
    """Each region is preprocessed as a frame of its own, also those of different sizes and of a strided frame."""
    frame = np.random.default_rng(5).integers(0, 256, (2 * shape[0], *shape[1:])).astype(np.uint8)[::2]
    regions = (Rectangle(0, 0, 60, 80), Rectangle(30, 40, 60, 80), Rectangle(89, 119, 1, 1), Rectangle(0, 0, 90, 120))
    batch = make_preprocessor(resnet8.model, shape, regions)(frame)
    assert batch.shape == (4, 32, 32, 3)
    for region, tensor in zip(regions, batch, strict=True):
        part = frame[region.top : region.top + region.height, region.left : region.left + region.width]
        expected = preprocess(part, resnet8.model.input, resnet8.model.preprocessing)
        np.testing.assert_array_equal(tensor, expected, strict=True)


@pytest.mark.parametrize(
    "region", [Rectangle(-1, 0, 4, 4), Rectangle(0, 5, 4, 4), Rectangle(0, 0, 9, 1), Rectangle(2, 2, 0, 1)]
)
def test_a_region_outside_is_refused(resnet8: Case, region: Rectangle) -> None:
    with pytest.raises(FrameError, match=r"a region has .*, expected one inside the frame of shape \[8, 8, 3\]"):
        make_preprocessor(resnet8.model, (8, 8, 3), [Rectangle(0, 0, 8, 8), region])


def test_the_preprocessor_reuses_its_tensor(resnet8: Case) -> None:
    prepare = make_preprocessor(resnet8.model, (48, 64, 3))
    first = prepare(np.zeros((48, 64, 3), np.uint8))
    assert first.shape == (1, 32, 32, 3)
    second = prepare(np.full((48, 64, 3), 255, np.uint8))
    assert first is second
    assert (second == resnet8.model.preprocessing.table[0, 255]).all()


@pytest.mark.parametrize("shape", [(), (4,), (4, 4, 1), (4, 4, 4), (0, 4, 3), (4, 4, 3, 1)])
def test_an_invalid_frame_shape_is_refused(resnet8: Case, shape: tuple[int, ...]) -> None:
    with pytest.raises(FrameError, match=r"expected \[H, W, 3\] or \[H, W\]"):
        make_preprocessor(resnet8.model, shape)


def test_a_frame_of_another_shape_is_refused(resnet8: Case) -> None:
    prepare = make_preprocessor(resnet8.model, (8, 8, 3))
    for frame in (np.zeros((8, 9, 3), np.uint8), np.zeros((8, 8), np.uint8), np.zeros((8, 8, 3), np.int8)):
        with pytest.raises(FrameError, match=r"a frame is .*, expected uint8 \[8, 8, 3\]"):
            prepare(frame)


def test_without_the_library_the_reference_is_used_with_one_warning(
    resnet8: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    missing = tmp_path / "libedgemeta_cpu.so"
    monkeypatch.setenv("EDGEMETA_CPU_LIBRARY", str(missing))
    library.library.cache_clear()
    try:
        prepare = make_preprocessor(resnet8.model, (50, 40, 3))
        frame = np.random.default_rng(3).integers(0, 256, (50, 40, 3)).astype(np.uint8)
        expected = preprocess(frame, resnet8.model.input, resnet8.model.preprocessing)
        np.testing.assert_array_equal(prepare(frame)[0], expected, strict=True)
        make_preprocessor(resnet8.model, (40, 50, 3))
        (warning,) = [each.getMessage() for each in caplog.records]
        assert f"slow NumPy reference: the C++ library {missing} is missing" in warning
    finally:
        library.library.cache_clear()
