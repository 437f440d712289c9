"""UTC times of monotonic moments, and whether the clock is synchronized."""

import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from edgemeta.daemon.runtime import clock


def test_utc_of_a_moment_follows_the_system_clock() -> None:
    moment = time.monotonic_ns()
    before = datetime.now(timezone.utc)
    stamp = clock.Clock().utc(moment - 5 * clock.NS)
    assert abs((before - stamp).total_seconds() - 5) < 1
    assert stamp.tzinfo is timezone.utc


def test_a_moment_has_one_time_until_the_clock_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    moment, watched = time.monotonic_ns(), clock.Clock()
    times = {watched.utc(moment) for _ in range(1000)}
    assert (len(times), watched.sets) == (1, 0)
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 56 * 365 * 86400 * clock.NS)
    (before,) = times
    assert watched.utc(moment) - before == pytest.approx(timedelta(days=56 * 365), abs=timedelta(seconds=1))
    assert watched.sets == 1


def test_becoming_synchronized_counts_as_set(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter((False, False, True))
    monkeypatch.setattr(clock, "kernel_says_synchronized", lambda: next(answers))
    monkeypatch.setattr(clock, "RECHECK_NS", 0)
    watched = clock.Clock()
    assert watched.sets == 0
    assert watched.sets == 1


def test_the_synchronized_flag_is_the_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Kernel:
        answer = 0

        def adjtimex(self, _timex: object) -> int:
            return self.answer

    kernel = Kernel()
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: kernel)
    monkeypatch.setattr(clock, "TIMESYNC_MARK", tmp_path / "synchronized")
    assert clock.kernel_says_synchronized()
    kernel.answer = clock.TIME_ERROR
    assert not clock.kernel_says_synchronized()
    kernel.answer = -1  # a sandbox forbids the call: systemd-timesyncd's file decides
    assert not clock.kernel_says_synchronized()
    (tmp_path / "synchronized").touch()
    assert clock.kernel_says_synchronized()
