"""The outbox as the link uses it: live and replayed messages, missing answers, a restart."""

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import pytest

from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.disk_state import ANSWERS_WITHIN, OnDisk
from edgemeta.daemon.mqtt.outbox.errors import StoreError
from edgemeta.daemon.mqtt.outbox.store import Store
from edgemeta.daemon.runtime.clock import NS
from tests.daemon.mqtt.outbox.conftest import Bench, drain, message, value


def test_while_the_broker_acknowledges_the_disk_is_not_accessed(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    assert bench.path is not None
    before = [(path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(bench.path.parent.iterdir())]
    for number in range(100):
        outbox.offer(message(number))
        delivery = outbox.next_live()
        assert delivery is not None
        assert (value(delivery), delivery.replayed) == (number, False)
        outbox.poll()
        outbox.settle(delivery)
    outbox.poll()
    assert [(path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(bench.path.parent.iterdir())] == before
    assert outbox.stats.waiting == 0


def test_waiting_messages_are_replayed_in_order(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(5):
        outbox.offer(message(number))
        outbox.poll()
    outbox.offer(message(5))  # in memory only
    assert outbox.stats.waiting == 6
    outbox.begin()
    outbox.offer(message(6))
    live = outbox.next_live()
    assert live is not None
    assert (value(live), live.replayed) == (6, False)
    assert outbox.next_live() is None
    outbox.poll()
    late = [outbox.next_replayed() for _ in range(7)]
    assert [value(delivery) for delivery in late if delivery] == [0, 1, 2, 3, 4, 5]
    assert all(delivery.replayed for delivery in late if delivery)
    assert late[6] is None


def test_messages_without_an_answer_are_sent_again(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(3):
        outbox.offer(message(number))
    outbox.poll()
    outbox.begin()
    outbox.poll()
    outbox.offer(message(3))
    sent = [outbox.next_replayed(), outbox.next_replayed(), outbox.next_live()]
    assert sent[0] is not None
    outbox.settle(sent[0])
    outbox.end()
    outbox.begin()
    assert drain(outbox) == [1, 2, 3]
    assert outbox.stats.waiting == 0
    assert outbox.stats.replayed == 4


def test_a_broker_slow_to_answer_sends_messages_to_disk_but_not_twice(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    outbox.offer(message(1))
    delivery = outbox.next_live()
    assert delivery is not None
    outbox._patience.ns = 0
    outbox.poll()
    assert delivery.row is not None
    outbox._patience.ns = 60 * NS
    outbox.offer(message(2))
    outbox.settle(delivery)
    outbox.poll()
    assert outbox.store is not None
    assert outbox.store.count == 0
    assert drain(outbox) == [2]


def test_a_killed_process_loses_only_what_was_neither_written_nor_answered(bench: Bench) -> None:
    outbox = bench.make()
    for number in range(4):
        outbox.offer(message(number))
    outbox.poll()
    outbox.offer(message(4))
    bench.kill(outbox)
    outbox = bench.make("c" * 32)
    assert outbox.stats.waiting == 4
    outbox.offer(message(10))
    outbox.begin()
    assert drain(outbox) == [0, 1, 2, 3, 10]


def test_a_normal_stop_writes_everything(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    for number in range(4):
        outbox.offer(message(number))
    assert outbox.next_live() is not None
    outbox.writer.flush()
    outbox = bench.make("c" * 32)
    outbox.begin()
    assert drain(outbox) == [0, 1, 2, 3]


def test_a_message_in_flight_is_not_read_again_and_one_that_was_answered_neither(bench: Bench) -> None:
    """The disk still has both: what was read before is read again after a reconnect."""
    outbox = bench.make()
    for number in range(3):
        outbox.offer(message(number))
    outbox.poll()
    bench.kill(outbox)
    outbox = bench.make()
    outbox.begin()
    outbox.poll()
    first, second = outbox.next_replayed(), outbox.next_replayed()
    assert first is not None
    assert second is not None
    outbox.settle(first)
    outbox.use_disk(OnDisk(3, 3, 3))
    span = outbox.wanted()
    assert span is not None
    assert outbox.store is not None
    outbox.load(span, *outbox.store.load(0, 3, 10), OnDisk(3, 3, 3))
    late = outbox.next_replayed()
    assert late is not None
    assert value(late) == 2
    assert outbox.next_replayed() is None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The monotonic clock, which the test moves forward: `clock.now` seconds."""
    real, ahead = time.monotonic_ns, SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(time, "monotonic_ns", lambda: real() + int(ahead.seconds * NS))
    return ahead


def frame(number: int) -> OutgoingMessage:
    return dataclasses.replace(message(number), gives_way=True)


def taken(delivery: Delivery | None) -> tuple[int, bool]:
    assert delivery is not None
    return value(delivery), delivery.historical


def test_states_and_events_are_sent_before_frames_that_wait(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    for number in range(3):
        outbox.offer(frame(number))
    outbox.offer(message(10, "t/front/state"))
    outbox.offer(message(11, "t/front/event"))
    assert [taken(outbox.next_live())[0] for _ in range(5)] == [10, 11, 0, 1, 2]


def test_a_frame_that_waited_too_long_is_replayed_and_a_late_state_is_marked(bench: Bench, clock: Any) -> None:
    """A late state stays retained: it is the present one all the same."""
    outbox = bench.make()
    outbox.begin()
    for number in range(3):
        outbox.offer(frame(number))
    outbox.offer(message(10, "t/front/state"))
    clock.seconds = 1.9
    assert taken(outbox.next_live()) == (10, False)
    assert taken(outbox.next_live()) == (0, False)
    outbox.offer(frame(3))
    outbox.offer(message(11, "t/front/state"))
    clock.seconds = 3.0
    assert taken(outbox.next_live()) == (11, False)
    assert taken(outbox.next_live()) == (3, False)
    assert outbox.next_live() is None
    outbox.offer(message(12, "t/front/state"))
    clock.seconds = 5.1
    late = outbox.next_live()
    assert taken(late) == (12, True)
    assert late is not None
    assert not late.replayed
    assert [taken(outbox.next_replayed()) for _ in range(2)] == [(1, True), (2, True)]


def test_a_line_on_which_messages_are_late_for_seconds_is_slow_and_one_stall_is_not(bench: Bench, clock: Any) -> None:
    outbox = bench.make()
    outbox.begin()

    def late_at(second: float) -> bool:
        clock.seconds = second - 3
        outbox.offer(frame(1))
        clock.seconds = second
        assert outbox.next_live() is None
        return outbox.line_is_slow

    assert not late_at(10)
    assert not late_at(14.9)
    assert late_at(15.1)
    clock.seconds = 30
    assert outbox.line_is_slow
    clock.seconds = 30.2
    assert not outbox.line_is_slow
    assert not late_at(40)


def test_patience_follows_the_round_trip_time_and_writes_are_seconds_apart(bench: Bench, clock: Any) -> None:
    outbox = bench.make()
    outbox.begin()
    for number in range(50):  # acknowledgements two seconds late
        outbox.offer(message(number))
        sent = outbox.next_live()
        assert sent is not None
        sent.sent_ns = time.monotonic_ns()
        clock.seconds += 2.0
        outbox.writer.poll()
        assert outbox.store is not None
        assert outbox.store.count == 0
        outbox.settle(sent)
    outbox.offer(message(50))
    clock.seconds += 3.9
    outbox.offer(message(51))
    outbox.writer.poll()
    assert outbox.store.count == 0
    clock.seconds += 0.3
    outbox.writer.poll()
    assert outbox.store.count == 1
    clock.seconds += 1.9
    outbox.writer.poll()
    assert outbox.store.count == 1
    clock.seconds += 2.0
    outbox.writer.poll()
    assert outbox.store.count == 2


def test_without_a_connection_a_second_is_written_at_once_and_memory_never_fills(bench: Bench, clock: Any) -> None:
    outbox = bench.make(max_memory_mb=1)
    outbox.begin()
    outbox.offer(message(0))
    outbox.end()
    outbox.writer.poll()
    assert outbox.in_memory_only == 0
    outbox.offer(message(1))
    outbox.writer.poll()
    clock.seconds += 0.9
    outbox.writer.poll()
    assert outbox.in_memory_only == 1
    clock.seconds += 0.2
    outbox.writer.poll()
    assert outbox.in_memory_only == 0
    outbox.offer(message(2, size=260_000))
    outbox.writer.poll()
    assert outbox.in_memory_only == 0
    outbox.begin()
    for number in range(3, 50):
        outbox.offer(message(number, size=100_000))
        outbox.writer.poll()
    assert outbox.stats.dropped == 0
    assert outbox.in_memory_only <= 2


def test_what_is_in_memory_is_replayed_while_the_disk_does_not_answer(bench: Bench) -> None:
    """Messages that are on disk, too, need not be read from it."""
    outbox = bench.make()
    for number in range(5):
        outbox.offer(message(number))
    outbox.poll()
    outbox.offer(message(5))
    outbox.begin()  # the writer does not run any more
    assert [taken(outbox.next_replayed()) for _ in range(6)] == [(number, True) for number in range(6)]
    assert outbox.wanted() is None


def test_what_no_longer_fits_into_memory_is_read_from_disk_in_order(bench: Bench) -> None:
    outbox = bench.make(max_memory_mb=1)
    for number in range(8):
        outbox.offer(message(number, size=300_000))
        outbox.poll()
    outbox.begin()
    assert outbox.next_replayed() is None
    outbox.poll()
    assert taken(outbox.next_replayed()) == (0, True)
    for number in range(8, 12):  # the copies of those that wait have to go
        outbox.offer(message(number, size=300_000))
        outbox._patience.ns = outbox._written_ns = 0
        outbox.poll()
    assert drain(outbox) == list(range(1, 12))
    assert outbox.stats.dropped == 0


def test_live_messages_whose_copies_have_no_room_are_replayed_once(bench: Bench) -> None:
    outbox = bench.make(max_memory_mb=1)
    outbox.begin()
    for number in range(8):
        outbox.offer(message(number, size=300_000))
        outbox._patience.ns = outbox._written_ns = 0
        outbox.poll()
    assert sorted(drain(outbox)) == list(range(8))
    assert outbox.stats.dropped == 0


def test_messages_on_a_disk_that_fails_for_a_moment_keep_their_order(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in memory and newer waits for them; not for ever."""
    outbox = bench.make(max_memory_mb=1)
    for number in range(6):
        outbox.offer(message(number, size=300_000))
        outbox.poll()
    outbox.begin()
    with monkeypatch.context() as failing:
        failing.setattr(Store, "load", fail)
        outbox.poll()
    assert outbox.store is None
    assert outbox.next_replayed() is None
    outbox.end()
    outbox.begin()
    assert outbox.next_replayed() is None
    outbox.writer._retry_at = 0.0
    outbox.poll()
    assert drain(outbox) == list(range(6))


def test_messages_on_a_disk_that_fails_for_long_are_overtaken(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = bench.make(max_memory_mb=1)
    for number in range(6):
        outbox.offer(message(number, size=300_000))
        outbox.poll()
    outbox.begin()
    monkeypatch.setattr(Store, "load", fail)
    outbox.poll()
    assert outbox.next_replayed() is None
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + ANSWERS_WITHIN + 1)
    assert taken(outbox.next_replayed()) == (3, True)


def fail(*_arguments: object) -> None:
    raise StoreError("the disk fails")


def test_answered_messages_are_removed_from_the_disk_seconds_apart_or_many_at_once(bench: Bench, clock: Any) -> None:
    outbox = bench.make()
    for number in range(250):
        outbox.offer(message(number))
    outbox.poll()
    outbox.begin()

    def left(answered: int) -> int:
        for _ in range(answered):
            sent = outbox.next_replayed()
            assert sent is not None
            outbox.settle(sent)
        outbox.writer.poll()
        assert outbox.store is not None
        return outbox.store.count

    assert left(10) == 250
    clock.seconds += 1.9
    assert left(10) == 250
    clock.seconds += 0.2
    assert left(10) == 220
    assert left(99) == 220
    assert left(1) == 120
    assert outbox.stats.waiting == 120
