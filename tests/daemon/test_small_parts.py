"""Backoff, smoothing, latencies, outbox, clock, topics, secrets: each against its definition."""

import time
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.secrets import SecretError, password_of, username_of
from edgemeta.daemon.config.source_address import without_password
from edgemeta.daemon.messages.channels import FRAME, STATS, Topics
from edgemeta.daemon.metrics.latency import CAPACITY, StageLatency
from edgemeta.daemon.runtime import clock
from edgemeta.daemon.runtime.backoff import Backoff
from edgemeta.daemon.runtime.rate_limiter import RateLimiter


@given(first=st.floats(0.001, 10), factor=st.floats(1, 1000))
def test_backoff_doubles_to_its_cap_and_starts_again(first: float, factor: float) -> None:
    cap = first * factor
    backoff = Backoff(first, cap)
    for failures in range(2000):
        longest = min(cap, first * 2.0 ** min(failures, 32))
        assert longest / 2 <= backoff.next() <= longest
    backoff.reset()
    assert backoff.next() <= first


@given(durations=st.lists(st.integers(0, 10**10), min_size=1, max_size=300))
def test_percentiles_are_numpys_by_inverted_distribution(durations: list[int]) -> None:
    window = StageLatency()
    for duration in durations:
        window.add(duration)
    stats = window.drain().summary()
    assert stats.count == len(durations)
    assert stats.max == max(durations) // 1000
    for percent, value in ((50, stats.p50), (90, stats.p90), (99, stats.p99)):
        assert value == int(np.percentile(durations, percent, method="inverted_cdf")) // 1000


def test_a_period_without_measurements_has_no_numbers() -> None:
    window = StageLatency()
    window.add(5000)
    window.drain()
    assert window.drain().summary().model_dump() == {"count": 0, "p50": None, "p90": None, "p99": None, "max": None}


def test_a_long_period_keeps_the_newest_measurements_and_the_true_maximum() -> None:
    window = StageLatency()
    window.add(10**9)
    for _ in range(CAPACITY):
        window.add(2000)
    stats = window.drain().summary()
    assert (stats.count, stats.p50, stats.p99, stats.max) == (CAPACITY + 1, 2, 2, 10**6)


@given(rate=st.integers(1, 10_000), idle=st.integers(0, 10**10), count=st.integers(1, 500))
def test_the_pace_is_kept_whatever_was_saved_up(rate: int, idle: int, count: int) -> None:
    """Over any time t no more than rate · (t + 20 ms) + 1 are let through; and no fewer than rate · t when asked."""
    pace = RateLimiter(rate)
    pace.take(10**10)
    begun = now = 10**10 + idle
    for _ in range(count):
        now += pace.wait_ns(now)
        assert pace.wait_ns(now) == 0
        pace.take(now)
    assert count <= rate * (now - begun + 2 * 10**7) / 10**9 + 2
    assert count >= rate * (now - begun) / 10**9 - 1


def test_utc_of_a_moment_follows_the_system_clock() -> None:
    moment = time.monotonic_ns()
    before = datetime.now(timezone.utc)
    stamp = clock.Clock().utc(moment - 5 * clock.NS)
    assert abs((before - stamp).total_seconds() - 5) < 1
    assert stamp.tzinfo is timezone.utc


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


def test_topics() -> None:
    topics = Topics("site/a", "dev")
    assert topics.of(STATS) == "site/a/dev/stats"
    assert topics.of(FRAME, "door") == "site/a/dev/door/frame"


def test_passwords_come_from_the_config_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("from file\nsecond line\n")
    monkeypatch.setenv("BROKER_PASSWORD", "from environment")
    assert password_of(MqttConfig()) is None
    assert username_of(MqttConfig()) is None
    assert username_of(MqttConfig(username="u")) == "u"
    assert username_of(MqttConfig(username_file=str(file))) == "from file"
    assert username_of(MqttConfig(username_env="BROKER_PASSWORD")) == "from environment"
    with pytest.raises(SecretError, match=r"user name file .*gone cannot be read"):
        username_of(MqttConfig(username_file=str(tmp_path / "gone")))
    assert password_of(MqttConfig.model_validate({"username": "u", "password": "plain"})) == "plain"
    assert password_of(MqttConfig(username="u", password_file=str(file))) == "from file"
    assert password_of(MqttConfig(username="u", password_env="BROKER_PASSWORD")) == "from environment"
    with pytest.raises(SecretError, match="gone cannot be read: No such file"):
        password_of(MqttConfig(username="u", password_file=str(tmp_path / "gone")))
    with pytest.raises(SecretError, match="ABSENT is not set"):
        password_of(MqttConfig(username="u", password_env="ABSENT"))
    file.write_text("")
    with pytest.raises(SecretError, match="empty first line"):
        password_of(MqttConfig(username="u", password_file=str(file)))
    file.write_bytes(b"\xff")
    with pytest.raises(SecretError, match="no UTF-8 text"):
        password_of(MqttConfig(username="u", password_file=str(file)))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("rtsp://user:geheim@cam/1?x=geheim2", "rtsp://user:***@cam/1?x=geheim2"),
        ("rtsp://cam:554/1", "rtsp://cam:554/1"),
        ("rtsp://user@cam/1", "rtsp://user@cam/1"),
        ("rtsp://user:ge@he:im@cam:554/1", "rtsp://user:***@cam:554/1"),
        ("rtsp://:geheim@[::1", "rtsp://:***@[::1"),
        ("rtsp://user:ge/he?im@cam/1", "rtsp://user:***@cam/1"),
        ("http://cam/mjpg?user=admin&password=geheim&size=2", "http://cam/mjpg?user=admin&password=***&size=2"),
        ("http://cam/mjpg?authToken=geheim#x", "http://cam/mjpg?authToken=***#x"),
        ("clip.avi", "clip.avi"),
    ],
)
def test_a_password_in_an_address_is_starred(address: str, shown: str) -> None:
    assert without_password(address) == shown
