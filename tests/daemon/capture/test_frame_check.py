"""Frame checks: empty, another size, black; `test_still_picture.py` has frozen ones."""

import numpy as np
import pytest

from edgemeta.daemon.capture.frame_check import BLACK, FrameCheck
from edgemeta.daemon.capture.source import Frame, Pixels, SourceError

SECOND = 10**9
NOISE = np.random.default_rng(0).integers(40, 200, (100, 48, 64, 3)).astype(np.uint8)
DARK = np.full((48, 64, 3), BLACK, np.uint8)


def look(check: FrameCheck, pixels: Pixels, seconds: float) -> tuple[bool, bool]:
    """Check a frame; return whether the picture is frozen, and whether it is black."""
    check.check(Frame(pixels, round(seconds * SECOND)))
    return check.frozen, check.black


def test_frames_with_noise_are_accepted() -> None:
    check = FrameCheck(frozen_after=0.5, black_after=0.5)
    assert {look(check, picture, number) for number, picture in enumerate(NOISE)} == {(False, False)}


def test_a_repeated_picture_is_frozen_until_it_changes_at_any_frame_rate() -> None:
    check = FrameCheck(frozen_after=30, black_after=10)
    reported = [look(check, NOISE[0].copy(), tenth / 10)[0] for tenth in range(400)]
    assert reported.index(True) in range(300, 310)
    assert all(reported[310:])
    assert look(check, NOISE[1], 40.5) == (False, False)


def test_the_check_for_frozen_pictures_can_be_disabled() -> None:
    check = FrameCheck(frozen_after=None, black_after=None)
    assert {look(check, NOISE[0], second) for second in range(1000)} == {(False, False)}


def test_a_frozen_picture_stays_frozen_over_a_reopening() -> None:
    check = FrameCheck(frozen_after=4, black_after=None)
    for tenth in range(60):
        look(check, NOISE[0], tenth / 10)
    check.begin()
    assert look(check, NOISE[0], 100) == (True, False)
    check.begin()
    assert look(check, NOISE[1], 200) == (False, False)


def test_black_pictures_are_black_until_one_is_not() -> None:
    check = FrameCheck(frozen_after=None, black_after=10)
    lit = DARK.copy()
    lit[8:16, 8:16, 1] = 200
    reported = [look(check, lit if second in (0, 20) else DARK, second)[1] for second in range(40)]
    assert reported == [False] * 11 + [True] * 9 + [False] * 11 + [True] * 9


def test_dark_pictures_with_noise_are_black_but_not_frozen() -> None:
    check = FrameCheck(frozen_after=1, black_after=1)
    for second, picture in enumerate(NOISE % BLACK):
        assert look(check, picture, second) == (False, second > 1)


def test_a_dark_street_is_not_black() -> None:
    """Nothing is brighter than black, but there is something to see."""
    check = FrameCheck(frozen_after=None, black_after=1)
    street = np.repeat(np.linspace(0, BLACK, 48).astype(np.uint8)[:, None, None], 64, 1).repeat(3, 2)
    assert {look(check, street, second) for second in range(10)} == {(False, False)}


def test_a_lamp_in_the_dark_is_not_black() -> None:
    check = FrameCheck(frozen_after=None, black_after=1)
    street = np.zeros((360, 640, 3), np.uint8)
    street[100:110, 200:210] = 255
    assert {look(check, street, second) for second in range(10)} == {(False, False)}


def test_black_with_a_running_clock_is_black() -> None:
    check = FrameCheck(frozen_after=4, black_after=4)
    reported = []
    for tenth in range(200):
        picture = np.zeros((360, 640, 3), np.uint8)
        picture[4:16, 20 : 40 + tenth // 10 % 2 * 20] = 255
        reported.append(look(check, picture, tenth / 10))
    assert all(reported[150:])


def test_another_frame_size_is_an_error() -> None:
    check = FrameCheck(frozen_after=None, black_after=None)
    look(check, NOISE[0], 0)
    with pytest.raises(SourceError, match="frame size changed from 64x48 to 32x48"):
        look(check, NOISE[1][:, :32], 1)
    check.begin()
    look(check, NOISE[1][:, :32], 2)


@pytest.mark.parametrize("shape", [(0, 64, 3), (48, 0, 3), (0, 0, 3)])
def test_an_empty_frame_is_an_error(shape: tuple[int, int, int]) -> None:
    with pytest.raises(SourceError, match="the frame is empty"):
        look(FrameCheck(frozen_after=1, black_after=1), np.zeros(shape, np.uint8), 0)
