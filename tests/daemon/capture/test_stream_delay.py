"""The delay of frames by the timestamps of their stream."""

import random

import pytest

from edgemeta.daemon.capture.stream_delay import StreamDelay
from edgemeta.daemon.runtime.clock import NS

FRAME = NS // 10


def test_frames_in_time_have_no_delay() -> None:
    delay = StreamDelay()
    assert {delay.add(number * FRAME, 777 + number * FRAME) for number in range(1000)} == {0}


def test_jitter_is_a_delay_of_its_own_size() -> None:
    delay, chance = StreamDelay(), random.Random(1)
    found = [delay.add(number * FRAME + chance.randrange(NS // 20), number * FRAME) for number in range(1000)]
    assert max(found) < NS // 20 + NS // 1000


def test_a_link_that_is_15_percent_too_slow() -> None:
    delay = StreamDelay()
    found = [delay.add(round(number * FRAME / 0.85), number * FRAME) for number in range(300)]
    assert found[-1] == pytest.approx(299 * FRAME * (1 / 0.85 - 1), rel=0.01)


def test_a_stall_ends_when_the_stream_has_caught_up() -> None:
    delay = StreamDelay()
    for number in range(100):
        delay.add(number * FRAME, number * FRAME)
    burst = [delay.add(140 * FRAME + number, (100 + number) * FRAME) for number in range(40)]
    assert burst[0] == pytest.approx(40 * FRAME, rel=0.01)
    assert burst == sorted(burst, reverse=True)
    assert delay.add(140 * FRAME, 140 * FRAME) < NS // 1000


@pytest.mark.parametrize("ppm", [-200, -20, 0, 20, 190])
def test_a_day_of_drift_is_no_delay(ppm: int) -> None:
    delay, rate = StreamDelay(), 1 + ppm / 1e6
    found = [delay.add(second * NS, round(second * NS * rate)) for second in range(86_400)]
    assert max(found) < NS // 100


@pytest.mark.parametrize("ppm", [-100, 100])
def test_a_delay_of_hours_stays_in_spite_of_drift(ppm: int) -> None:
    delay, rate = StreamDelay(), 1 + ppm / 1e6
    for second in range(3600):
        delay.add(second * NS, round(second * NS * rate))
    late = [delay.add((second + 5) * NS, round(second * NS * rate)) for second in range(3600, 30_000)]
    assert late[0] == pytest.approx(5 * NS, rel=0.01)
    assert late[-1] == pytest.approx(5 * NS, rel=0.02)


@pytest.mark.parametrize("jump", [-100 * NS, -NS, 20 * NS, 1000 * NS])
def test_a_stream_whose_time_jumps_begins_anew(jump: int) -> None:
    delay = StreamDelay()
    for number in range(100):
        delay.add(number * FRAME, number * FRAME)
    found = {delay.add(number * FRAME, number * FRAME + jump) for number in range(100, 200)}
    assert max(found) < NS // 1000


def test_time_that_stands_still_says_nothing() -> None:
    delay = StreamDelay()
    assert {delay.add(number * FRAME, 5) for number in range(1000)} == {0}


def test_time_of_another_rate_says_nothing_in_the_end() -> None:
    """A camera that counts 25 frames per second and gives 20: its time lags ever more."""
    delay = StreamDelay()
    for number in range(20_000):
        delay.add(number * NS // 20, number * NS // 25)
    assert not delay.is_known
    assert delay.add(20_000 * NS // 20, 20_000 * NS // 25) == 0


def test_a_stream_that_is_opened_again_begins_anew() -> None:
    delay = StreamDelay()
    delay.add(0, 0)
    delay.begin()
    assert delay.add(100 * NS, 5) == 0
