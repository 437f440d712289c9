"""JPEG frames: correct, small, encoded only on request and at a limited rate."""

from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.web import jpeg as module
from edgemeta.daemon.web.jpeg import LONGEST_SIDE, EncodedFrame, JpegEncoder, encode
from edgemeta.daemon.web.recent_frames import RecentFrames
from tests.daemon.web.conftest import Labels


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The brightness of every picture that was encoded."""
    values: list[int] = []

    def counting(pixels: Any) -> bytes:
        values.append(int(pixels[0, 0, 0]))
        return encode(pixels)

    monkeypatch.setattr(module, "encode", counting)
    return values


def add(seen: RecentFrames, camera: str, value: int) -> None:
    step: Any = Labels("cat", 0.5, None)
    seen.add(CapturedFrame(camera, 1, Frame(np.full((48, 64, 3), value, np.uint8), value), 0), step)


def brightness(encoded: EncodedFrame | None) -> int:
    assert encoded is not None
    return int(cv2.imdecode(np.frombuffer(encoded.jpeg, np.uint8), cv2.IMREAD_COLOR)[24, 32, 0])


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((480, 640), (480, 640)),
        ((1080, 1920), (540, LONGEST_SIDE)),
        ((3000, 40), (LONGEST_SIDE, 13)),
        ((2, 9000), (1, LONGEST_SIDE)),
        ((1, 1), (1, 1)),
    ],
)
def test_a_frame_is_a_jpeg_that_fits_a_screen(shape: tuple[int, int], expected: tuple[int, int]) -> None:
    blue = np.zeros((*shape, 3), np.uint8)
    blue[..., 0] = 200
    jpeg = encode(blue)
    assert jpeg.startswith(b"\xff\xd8")
    picture = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert picture.shape[:2] == expected
    np.testing.assert_allclose(picture[0, 0], (200, 0, 0), atol=6)


def test_nothing_is_encoded_without_a_request_or_twice(made: list[int]) -> None:
    seen, clock = RecentFrames(["a"], keep_pixels=True), Clock()
    pictures = JpegEncoder(seen, 10, clock)
    for value in range(50):
        add(seen, "a", value)
    assert made == []
    for _ in range(20):
        assert brightness(pictures.picture("a")) == 49
        clock.now += 1
    assert made == [49]


def test_the_rate_is_shared_by_all_cameras(made: list[int]) -> None:
    seen, clock = RecentFrames(["a", "b"], keep_pixels=True), Clock()
    pictures = JpegEncoder(seen, 4, clock)
    for step in range(1000):  # ten seconds of a greedy viewer
        for camera in ("a", "b"):
            add(seen, camera, step % 200)
        for _ in range(3):
            assert pictures.picture("a") is not None
        assert pictures.picture("b") is not None
        clock.now += 0.01
    assert len(made) == pytest.approx(40, abs=2)


def test_no_jpeg_before_the_first_frame_or_if_frames_are_not_shown() -> None:
    assert JpegEncoder(RecentFrames(["a"], keep_pixels=True), 10).picture("a") is None
    seen = RecentFrames(["a"], keep_pixels=False)
    add(seen, "a", 1)
    assert JpegEncoder(seen, 10).picture("a") is None
