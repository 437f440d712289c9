"""Messages that do not wait in the outbox: what is sent now, and what again on the next connection."""

from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.picture_queue import PictureQueue
from edgemeta.daemon.mqtt.sender import DirectQueue


def retained(topic: str, payload: bytes, kept: bool = False) -> OutgoingMessage:
    return OutgoingMessage(topic, payload, 1, retain=True, kept=kept)


def answer(payload: bytes) -> OutgoingMessage:
    return OutgoingMessage("answer", payload, 1, retain=False)


def drain(queue: DirectQueue) -> list[bytes]:
    """Send and settle all messages."""
    payloads = []
    while (delivery := queue.next()) is not None:
        payloads.append(delivery.message.payload)
        queue.settle(delivery)
    return payloads


def test_of_each_topic_only_the_newest_retained_message_is_sent() -> None:
    queue = DirectQueue()
    for message in (retained("a", b"1"), retained("b", b"2"), retained("a", b"3")):
        queue.put(message, connected=True)
    assert drain(queue) == [b"2", b"3"]


def test_messages_that_are_not_retained_are_all_sent_in_order_on_this_connection_only() -> None:
    queue = DirectQueue()
    queue.put(answer(b"without a connection"), connected=False)
    assert queue.is_empty
    for number in range(3):
        queue.put(answer(b"%d" % number), connected=True)
    first = queue.next()
    assert first is not None
    assert first.message.payload == b"0"
    queue.restart()
    assert queue.is_empty
    assert drain(queue) == []


def test_every_connection_is_sent_the_retained_messages_again() -> None:
    queue = DirectQueue()
    queue.put(retained("a", b"1"), connected=False)
    queue.put(retained("state", b"2", kept=True), connected=True)
    assert drain(queue) == [b"1"], "the state comes from the outbox on this connection"
    for _ in range(2):
        queue.restart()
        assert drain(queue) == [b"1", b"2"]


def test_a_cleared_topic_is_forgotten_once_the_broker_has_answered() -> None:
    queue = DirectQueue()
    queue.put(retained("a", b"1"), connected=True)
    queue.put(retained("a", b""), connected=True)
    queue.restart()
    assert drain(queue) == [b""]
    queue.restart()
    assert drain(queue) == []


def test_a_topic_that_is_used_again_while_it_is_cleared_stays() -> None:
    queue = DirectQueue()
    queue.put(retained("a", b""), connected=True)
    clearing = queue.next()
    assert clearing is not None
    queue.put(retained("a", b"again"), connected=True)
    queue.settle(clearing)
    queue.restart()
    assert drain(queue) == [b"again"]


def test_it_is_empty_only_when_everything_is_answered() -> None:
    queue = DirectQueue()
    queue.put(answer(b"1"), connected=True)
    assert queue.has_messages
    delivery = queue.next()
    assert delivery is not None
    assert not queue.has_messages
    assert not queue.is_empty
    queue.settle(delivery)
    assert queue.is_empty


def test_a_kept_message_that_is_not_retained_is_ignored() -> None:
    queue = DirectQueue()
    queue.put(OutgoingMessage("frame", b"1", 1, retain=False, kept=True), connected=True)
    assert queue.is_empty


def picture(topic: str, payload: bytes) -> OutgoingMessage:
    return OutgoingMessage(topic, payload, 1, retain=True, picture=True)


def test_of_each_topic_only_the_newest_picture_is_sent_and_one_at_a_time() -> None:
    queue = PictureQueue()
    for message in (picture("a", b"1"), picture("b", b"2"), picture("a", b"3")):
        queue.put(message)
    first = queue.next()
    assert first is not None
    assert (first.message.payload, queue.next()) == (b"3", None)
    queue.settle(Delivery(picture("a", b"another")))
    assert queue.next() is None
    queue.settle(first)
    second = queue.next()
    assert second is not None
    assert second.message.payload == b"2"


def test_no_picture_is_left_for_another_connection() -> None:
    queue = PictureQueue()
    queue.put(picture("a", b"1"))
    queue.put(picture("b", b"2"))
    assert queue.next() is not None
    queue.clear()
    assert queue.next() is None
    queue.put(picture("a", b"3"))
    assert queue.next() is not None
