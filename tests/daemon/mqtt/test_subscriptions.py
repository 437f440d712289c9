"""Messages from the broker: subscribed at every connection, bounded, and never blocking the link."""

import logging
import socket
import threading
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.subscriptions import LONGEST, WAITING, Incoming, SubscriptionQueue
from rig.broker import Mosquitto
from rig.waiting import wait_until


class Heard:
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        self.messages: list[Incoming] = []

    def __call__(self, message: Incoming) -> None:
        self.messages.append(message)

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


class Discarded:
    def acknowledged(self, delivery: Delivery) -> None:
        pass


@pytest.fixture
def faults() -> Any:
    found: list[BaseException] = []
    yield found
    assert found == []


@pytest.fixture
def link_to(faults: list[BaseException]) -> Any:
    """Makes links that hear `cmd/+`, started."""
    links: list[MqttLink] = []

    def make(port: int, handler: Any, **keys: Any) -> MqttLink:
        config = MqttConfig.model_validate(
            {"host": "127.0.0.1", "port": port, "retry": {"initial_delay": 0.05, "max_delay": 0.2}} | keys
        )
        outbox = Outbox(config.outbox, lambda topic, number: None)
        link = MqttLink(config, "hears", "d/availability", outbox, Discarded(), faults.append)
        link.subscribe("d/cmd/+", handler)
        links.append(link)
        link.start(10.0)
        wait_until(lambda: link.stats.published > 0, "`online`, which the broker takes after the subscription")
        return link

    yield make
    for link in links:
        link.close(1.0)


@pytest.fixture
def publish(broker: Mosquitto) -> Any:
    """Publishes as another client, MQTT 5, and waits until the broker has it."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)

    def send(topic: str, payload: bytes, retain: bool = False, **properties: Any) -> None:
        if not client.is_connected():
            client.connect("127.0.0.1", broker.port)
            client.loop_start()
        beside = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        for name, value in properties.items():
            setattr(beside, name, value)
        client.publish(topic, payload, 1, retain, beside).wait_for_publish(60)

    yield send
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_messages_reach_the_handler_of_their_topic_in_order(
    broker: Mosquitto, link_to: Any, publish: Any, version: Any
) -> None:
    heard = Heard()
    link_to(broker.port, heard, version=version)
    publish("d/other", b"not subscribed")
    for number in range(20):
        publish("d/cmd/count", str(number).encode())
    wait_until(lambda: len(heard.messages) == 20, "20 messages")
    assert heard.payloads == [str(number).encode() for number in range(20)]
    assert {message.topic for message in heard.messages} == {"d/cmd/count"}
    assert not any(message.retained for message in heard.messages)


def test_subscribed_again_after_the_broker_restarted_empty(broker: Mosquitto, link_to: Any, publish: Any) -> None:
    heard = Heard()
    link = link_to(broker.port, heard)
    broker.stop()
    wait_until(lambda: not link.connected, "the outage")
    broker.start()
    wait_until(lambda: link.stats.published == 2, "the second `online`")
    publish("d/cmd/x", b"again")
    wait_until(lambda: bool(heard.messages), "the message")


def test_response_topic_and_correlation_data_are_used_for_the_answer(
    broker: Mosquitto, link_to: Any, publish: Any, faults: list[BaseException]
) -> None:
    heard = Heard()
    link = link_to(broker.port, heard)
    publish("d/cmd/x", b"{}", ResponseTopic="me/answers", CorrelationData=b"\x00\xff42")
    wait_until(lambda: bool(heard.messages), "the message")
    assert heard.messages[0].response_topic == "me/answers"
    assert heard.messages[0].correlation == b"\x00\xff42"

    answers: list[paho.MQTTMessage] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    subscribed = threading.Event()
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda _client, _data, message: answers.append(message)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.subscribe("me/answers", 1)
    assert subscribed.wait(60)
    link.send(OutgoingMessage("me/answers", b"done", 1, retain=False, correlation=b"\x00\xff42"))
    wait_until(lambda: bool(answers), "the answer")
    client.disconnect()
    client.loop_stop()
    assert answers[0].properties is not None
    assert answers[0].properties.CorrelationData == b"\x00\xff42"


def test_a_retained_message_is_marked_as_such(broker: Mosquitto, link_to: Any, publish: Any) -> None:
    publish("d/cmd/x", b"kept", retain=True)
    heard = Heard()
    link_to(broker.port, heard)
    wait_until(lambda: bool(heard.messages), "the retained message")
    assert heard.messages[0].retained


@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_a_message_that_is_too_long_is_never_handed_on(
    broker: Mosquitto, link_to: Any, publish: Any, version: Any
) -> None:
    heard = Heard()
    link = link_to(broker.port, heard, version=version)
    publish("d/cmd/x", bytes(LONGEST + 1))
    publish("d/cmd/x", bytes(20 * LONGEST))
    publish("d/cmd/x", bytes(LONGEST))
    wait_until(lambda: bool(heard.messages), "the message that is short enough")
    assert heard.payloads == [bytes(LONGEST)]
    assert link.connects == 1


def test_a_flood_is_bounded_and_the_link_still_sends(
    broker: Mosquitto, link_to: Any, publish: Any, caplog: pytest.LogCaptureFixture
) -> None:
    go = threading.Event()
    heard = Heard()

    def slow(message: Incoming) -> None:
        go.wait(60)
        heard(message)

    with caplog.at_level(logging.WARNING, "edgemeta.daemon.mqtt.subscriptions"):
        link = link_to(broker.port, slow)
        for number in range(3 * WAITING):
            publish("d/cmd/x", str(number).encode())
        published = link.stats.published
        link.send(OutgoingMessage("d/numbers", b"1", 1, retain=False))
        wait_until(lambda: link.stats.published == published + 1, "a message to go out while the handler is busy")
        wait_until(lambda: link.inbox.dropped["waiting"] > 0, "the flood")
    go.set()
    wait_until(lambda: len(heard.messages) + link.inbox.dropped["waiting"] == 3 * WAITING, "the rest")
    assert WAITING <= len(heard.messages) <= WAITING + 1
    assert caplog.text.count(" dropped: ") == 1


def test_a_handler_that_fails_ends_the_service(faults: list[BaseException]) -> None:
    inbox = SubscriptionQueue(faults.append)
    inbox.subscribe("#", lambda message: 1 // 0)
    inbox.start()
    inbox.put(Incoming("t", b""))
    wait_until(lambda: bool(faults), "the fault")
    assert isinstance(faults.pop(), ZeroDivisionError)
    inbox.stop(1.0)


def test_a_refused_subscription_is_logged(link_to: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Played by a socket: mosquitto's access lists let everybody subscribe, and then pass nothing on."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(bytes([0x20, 3, 0, 0, 0]))  # CONNACK: accepted
            asked = connection.recv(4096)
            connection.sendall(bytes([0x90, 4, asked[2], asked[3], 0, 0x87]))  # SUBACK: not authorized
            connection.sendall(bytes([0x40, 2, 0, 2]))  # PUBACK of `online`
            while connection.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener, caplog.at_level(logging.WARNING):
        broker = threading.Thread(target=serve, args=(listener,))
        broker.start()
        link = link_to(listener.getsockname()[1], Heard())
        wait_until(lambda: "refuses a subscription to d/cmd/+: not authorized" in caplog.text, "the refusal")
        assert link.connected
        link.close(0.2)
        broker.join(60)
