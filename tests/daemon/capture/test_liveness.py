"""What frames say about their camera, and when they were captured."""

from collections.abc import Iterator

import numpy as np
import pytest

from edgemeta.daemon.capture.liveness import Liveness
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.runtime.clock import NS

CHANCE = np.random.default_rng(0)


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
