"""Frames preprocessed in C++ equal the definition for all sizes, colours, crops and row strides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.kernels.cpu import library
from edgemeta.kernels.cpu.library import ISA_NAMES, best_isa
from edgemeta.kernels.cpu.preprocess import Resizer
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Preprocessing
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import preprocess
from edgemeta.plugins.preprocess import make_preprocessor
from tests.conformance.cases import Case

ISAS = ISA_NAMES[1 : ISA_NAMES.index(best_isa()) + 1]
SIDES = st.one_of(st.integers(1, 40), st.integers(1, 300), st.sampled_from([32, 64, 480, 640]))


@settings(max_examples=150, deadline=None)
@given(
    frame_size=st.tuples(SIDES, SIDES),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    gray_frame=st.booleans(),
    colour=st.sampled_from(["rgb", "bgr", "gray"]),
    crop=st.sampled_from(["center", "full"]),
    fill=st.sampled_from([None, 0, 255]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_instruction_set_equals_the_definition(frame_size, size, gray_frame, colour, crop, fill, seed) -> None:
    rng = np.random.default_rng(seed)
    shape = frame_size if gray_frame else (*frame_size, 3)
    frame = rng.integers(0, 256, shape).astype(np.uint8) if fill is None else np.full(shape, fill, np.uint8)
    channels = 1 if colour == "gray" else 3
    target = TensorType((*size, channels), signed=bool(rng.integers(2)))
    table = rng.integers(target.lo, target.hi + 1, (rng.choice([1, channels]), 256)).astype(target.dtype)
    preprocessing = Preprocessing(crop, colour, table)
    expected = preprocess(frame, target, preprocessing)
    for isa in ISAS:
        tensor = np.zeros(target.shape, target.dtype)
        Resizer(frame.shape, target, preprocessing, isa).run(frame, tensor)
        np.testing.assert_array_equal(tensor, expected, err_msg=isa)


@pytest.mark.parametrize(
    "shape", [(480, 640, 3), (481, 641, 3), (1080, 1920, 3), (2161, 3839, 3), (9001, 7), (3, 70001)]
)
@pytest.mark.parametrize("value", [None, 255])
def test_large_frames_do_not_overflow(shape: tuple[int, ...], value: int | None) -> None:
    rng = np.random.default_rng(1)
    frame = rng.integers(0, 256, shape, np.uint8) if value is None else np.full(shape, value, np.uint8)
    target = TensorType((32, 32, 3), signed=False)
    preprocessing = Preprocessing("full", "rgb", np.arange(256, dtype=np.uint8)[np.newaxis])
    expected = preprocess(frame, target, preprocessing)
    for isa in ISAS:
        tensor = np.zeros(target.shape, np.uint8)
        Resizer(frame.shape, target, preprocessing, isa).run(frame, tensor)
        np.testing.assert_array_equal(tensor, expected, err_msg=isa)


def test_rows_may_be_strided_reversed_or_mirrored(resnet8: Case) -> None:
    rng = np.random.default_rng(2)
    whole = rng.integers(0, 256, (90, 120, 3)).astype(np.uint8)
    views = [whole[5:65, 10:90], whole[::2, :80][:40], whole[60:0:-1, :80], whole[:60, 100:20:-1], whole[..., ::-1]]
    for view in views:
        prepare = make_preprocessor(resnet8.model, view.shape)
        expected = preprocess(view, resnet8.model.input, resnet8.model.preprocessing)
        np.testing.assert_array_equal(prepare(view)[0], expected, strict=True)


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


def test_without_the_library_the_reference_is_used_with_a_warning(
    resnet8: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EDGEMETA_CPU_LIBRARY", "/nowhere/libedgemeta_cpu.so")
    library.library.cache_clear()
    try:
        prepare = make_preprocessor(resnet8.model, (50, 40, 3))
        frame = np.random.default_rng(3).integers(0, 256, (50, 40, 3)).astype(np.uint8)
        expected = preprocess(frame, resnet8.model.input, resnet8.model.preprocessing)
        np.testing.assert_array_equal(prepare(frame)[0], expected, strict=True)
        assert "slow NumPy reference: the C++ library /nowhere/libedgemeta_cpu.so is missing" in caplog.text
    finally:
        library.library.cache_clear()
