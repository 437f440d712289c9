"""The time that is drawn into a picture is read from what arrives of it."""

import os

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliability.many_cameras import BITS, age_ms, processes, stamped, time_of, used


@pytest.mark.parametrize(("size", "shown"), [((640, 360), (640, 360)), ((1920, 1080), (960, 540))])
@given(milliseconds=st.integers(0, (1 << BITS) - 1))
def test_a_drawn_time_is_read_from_a_jpeg(size: tuple[int, int], shown: tuple[int, int], milliseconds: int) -> None:
    frame = np.random.default_rng(1).integers(0, 256, size[::-1]).astype(np.uint8)
    picture = cv2.resize(stamped(frame, milliseconds), shown, interpolation=cv2.INTER_AREA)
    jpeg = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 60])[1]
    assert time_of(np.asarray(cv2.imdecode(jpeg, cv2.IMREAD_GRAYSCALE), np.uint8)) == milliseconds


def test_an_age_is_small_where_the_time_has_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic_ns", lambda: ((1 << BITS) + 5) * 1_000_000)
    assert age_ms((1 << BITS) - 10) == 15


def test_what_a_process_uses() -> None:
    assert next(processes(os.getpid())) == os.getpid()
    found = used(os.getpid())
    assert 10 < found["megabytes"] < 10_000
    assert found["threads"] >= 1
    assert found["seconds"] > 0
