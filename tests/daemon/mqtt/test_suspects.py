"""A broker that closes the connection at what it does not allow: all else arrives, and the reason is named."""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.suspects import MOST_LOSSES, Suspect, Suspects, key_of, message_sent, subscription_sent
from rig.mqtt_proxy import MqttProxy
from rig.waiting import wait_until

CONNECT, PUBLISH, SUBSCRIBE = 1, 3, 8


@pytest.fixture
def network(broker: Any) -> Iterator[MqttProxy]:
    network = MqttProxy(broker.port)
    yield network
    network.close()


def kept(topic: str, value: int = 0, length: int = 0) -> OutgoingMessage:
    payload = b"%d" % value + length * b"."
    return OutgoingMessage(f"edgemeta/test/{topic}", payload, 1, retain=False, kept=True)


def retained(topic: str) -> OutgoingMessage:
    return OutgoingMessage(topic, b"{}", 1, retain=True)


def about(kind: int, part: bytes) -> Callable[[bytes], bool]:
    return lambda packet: packet[0] >> 4 == kind and part in packet


CONFIG = "homeassistant/device/edgemeta-test/config"


@pytest.mark.parametrize("version", [5, "3.1.1"])
@pytest.mark.parametrize(
    ("forbidden", "named"),
    [
        (about(PUBLISH, b"/config"), f"a message on {CONFIG}"),
        (about(PUBLISH, b"/info"), "a message on edgemeta/test/info"),
        (about(SUBSCRIBE, b"/cmd/reload"), "a subscription to edgemeta/test/cmd/reload"),
    ],
)
def test_what_makes_the_broker_close_is_named_and_left_out_and_frames_arrive(
    network: MqttProxy, subscriber: Any, make_link: Any, caplog: Any, forbidden: Any, named: str, version: Any
) -> None:
    network.forbidden = forbidden
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt"):
        link = make_link(
            network.port, version=version, subscriptions={"edgemeta/test/cmd/reload": lambda message: None}
        )
        for topic in (CONFIG, "edgemeta/test/info", "edgemeta/test/swap"):
            link.send(retained(topic))
        for value in range(20):
            link.send(kept("front/frame", value))
        assert [message.payload for message in subscriber.wait("front/frame", 20)][:1] == [b"0"]
        wait_until(lambda: "left out for" in caplog.text, "the diagnosis")
        wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
        closed, connects = network.closed, link.connects
        for value in range(20, 40):
            link.send(kept("front/frame", value))
        link.send(retained(CONFIG))
        subscriber.wait("swap")
        wait_until(lambda: b"39" in link.delivered.payloads or len(link.delivered.deliveries) > 40, "the frames")
        assert (network.closed, link.connects) == (closed, connects)
    assert f"the broker closed it without a reason after {named} was sent" in caplog.text
    assert closed <= 3
    assert "another client probably" not in caplog.text
    assert link.stats.refuses is not None


def test_a_forbidden_topic_of_one_camera_does_not_stop_the_others(
    network: MqttProxy, subscriber: Any, make_link: Any
) -> None:
    network.forbidden = about(PUBLISH, b"/front/frame")
    link = make_link(network.port)
    for value in range(10):
        link.send(kept("front/frame", value))
        link.send(kept("yard/frame", value))
    subscriber.wait("yard/frame", 10)
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    wait_until(lambda: link._outbox.stats.waiting == 10, "the others to wait")
    assert link.refuses_results
    assert link.flush(60), "a stop would wait for what is left out"


