"""What frames say about their camera, and when they were captured."""

from collections.abc import Iterator

import numpy as np
import pytest

from edgemeta.daemon.capture.liveness import BLACK, Damage, FrameCheck, Liveness
from edgemeta.daemon.capture.source import Frame, Pixels, SourceError
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.runtime.clock import NS

CHANCE = np.random.default_rng(0)

SECOND = 10**9
NOISE = np.random.default_rng(0).integers(40, 200, (100, 48, 64, 3)).astype(np.uint8)
DARK = np.full((48, 64, 3), BLACK, np.uint8)


def lively(arrivals: Iterator[tuple[float, float]], busy: bool = False) -> Iterator[Frame]:
    """Frames with noise that arrive at these seconds and have those in their stream."""
    for arrived, stream in arrivals:
        pixels = CHANCE.integers(0, 255, (18, 32, 3), np.uint8)
        yield Frame(pixels, round(arrived * NS), round(stream * NS), link_busy=busy)


def too_slow(seconds: int) -> Iterator[tuple[float, float]]:
    """Ten frames a second over a link that takes 8.5."""
    return ((number / 8.5, number / 10) for number in range(10 * seconds))


def states(config: CameraConfig, frames: Iterator[Frame]) -> list[CameraState]:
    liveness = Liveness(config)
    return [liveness.look(frame)[1].state for frame in frames]


CONFIG = CameraConfig(source="rtsp://camera")


def test_a_link_that_is_15_percent_too_slow_is_named_within_15_seconds_and_stays_so() -> None:
    found = states(CONFIG, lively(too_slow(60)))
    first = found.index(CameraState.DELAYED)
    assert first / 8.5 < 15
    assert set(found[first:]) == {CameraState.DELAYED}


def test_the_time_of_capture_is_that_of_the_stream_and_never_goes_back() -> None:
    liveness = Liveness(CONFIG)
    captured = []
    for frame in lively(too_slow(30)):
        looked, _ = liveness.look(frame)
        captured.append(looked.captured_ns)
        assert looked.captured_ns + looked.delay_ns == frame.captured_ns
    assert captured == sorted(captured)
    assert captured[-1] == pytest.approx(29.9 * NS, rel=0.01)


def test_a_short_stall_is_no_state() -> None:
    stall = ((max(number / 10, 12.5 if number >= 100 else 0), number / 10) for number in range(300))
    assert set(states(CONFIG, lively(stall))) == {CameraState.RUNNING}


def test_a_busy_link_makes_frames_late() -> None:
    in_time = [(number / 10, number / 10) for number in range(20)]
    assert set(states(CONFIG, lively(iter(in_time), busy=True))) == {CameraState.DELAYED}
    anything = CONFIG.model_copy(update={"delayed_after": None})
    assert set(states(anything, lively(iter(in_time), busy=True))) == {CameraState.RUNNING}


def test_a_camera_without_timestamps_has_no_delay() -> None:
    liveness = Liveness(CONFIG)
    looked, _ = liveness.look(Frame(np.zeros((18, 32, 3), np.uint8), 5))
    assert (looked.captured_ns, looked.delay_ns, liveness.delay) == (5, 0, None)


def test_a_frozen_source_is_reopened_ever_later_also_if_it_lives_for_a_moment() -> None:
    """A camera whose picture lives for a second after each opening is not opened each time that it is frozen again."""
    liveness, still = Liveness(CONFIG), CHANCE.integers(0, 255, (18, 32, 3), np.uint8)
    asked = []
    for number in range(0, 3000, 4):
        awake = asked and number - asked[-1] in (4, 8)
        pixels = CHANCE.integers(0, 255, (18, 32, 3), np.uint8) if awake else still
        if liveness.look(Frame(pixels, number * NS))[1].reopen:
            asked.append(number)
            liveness.begin()
    assert len(asked) in range(5, 12)


def test_a_burst_is_one_incident() -> None:
    damage = Damage()
    for number in range(50):
        damage.add(number, number * NS // 50)
    assert (damage.total, damage.lasts) == (49, False)


def test_damage_that_comes_again_lasts_until_it_is_over() -> None:
    damage = Damage()
    said = []
    for second in range(60):
        damage.add(min(second // 2, 10), second * NS)
        said.append(damage.lasts)
    assert said.index(True) <= 8
    last = 20
    assert all(said[8 : last + 29])
    assert not said[last + 31]


def test_damage_once_a_minute_does_not_last() -> None:
    damage = Damage()
    for second in range(1000):
        damage.add(second // 60, second * NS)
        assert not damage.lasts


def test_a_source_that_is_opened_again_counts_from_0() -> None:
    damage = Damage()
    damage.add(5, 0)
    damage.begin()
    damage.add(2, NS)
    assert damage.total == 7


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
