"""Frame checks: empty, another size, frozen, black."""

import numpy as np
import pytest

from edgemeta.daemon.capture.frame_check import BLACK, GRID, FrameCheck
from edgemeta.daemon.capture.source import Frame, Pixels, SourceError

SECOND = 10**9
NOISE = np.random.default_rng(0).integers(40, 200, (100, 48, 64, 3)).astype(np.uint8)


def look(check: FrameCheck, pixels: Pixels, seconds: float) -> str | None:
    return check.check(Frame(pixels, round(seconds * SECOND)))


def test_frames_with_noise_are_accepted() -> None:
    check = FrameCheck(frozen_after=0.5, black_after=0.5)
    assert [look(check, picture, number) for number, picture in enumerate(NOISE)] == [None] * len(NOISE)


def test_identical_frames_for_too_long_are_frozen_at_any_frame_rate() -> None:
    check = FrameCheck(frozen_after=30, black_after=10)
    for tenth in range(301):
        assert look(check, NOISE[0].copy(), tenth / 10) is None
    with pytest.raises(SourceError, match=r"frozen: identical frames for 30 s"):
        look(check, NOISE[0].copy(), 30.1)


def test_one_changed_pixel_anywhere_is_motion() -> None:
    """Also beside the grid that is looked at first."""
    check = FrameCheck(frozen_after=1, black_after=None)
    picture = NOISE[0]
    for second in range(100):
        picture = picture.copy()
        picture[GRID - 1, GRID + 1, 2] ^= 1
        assert look(check, picture, second) is None


def test_the_check_for_frozen_frames_can_be_disabled() -> None:
    check = FrameCheck(frozen_after=None, black_after=None)
    assert {look(check, NOISE[0], second) for second in range(1000)} == {None}


def test_black_frames_are_reported_without_an_error() -> None:
    check = FrameCheck(frozen_after=None, black_after=10)
    dark = np.full((48, 64, 3), BLACK, np.uint8)
    lit = dark.copy()
    lit[GRID, GRID, 1] = BLACK + 1
    told = [look(check, lit if second in (0, 20) else dark, second) for second in range(40)]
    description = "black for 10 s or longer"
    assert told == [None] * 11 + [description] * 9 + [None] * 11 + [description] * 9


def test_dark_frames_with_noise_are_black_but_not_frozen() -> None:
    check = FrameCheck(frozen_after=1, black_after=1)
    for second, picture in enumerate(NOISE % BLACK):
        assert (look(check, picture, second) is None) == (second <= 1)


def test_another_frame_size_is_an_error() -> None:
    check = FrameCheck(frozen_after=None, black_after=None)
    look(check, NOISE[0], 0)
    with pytest.raises(SourceError, match="frame size changed from 64x48 to 32x48"):
        look(check, NOISE[1][:, :32], 1)


@pytest.mark.parametrize("shape", [(0, 64, 3), (48, 0, 3), (0, 0, 3)])
def test_an_empty_frame_is_an_error(shape: tuple[int, int, int]) -> None:
    with pytest.raises(SourceError, match="the frame is empty"):
        look(FrameCheck(frozen_after=1, black_after=1), np.zeros(shape, np.uint8), 0)
