"""The outbox as the link uses it: live and replayed messages, missing answers, a restart."""

from edgemeta.daemon.mqtt.outbox.queue import LIVE, OnDisk
from tests.daemon.mqtt.outbox.conftest import Bench, drain, message, value, wait_until_stored


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
    wait_until_stored(outbox, delivery)
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
    """The disk still has both: what was read before is read again where the connection has begun anew."""
    outbox = bench.make()
    for number in range(3):
        outbox.offer(message(number))
    outbox.poll()
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


def test_live_messages_are_replayed_if_a_slow_broker_leaves_too_many(bench: Bench) -> None:
    outbox = bench.make()
    outbox.begin()
    outbox.offer(message(0))
    first = outbox.next_live()
    for number in range(1, LIVE + 3):
        outbox.offer(message(number))
    outbox.offer(message(LIVE + 3))
    assert first is not None
    outbox.settle(first)
    assert drain(outbox) == [LIVE + 2, LIVE + 3, *range(1, LIVE + 2)]
    assert outbox.stats.waiting == 0
