"""Time in which the service was not awake does not pass for deadlines."""

from types import SimpleNamespace
from typing import Any

import pytest

from edgemeta.daemon.runtime import awake
from edgemeta.daemon.runtime.awake import BEAT, LATE, AwakeTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A monotonic clock that the test moves."""
    made = SimpleNamespace(at=1000.0, monotonic=lambda: made.at)
    monkeypatch.setattr(awake, "time", made)
    return made


def test_without_beats_all_time_counts(clock: Any) -> None:
    time = AwakeTime()
    began = time.now()
    clock.at += 3600
    assert time.now() - began == 3600


def test_a_pause_between_two_beats_does_not_count(clock: Any) -> None:
    time = AwakeTime()
    began = time.now()
    for seconds in (BEAT, BEAT, 60.0, BEAT):
        time.beat()
        clock.at += seconds
    assert time.now() - began == pytest.approx(3 * BEAT + LATE)
    time.end()
    clock.at += 60
    assert time.now() - began == pytest.approx(3 * BEAT + LATE + 60)


def test_the_rate_of_a_beat_is_that_of_the_time_after_it(clock: Any) -> None:
    time = AwakeTime()
    began = time.now()
    time.beat(rate=0.25)
    clock.at += BEAT
    time.beat()
    assert time.now() - began == pytest.approx(BEAT / 4)
