"""What does not fit, or is too old, is dropped, the oldest first, and counted."""

import time

import pytest

from edgemeta.daemon.mqtt.outbox.delivery import ROW_OVERHEAD
from edgemeta.daemon.runtime.clock import NS
from tests.daemon.mqtt.outbox.conftest import Bench, drain, message, wait_until_stored


def test_the_oldest_are_dropped_first_and_counted(bench: Bench) -> None:
    outbox = bench.make(max_disk_mb=1)
    for number in range(30):
        outbox.offer(message(number, "t/front/frame" if number % 2 else "t/back/frame", size=100_000))
        outbox.poll()
    stats = outbox.stats
    assert stats.bytes <= 1_000_000
    assert stats.waiting == 9
    assert stats.dropped == 21
    assert bench.dropped == {"t/front/frame": 10, "t/back/frame": 11}
    outbox.begin()
    assert drain(outbox) == list(range(21, 30))


def test_exactly_at_the_limit_of_the_disk_nothing_is_dropped(bench: Bench) -> None:
    outbox = bench.make(max_disk_mb=1)
    for number in range(11):
        outbox.offer(message(number, size=100_000 - ROW_OVERHEAD - len("t/front/frame")))
        outbox.poll()
        assert outbox.stats.bytes == min(number + 1, 10) * 100_000
    assert outbox.stats.dropped == 1
    assert outbox.stats.waiting == 10


def test_the_limit_of_memory_passes_by_the_message_in_flight(bench: Bench) -> None:
    """The oldest is on its way to the broker and may be acknowledged: those after it are dropped."""
    outbox = Bench(None).make(max_disk_mb=0, max_memory_mb=1)
    outbox.begin()
    outbox.offer(message(0, size=400_000))
    first = outbox.next_live()
    assert first is not None
    for number in range(1, 5):
        outbox.offer(message(number, size=400_000))
    assert outbox.stats.dropped == 3
    outbox.settle(first)
    assert drain(outbox) == [4]


def test_messages_dropped_while_they_wait_in_the_replay_are_not_sent(bench: Bench) -> None:
    outbox = bench.make(max_disk_mb=1)
    for number in range(9):
        outbox.offer(message(number, size=100_000))
    outbox.poll()
    outbox.begin()
    outbox.poll()
    first = outbox.next_replayed()
    assert first is not None
    for number in range(9, 18):
        outbox.offer(message(number, size=100_000))
    sent = [outbox.next_live() for _ in range(9)]
    wait_until_stored(outbox, sent[-1])  # type: ignore[arg-type]
    assert outbox.stats.dropped == 8
    assert drain(outbox) == []
    for delivery in (first, *sent):
        assert delivery is not None
        outbox.settle(delivery)
    outbox.poll()
    assert outbox.stats.waiting == 0


def test_messages_too_old_are_dropped_and_counted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = bench.make(max_age=100.0)
    for number in range(3):
        outbox.offer(message(number))
    outbox.poll()
    outbox.writer._aged_ns = 0
    real = time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: real() + 99 * NS)
    outbox.writer._aged_ns = 0
    outbox.poll()
    assert outbox.stats.expired == 0
    monkeypatch.setattr(time, "monotonic_ns", lambda: real() + 101 * NS)
    outbox.writer._aged_ns = 0
    outbox.poll()
    assert (outbox.stats.expired, outbox.stats.waiting) == (3, 0)
    assert bench.dropped == {"t/front/frame": 3}


@pytest.mark.parametrize(("then", "now", "kept"), [(True, True, False), (True, False, True), (False, True, True)])
def test_age_over_a_restart_needs_a_clock_that_was_right_then_and_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, then: bool, now: bool, kept: bool
) -> None:
    monkeypatch.setattr("edgemeta.daemon.runtime.clock.kernel_says_synchronized", lambda: then)
    outbox = bench.make(max_age=100.0)
    outbox.offer(message(1))
    outbox.poll()
    bench.kill(outbox)
    monkeypatch.setattr("edgemeta.daemon.runtime.clock.kernel_says_synchronized", lambda: now)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 101 * NS)
    outbox = bench.make("c" * 32, max_age=100.0)
    outbox.poll()
    assert outbox.stats.waiting == int(kept)
    assert outbox.stats.expired == int(not kept)