def test_what_was_left_out_is_tried_again_and_then_sent(
    network: MqttProxy, subscriber: Any, make_link: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.suspects.LEFT_OUT_FIRST", 1.0)
    network.forbidden = lambda packet: about(PUBLISH, b"/config")(packet) or about(SUBSCRIBE, b"/cmd/")(packet)
    heard: list[bytes] = []
    link = make_link(
        network.port, subscriptions={"edgemeta/test/cmd/reload": lambda message: heard.append(message.payload)}
    )
    link.send(retained(CONFIG))
    wait_until(lambda: network.closed >= 3, "both to be left out")
    network.forbidden = lambda packet: False
    subscriber.wait("/config")

    def is_heard() -> bool:
        subscriber.publish("edgemeta/test/cmd/reload", b"{}")
        return bool(heard)

    wait_until(is_heard, "a command")


def test_the_same_message_that_ends_connection_after_connection_counts_as_refused(
    network: MqttProxy, subscriber: Any, make_link: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("edgemeta.daemon.mqtt.suspects.LEFT_OUT_FIRST", 0.1)
    network.forbidden = lambda packet: packet[0] >> 4 == PUBLISH and len(packet) > 5000
    link = make_link(network.port)
    for value, length in enumerate((0, 6000, 0)):
        link.send(kept("front/frame", value, length))
    subscriber.wait_for("front/frame", lambda message: message.payload == b"2")
    wait_until(lambda: link.stats.refused == 1, "the count")
    assert {message.payload for message in subscriber.on("front/frame")} == {b"0", b"2"}
    assert len(link.delivered.refusals) == 1


def test_a_broker_that_restarts_is_not_suspected(broker: Any, subscriber: Any, make_link: Any, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt"):
        link = make_link(broker.port)
        for value in range(3):
            wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
            link.send(kept("front/frame", value))
            broker.stop()
            wait_until(lambda: not link.connected, "the end")
            broker.start()
        wait_until(lambda: len(link.delivered.deliveries) >= 3 and link._outbox.stats.waiting == 0, "the frames")
    assert "left out" not in caplog.text
    assert link.stats.refuses is None


def test_only_what_was_tried_alone_twice_is_left_out() -> None:
    suspects = Suspects("host:1883")
    frame, info = kept("front/frame"), retained("edgemeta/test/info")
    assert not suspects.lost(Suspect(message_sent(frame), alone=False), was_short=False)
    assert not suspects.lost(Suspect(message_sent(frame), alone=False), was_short=False)
    assert not suspects.careful, "a line that is cut again and again"
    assert not suspects.lost(Suspect(message_sent(info), alone=False), was_short=False)
    assert suspects.lost(Suspect(message_sent(info), alone=False), was_short=False)
    assert not suspects.lost(Suspect(message_sent(info), alone=False), was_short=True), "nothing new to try"
    assert suspects.careful
    assert suspects.left_out_until(key_of(info)) is None
    suspects.lost(Suspect(message_sent(info), alone=True), was_short=True)
    assert suspects.left_out_until(key_of(info)) is None
    suspects.lost(Suspect(message_sent(info), alone=True), was_short=True)
    assert suspects.left_out_until(key_of(info)) is not None
    for number in range(MOST_LOSSES):
        assert (suspects.left_out_until(key_of(frame)) is not None) == (number > 1)
        assert not suspects.condemns(key_of(frame), frame)
        suspects.lost(Suspect(message_sent(frame), alone=True), was_short=True)
    assert suspects.condemns(key_of(frame), frame)
    assert not suspects.condemns(key_of(frame), kept("front/frame", 1))
    suspects.clear(key_of(frame))
    assert suspects.left_out_until(key_of(frame)) is None
    assert not suspects.lost(None, was_short=True)
    assert not suspects.careful


def test_what_goes_together() -> None:
    assert key_of(kept("front/frame")) == "edgemeta/test/front/frame"
    assert key_of(retained("edgemeta/test/front/status")) == "status messages"
    keys = {subscription_sent(f"edgemeta/test/cmd/{verb}").key for verb in ("reload", "model")}
    assert keys == {"subscriptions below edgemeta/test/cmd"}
    large = OutgoingMessage(CONFIG, 43_210 * b".", 1, retain=True)
    assert message_sent(large).description == f"a message of 43 kB on {CONFIG}"


@pytest.mark.gate("3 s: messages at a limited rate")
def test_a_broker_that_closes_at_a_burst_gets_what_waits_more_slowly(
    network: MqttProxy, make_link: Any, monkeypatch: Any
) -> None:
    """AWS, for example, closes above 100 messages a second."""
    seen: list[float] = []

    def too_many(packet: bytes) -> bool:
        if packet[0] >> 4 == CONNECT:
            seen.clear()
        if packet[0] >> 4 != PUBLISH:
            return False
        seen.append(time.monotonic())
        return sum(each > seen[-1] - 0.25 for each in seen) > 30

    link = make_link(network.port, outbox={"max_replayed_per_second": 1000})
    wait_until(lambda: link.status.state is BrokerState.CONNECTED, "the link")
    network.reset()
    for value in range(200):
        link.send(kept("front/frame", value))
    network.forbidden = too_many
    network.restore(forget=False)
    wait_until(lambda: link._outbox.stats.waiting == 0, "an empty outbox")
    assert link.stats.refused == 0
